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

from modgap._validate import InputValueError
from modgap.reproduce.flickr8k.methods import (
    CLOSURES,
    FIRST_STEPS,
    METHODS,
    PRESET,
    RECIPES,
    SEEDS,
)
from modgap.reproduce.flickr8k.results import FIRST, gather, read_runs, spread
from modgap.reproduce.flickr8k.transfer import digits_task, fashion_task
from modgap.train import load_config
from modgap.train.config import differences


@pytest.mark.parametrize("name", [*RECIPES, *(recipe.name for recipe in CLOSURES)])
def test_a_recipe_is_the_preset_with_its_settings_and_nothing_else(name) -> None:
    recipe = RECIPES.get(name) or next(r for r in CLOSURES if r.name == name)
    base, changed = load_config(PRESET).to_dict(), load_config(PRESET, recipe.settings).to_dict()
    moved = {said.split(" ")[0] for said in differences(base, changed)}
    named = {setting.partition("=")[0] for setting in recipe.settings}
    if "temperature.name" in named:
        named.add("temperature.rate")  # a temperature that is named anew drops the preset's rate
    assert moved <= named
    assert not set(recipe.file) & set(' /,"')


def test_every_recipe_has_a_name_and_a_file_of_its_own() -> None:
    files = [recipe.file for recipe in (*RECIPES.values(), *CLOSURES)]
    assert len(set(files)) == len(files)
    assert all(recipe.after in ("", *RECIPES) for recipe in RECIPES.values())


def test_the_results_are_those_of_the_recipes() -> None:
    runs = read_runs()
    recipes = {**RECIPES, **{recipe.name: recipe for recipe in CLOSURES}}
    assert set(runs.runs) == {*recipes, FIRST}
    for name, found in runs.runs.items():
        if name == FIRST:
            assert {run["rate"]: len(run["starts"]) for run in found} == FIRST_STEPS
            continue
        seeds = [run["seed"] for run in found]
        assert sorted(seeds) == sorted(set(seeds) & set(SEEDS))
        for run in found:
            assert tuple(run["settings"]) == recipes[name].settings


def test_every_method_was_trained_with_three_seeds_but_one() -> None:
    runs = read_runs()
    few = {recipe.name for recipe in METHODS if len(runs.of(recipe.name)) < len(SEEDS)}
    assert few <= {"SS 0.05"}


def test_the_metrics_of_a_run_fit_its_course() -> None:
    for name, found in read_runs().runs.items():
        for run in found if name in RECIPES else ():
            metrics, course = run["metrics"], run["course"]
            assert all(math.isfinite(value) for value in metrics.values())
            assert len(course["steps"]) == len(course["gap"]) == len(course["temperature"])
            assert course["steps"] == sorted(course["steps"])
            # The course uses 512 pairs of its own, drawn otherwise.
            assert course["gap"][-1] == pytest.approx(metrics["pairs_gap_distance"], abs=0.05)


def test_a_spread_is_mean_and_sample_deviation() -> None:
    found = spread([1.0, 2.0, 4.0])
    assert (found.mean, found.n) == (pytest.approx(7 / 3), 3)
    assert found.deviation == pytest.approx(np.std([1, 2, 4], ddof=1))
    assert math.isnan(spread([1.0]).deviation)


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


def test_the_transfer_tasks_have_a_text_for_every_label(tmp_path) -> None:
    for task in (digits_task(), fashion_task(write_fashion(tmp_path))):
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

    monkeypatch.setattr(runner, "SEEDS", (0,))
    small = [
        "model.name=clip-tiny", "model.dimension=32", "data.image_size=32",
        "data.context_length=16", "data.vocab_size=320", "train.batch_size=8", "train.epochs=1",
        "train.device=cpu", "evaluate.pairs=8",
    ]  # fmt: skip
    command = [
        "flickr8k", str(write_captions(tmp_path)), "-o", str(tmp_path / "runs"), "--gather",
        "--fashion", str(write_fashion(tmp_path)), "--only", "FLT 0.01",
        "--only", "fine-tuned at 1/10", *(word for s in small for word in ("--set", s)),
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
    # Weights that others start from and the metrics stay, the rest goes.
    left = {path.name for path in (tmp_path / "runs").iterdir()}
    assert left == {
        "FLT 0.01-0.safetensors", "FLT-0.01-0.json", "fine-tuned-at-1-10-0.json", "results.json",
    }  # fmt: skip
    before = (tmp_path / "runs" / "FLT-0.01-0.json").stat().st_mtime_ns
    runner.main()
    assert (tmp_path / "runs" / "FLT-0.01-0.json").stat().st_mtime_ns == before


def test_gathered_runs_are_a_line_each(tmp_path) -> None:
    for name in ("b", "a"):
        (tmp_path / f"{name}.json").write_text(json.dumps({"recipe": name}))
    out = tmp_path / "results.json"
    for _ in range(2):  # what was gathered before is no run
        assert gather(tmp_path, out).startswith("2 runs")
    assert out.read_text() == '[\n{"recipe": "a"},\n{"recipe": "b"}\n]\n'
    assert list(read_runs(out).runs) == ["a", "b"]
