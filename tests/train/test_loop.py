"""The loop: it learns, it is one loss whatever the parts, it says what stopped it."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

from modgap.io import open_pair
from training import bars_config, digits_config, same_weights

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("transformers", reason="transformers is not installed")
pytest.importorskip("tokenizers", reason="tokenizers is not installed")

from modgap.train import TrainingStopped, train  # noqa: E402
from modgap.train.learner import temperature_of  # noqa: E402
from modgap.train.processes import pick_device  # noqa: E402
from modgap.train.start import make_model  # noqa: E402
from modgap.train.towers.build import TwoTower  # noqa: E402
from training_worker import RUNS  # noqa: E402


def lines(folder) -> list[dict]:
    return [json.loads(line) for line in (Path(folder) / "log.jsonl").read_text().splitlines()]


def test_a_run_reads_trains_measures_and_leaves_its_files(bars, tmp_path):
    config = bars_config(bars, train={"epochs": 12}, evaluate={"every": 25})
    told = []
    result = train(config, output=tmp_path / "run", progress=lambda *words: told.append(words))
    assert result.steps == len(result.losses) == 60
    assert np.mean(result.losses[-5:]) < 0.7 * np.mean(result.losses[:5])
    found = result.evaluation
    assert (found.n_images, found.n_texts, found.n_pairs) == (12, 24, 8)
    assert 0 < found.gap_distance < 2
    assert {path.name for path in (tmp_path / "run").iterdir()} == {
        "config.json", "tokenizer.json", "log.jsonl", "checkpoints", "model.safetensors",
        "embeddings.safetensors", "result.json",
    }  # fmt: skip
    pair = open_pair(tmp_path / "run" / "embeddings.safetensors")
    X, Y = pair.x.rows(), pair.y.rows()
    assert (X.shape, Y.shape, X.dtype) == ((12, 32), (24, 32), np.float16)
    gap = np.linalg.norm(X.astype(float).mean(0) - Y.astype(float).mean(0))
    assert gap == pytest.approx(found.gap_distance, abs=1e-3)
    written = json.loads((tmp_path / "run" / "result.json").read_text())
    assert written["schema"] == "modgap/train/2"
    assert written["evaluation"]["gap_distance"] == found.gap_distance
    assert ("training, loss", 60, 60) in [(w[0][:14], *w[1:]) for w in told]
    measured = [line for line in lines(tmp_path / "run") if "gap_distance" in line]
    assert [line["step"] for line in measured] == [0, 25, 50, 60]
    assert all(line["n_pairs"] == 8 and line["temperature"] > 0 for line in measured)


def test_the_model_of_a_run_gives_the_rows_that_were_saved(bars, bars_data, tmp_path):
    train(bars_config(bars), output=tmp_path, data=bars_data)
    model = TwoTower.load(tmp_path / "model.safetensors").eval()
    with torch.no_grad():
        rows = model.encode_image(bars_data.prepare(bars_data.test.pixels))
    rows = torch.nn.functional.normalize(rows, dim=1)
    saved = open_pair(tmp_path / "embeddings.safetensors").x.rows()
    np.testing.assert_allclose(rows.numpy(), saved, atol=2e-3)


def test_the_seed_fixes_the_weights_whatever_the_callers_generator(digits, tmp_path):
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    train(digits_config(), output=tmp_path / "a", data=digits)
    assert torch.equal(torch.rand(3), expected)
    train(digits_config(), output=tmp_path / "b", data=digits)
    train(digits_config(train={"seed": 1}), output=tmp_path / "c", data=digits)
    assert same_weights(tmp_path / "a", tmp_path / "b")
    assert not same_weights(tmp_path / "a", tmp_path / "c")


def test_every_epoch_shows_every_image_once_with_a_caption_of_its_own(bars, bars_data, tmp_path):
    seen: list[torch.Tensor] = []

    def keep(pixels):
        seen.append(pixels.flatten(1)[:, :900].float().mean(1))
        return bars_data.prepare(pixels)

    data = dataclasses.replace(bars_data, augment=keep)
    train(bars_config(bars, train={"epochs": 2}), output=tmp_path, data=data)
    everything = bars_data.train.pixels.flatten(1)[:, :900].float().mean(1).sort().values
    first, second = torch.cat(seen[:5]), torch.cat(seen[5:])
    assert torch.equal(first.sort().values, everything)
    assert torch.equal(second.sort().values, everything)
    assert not torch.equal(first, second)


def test_captions_are_drawn_evenly_from_those_of_the_image(digits):
    rows = torch.arange(len(digits.train)).repeat(100)
    drawn = digits.train.draw_captions(rows, torch.Generator().manual_seed(0))
    which = drawn - digits.train.first[rows]
    share = torch.bincount(which).double() / len(rows)
    # Five captions, 16,000 draws: a share is off by √(0.2 · 0.8/16,000) = 0.0032.
    assert share.tolist() == pytest.approx([0.2] * 5, abs=4 * 0.0032)
    ends = digits.test.first + digits.test.count
    assert ends[-1] == len(digits.test.tokens)


def test_accumulated_parts_give_the_loss_and_the_weights_of_the_whole_batch(
    bars, bars_data, tmp_path
):
    # No augmentation and no dropout: parts draw for themselves, so only then must they agree.
    data = dataclasses.replace(bars_data, augment=bars_data.prepare)
    runs = {}
    for parts in (1, 3):
        config = bars_config(
            bars,
            train={"batch_size": 20, "accumulation_steps": parts, "steps": 5, "grad_clip_norm": 1},
            temperature={"name": "learned"}, swap={"kind": "soft", "probability": 0.5},
        )  # fmt: skip
        runs[parts] = train(config, output=tmp_path / str(parts), data=data)
    np.testing.assert_allclose(runs[3].losses, runs[1].losses, rtol=1e-4)
    whole, parted = (TwoTower.load(tmp_path / p / "model.safetensors") for p in ("1", "3"))
    for (name, a), b in zip(whole.named_parameters(), parted.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-2, atol=2e-4, msg=name)
    assert runs[3].temperature == pytest.approx(runs[1].temperature, rel=1e-5)


def test_accumulation_moves_batch_norm_statistics_once_per_part(bars, bars_data, tmp_path):
    config = bars_config(
        bars,
        model={"name": "resnet-tiny"},
        train={"batch_size": 20, "accumulation_steps": 2, "steps": 1},
    )
    train(config, output=tmp_path, data=dataclasses.replace(bars_data, augment=bars_data.prepare))
    trained = TwoTower.load(tmp_path / "model.safetensors")
    again = make_model(config, bars_data, torch.device("cpu")).train()
    order = torch.randperm(40, generator=torch.Generator().manual_seed(_first_seed()))
    for part in order.tensor_split(2)[0].tensor_split(2):
        again.encode_image(bars_data.prepare(bars_data.train.pixels[part]))
    name = next(k for k in trained.state_dict() if k.endswith("running_mean"))
    torch.testing.assert_close(trained.state_dict()[name], again.state_dict()[name])


def _first_seed() -> int:
    from modgap.train.data import mix_seeds

    return mix_seeds(0, 0, 2**31)


@pytest.mark.parametrize(
    "sections",
    [
        {"loss": {"normalise": False}},
        {"loss": {"chunked": True}},
        {"swap": {"kind": "hard", "probability": 1.0}},
        {"swap": {"kind": "feature", "probability": 1.0}},
        {"temperature": {"name": "S3", "value": None}},
        {"temperature": {"name": "cosine", "value": None, "low": 0.01, "high": 0.04}},
        {"model": {"name": "digits", "dimension": 24}},
        {"train": {"schedule": "constant"}},
        {"train": {"precision": "bf16"}},
    ],
    ids=lambda sections: "-".join(f"{k}.{n}" for k, v in sections.items() for n in v),
)
def test_every_option_changes_the_run(sections, digits, plain_run, tmp_path):
    result = train(digits_config(**sections), output=tmp_path, data=digits)
    assert np.all(np.isfinite(result.losses))
    if "chunked" in sections.get("loss", {}):
        np.testing.assert_allclose(result.losses, plain_run.losses, rtol=1e-5)
    elif "schedule" in sections.get("train", {}):
        assert result.losses[2] != plain_run.losses[2]
    else:
        assert result.losses[1] != plain_run.losses[1]


@pytest.fixture(scope="module")
def plain_run(digits, tmp_path_factory):
    return train(digits_config(), output=tmp_path_factory.mktemp("plain"), data=digits)


def test_masking_identical_captions_lowers_the_loss_of_bars_that_share_them(
    bars, bars_data, tmp_path
):
    first = {}
    for masked in (False, True):
        config = bars_config(
            bars, train={"steps": 1, "batch_size": 40}, loss={"mask_identical": masked}
        )
        first[masked] = train(config, output=tmp_path / str(masked), data=bars_data).losses[0]
    assert first[True] < first[False] - 0.01


def test_the_dimension_is_that_of_the_rows(digits, tmp_path):
    config = digits_config(model={"dimension": 24}, evaluate={"save_embeddings": True})
    train(config, output=tmp_path, data=digits)
    assert open_pair(tmp_path / "embeddings.safetensors").x.dim == 24


def test_a_schedule_of_the_temperature_ends_where_it_says(digits, tmp_path):
    config = digits_config(temperature={"name": "S3", "value": None}, train={"steps": 8})
    train(config, output=tmp_path, data=digits)
    logged = [line["temperature"] for line in lines(tmp_path) if "loss" in line]
    assert logged == pytest.approx([0.01 + 0.04 * t / 8 for t in range(8)], rel=1e-5)


def test_the_smaller_rate_of_the_temperature_moves_it_less(digits, tmp_path):
    moved = {}
    for rate in (1.0, 0.1):
        config = digits_config(temperature={"name": "learned", "value": None, "rate": rate})
        moved[rate] = abs(
            train(config, output=tmp_path / str(rate), data=digits).temperature - 0.07
        )
    assert 0 < moved[0.1] < 0.3 * moved[1.0]


def start_of(start, bars, data, name="clip-tiny"):
    config = bars_config(bars, model={"name": name, "start": start})
    return make_model(config, data, torch.device("cpu"))


def test_an_amended_start_closes_the_gap_and_keeps_every_cosine_within_a_modality(bars, bars_data):
    plain, amended = (start_of(s, bars, bars_data).eval() for s in ("random", "amended"))
    images, tokens = bars_data.prepare(bars_data.train.pixels), bars_data.train.tokens.long()
    with torch.no_grad():
        rows = [
            torch.nn.functional.normalize(side, dim=1)
            for model in (plain, amended)
            for side in (model.encode_image(images), model.encode_text(tokens))
        ]
    X, Y, X_too, Y_turned = rows
    torch.testing.assert_close(X_too, X)
    torch.testing.assert_close(Y_turned @ Y_turned.T, Y @ Y.T, atol=1e-5, rtol=0)
    before, after = ((X.mean(0) - Z.mean(0)).norm() for Z in (Y, Y_turned))
    assert before > 0.5
    assert after < 0.2 * before


@pytest.mark.parametrize("training", [True, False])
def test_an_amended_start_points_one_way_whichever_statistics_batch_norms_use(
    bars, bars_data, training
):
    images, tokens = bars_data.prepare(bars_data.train.pixels), bars_data.train.tokens.long()
    gaps = []
    for start in ("random", "amended"):
        model = start_of(start, bars, bars_data, "resnet-tiny").train(training)
        with torch.no_grad():
            X, Y = (
                torch.nn.functional.normalize(side, dim=1).mean(0)
                for side in (model.encode_image(images), model.encode_text(tokens))
            )
        gaps.append(float((X - Y).norm()))
    # A rotation cannot make the wider cone narrower: the lengths of the two means still differ.
    assert gaps[0] > 1
    assert gaps[1] == pytest.approx(abs(float(X.norm() - Y.norm())), abs=0.03)


def test_fine_tuning_starts_from_the_weights_of_a_run_and_with_its_tokens(bars, tmp_path):
    first = bars_config(bars)
    train(first, output=tmp_path / "first")
    second = bars_config(bars, model={"weights": str(tmp_path / "first")}, train={"epochs": 0})
    train(second, output=tmp_path / "second")
    assert same_weights(tmp_path / "first", tmp_path / "second")
    assert (tmp_path / "first" / "tokenizer.json").read_bytes() == (
        tmp_path / "second" / "tokenizer.json"
    ).read_bytes()
    other = bars_config(bars, model={"weights": str(tmp_path / "first"), "dimension": 16})
    with pytest.raises(ValueError, match=r"Set \[model\] and \[data\] as in the run they come"):
        train(other, output=tmp_path / "third")


@pytest.mark.filterwarnings("ignore:.*encountered")
def test_a_loss_that_is_no_number_stops_the_run_in_a_sentence(digits, tmp_path):
    def spoil(state):
        if state.step == 2:
            with torch.no_grad():
                next(state.model.parameters()).fill_(float("nan"))

    config = digits_config(train={"steps": 9, "log_every": 4})
    with pytest.raises(
        TrainingStopped,
        match=r"The loss is nan at step 3 of 9\. step-00000002\.safetensors is from before it\. "
        r"Lower train\.learning_rate",
    ):
        train(config, output=tmp_path, data=digits, hooks=[spoil])


MEMORY = r"not enough memory on cpu \(.*80.*[^e]\)\. Raise train\.accumulation_steps, which keeps"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (MemoryError("Unable to allocate 80 GiB\nand more"), MEMORY),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: 80000 bytes\nand more"), MEMORY),
        (torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 80 GiB\nand"), MEMORY),
        (RuntimeError("shapes do not match"), "^shapes do not match$"),
    ],
    ids=["NumPy", "CPU", "GPU", "another"],
)
def test_only_memory_that_runs_out_gets_a_sentence_of_its_own(error, said, digits, tmp_path):
    def hook(_):
        raise error

    stops = TrainingStopped if said is MEMORY else RuntimeError
    with pytest.raises(stops, match=said) as stopped:
        train(digits_config(), output=tmp_path, data=digits, hooks=[hook])
    assert "\n" not in str(stopped.value)


def test_a_gpu_that_is_not_there_is_refused(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert pick_device("cuda:1") == torch.device("cuda", 1)
    with pytest.raises(
        ValueError, match="device is 'cuda:7', but the GPUs here are cuda:0 to cuda:1"
    ):
        pick_device("cuda:7")
    with pytest.raises(ValueError, match=r"must be .*, got 'cuda:all'"):
        pick_device("cuda:all")


def test_a_step_has_one_temperature_in_the_log(bars_data, bars, tmp_path):
    settings = {"steps": 8, "log_every": 4, "batch_size": 20}
    config = bars_config(
        bars, temperature={"name": "S3"}, train=settings, evaluate={"pairs": 8, "every": 4}
    )
    train(config, output=tmp_path, data=bars_data)
    logged: dict[int, set] = {}
    evaluations = []
    for line in map(json.loads, (tmp_path / "log.jsonl").read_text().splitlines()):
        logged.setdefault(line["step"], set()).add(round(line["temperature"], 6))
        evaluations += [line["step"]] if "gap_distance" in line else []
    assert logged == {0: {0.01}, 4: {0.025}, 8: {0.045}}
    assert evaluations == [0, 4, 8]


def test_parts_too_small_to_train_on_are_refused(digits, tmp_path):
    config = digits_config(train={"batch_size": 8, "accumulation_steps": 5})
    with pytest.raises(ValueError, match=r"at least 2 images.*Use larger batches"):
        train(config, output=tmp_path, data=digits)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"name": "fixd"}, "temperature must be one of .*Did you mean 'fixed'"),
        ({"name": "fixed"}, "temperature 'fixed' needs value. Set"),
        ({"name": "fixed", "value": 0.1, "low": 0.2}, "setting of the temperature 'fixed' must be"),
        ({"name": "S3", "value": 0.1}, "setting of the temperature 'S3' must be"),
    ],
)
def test_a_temperature_that_cannot_be_made_is_refused(values, words):
    from modgap.train.config import TemperatureConfig

    with pytest.raises(ValueError, match=words):
        temperature_of(TemperatureConfig(**values), 10)


@pytest.mark.xdist_group("train")
@pytest.mark.parametrize("name", RUNS)
def test_two_processes_train_as_one(name, processes, digits, tmp_path, monkeypatch):
    monkeypatch.setattr(torch.nn.Dropout, "forward", lambda self, x: x)
    one = train(RUNS[name], output=tmp_path, data=digits)
    two = json.loads((processes / name / "result.json").read_text())
    np.testing.assert_allclose(two["losses"], one.losses, rtol=1e-5)
    assert two["temperature"] == pytest.approx(one.temperature, rel=1e-6)
    whole, shared = (TwoTower.load(f / "model.safetensors") for f in (tmp_path, processes / name))
    for a, b in zip(whole.parameters(), shared.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-5)
