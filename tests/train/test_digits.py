"""`modgap train digits` makes a file like the one that ships, in layout and in metrics."""

from __future__ import annotations

import json
import struct

import numpy as np
import pytest
from safetensors import safe_open

from modgap.datasets import digits as shipped
from modgap.datasets import load_digits
from training import digits_config

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("tokenizers", reason="tokenizers is not installed")

from modgap.train import load_config, load_data, make_config, train  # noqa: E402
from modgap.train.digits import digits_metrics  # noqa: E402


def contents(path):
    with safe_open(path, framework="numpy") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        return tensors, json.loads(file.metadata()["recipe"])


def layout(path):
    """The header of a safetensors file: names, types, shapes and places of the tensors."""
    stored = path.read_bytes()
    (length,) = struct.unpack("<Q", stored[:8])
    header = json.loads(stored[8 : 8 + length])
    return header.pop("__metadata__").keys(), list(header.items())


pytestmark = pytest.mark.xdist_group("digits run")  # it is trained once


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A seventh of the recipe."""
    folder = tmp_path_factory.mktemp("digits")
    return train(
        load_config("digits", ["train.epochs=50", "train.loggers=[]"]), output=folder
    ), folder


def kinds(value):
    """The names and types in a recipe, in order."""
    if isinstance(value, dict):
        return [(name, kinds(inner)) for name, inner in value.items()]
    return type(value)


def test_the_file_has_the_layout_of_the_one_that_ships(run):
    _, folder = run
    made, recipe = contents(folder / "digits.safetensors")
    ours, ours_recipe = contents(shipped.EMBEDDINGS)
    assert layout(folder / "digits.safetensors") == layout(shipped.EMBEDDINGS)
    np.testing.assert_array_equal(made["is_train"], ours["is_train"])
    assert kinds(recipe) == kinds(ours_recipe)
    for name in ("version", "seed", "temperature", "captions_sha256"):
        assert recipe[name] == ours_recipe[name], name
    assert recipe["epochs"] == 50


@pytest.mark.parametrize("split", ["train", "test", "all"])
def test_the_file_is_read_as_the_one_that_ships(run, split, monkeypatch):
    _, folder = run
    ours = load_digits(split)
    monkeypatch.setattr(shipped, "EMBEDDINGS", folder / "digits.safetensors")
    made = load_digits(split)
    assert (made.X.shape, made.Y.shape) == (ours.X.shape, ours.Y.shape)
    for side in (0, 1):
        np.testing.assert_array_equal(made.groups[side], ours.groups[side])
    assert made.captions == ours.captions
    if split != "all":
        gap = np.linalg.norm(made.X.mean(0) - made.Y.mean(0))
        assert gap == pytest.approx(made.recipe[split]["gap_distance"], abs=1e-4)
        by_wording = made.Y.reshape(-1, 5, 64).transpose(1, 0, 2)
        found = [np.diag(made.X @ Y.T) >= (made.X @ Y.T).max(1) for Y in by_wording]
        recorded = made.recipe[split]["image_to_text_recall@1"]
        assert np.mean(found) == pytest.approx(recorded, abs=2e-3)


@pytest.mark.parametrize("split", ["train", "test"])
def test_the_metrics_are_measured_as_those_that_ship_were(split):
    rows = load_digits(split, unit=False)
    metrics = digits_metrics(rows.X, rows.Y.reshape(len(rows.X), 5, -1))
    assert metrics == pytest.approx(rows.recipe[split], abs=1e-6)


def test_the_recipe_says_what_the_run_has_come_to(tmp_path):
    config = load_config(
        "digits",
        ["train.steps=2", "train.loggers=[]", "temperature.name=learned", "data.context_length=30"],
    )
    result = train(config, output=tmp_path)
    _, recipe = contents(tmp_path / "digits.safetensors")
    assert recipe["temperature"] == result.temperature > 0
    assert recipe["epochs"] == 0.5


def test_the_digits_have_one_size():
    with pytest.raises(ValueError, match=r"have 8 × 8 pixels: set data\.image_size=8, got 96\."):
        load_data(make_config({"data": {"path": "digits"}}).data)


def test_the_rows_are_in_the_order_of_the_scans(run):
    result, folder = run
    made, _ = contents(folder / "digits.safetensors")
    X, Y = (made[name].astype(np.float32) for name in ("image", "text"))
    X, Y = (rows / np.linalg.norm(rows, axis=-1, keepdims=True) for rows in (X, Y))
    test = ~made["is_train"].astype(bool)
    gap = np.linalg.norm(X[test].mean(0) - Y[test].mean((0, 1)))
    assert gap == pytest.approx(result.evaluation.gap_distance, abs=1e-3)
    own = np.einsum("id,iwd->iw", X, Y)
    others = np.einsum("id,iwd->iw", X, np.roll(Y, 1, axis=0))
    assert np.mean(own > others) > 0.9


def test_a_seventh_of_the_recipe_learns_and_leaves_the_modalities_apart(run):
    result, folder = run
    _, recipe = contents(folder / "digits.safetensors")
    assert recipe["test"]["linear_separability"] == 1.0
    assert recipe["test"]["gap_distance"] > 0.3
    assert recipe["train"]["text_to_image_recall@1"] > 0.1  # chance is 1 in 797
    assert result.evaluation.recall["image_retrieval_recall@10"] > 0.3  # chance is 10 in 1,000


@pytest.mark.long
def test_the_whole_recipe_reaches_the_metrics_that_ship(tmp_path):
    train(load_config("digits", ["train.loggers=[]"]), output=tmp_path)
    _, recipe = contents(tmp_path / "digits.safetensors")
    _, recorded = contents(shipped.EMBEDDINGS)
    # The same seed gives the same scans and other draws; over draws the gap varies by 0.03 and
    # the recalls by 0.02 (over seeds, by 0.09 and 0.02).
    for name, metric in recorded["test"].items():
        spread = 0.1 if name == "gap_distance" else 0.06
        assert recipe["test"][name] == pytest.approx(metric, abs=spread), name


def test_the_data_are_those_of_the_recipe():
    data = load_data(digits_config(data={"context_length": 5}).data)
    assert (len(data.train), len(data.test)) == (797, 1000)
    assert data.train.tokens.shape == (3985, 5)
    everything = load_digits("train")
    rows = torch.from_numpy(everything.images.astype(np.uint8))
    theirs = {tuple(row.flatten().tolist()) for row in rows}
    ours = {tuple(row.flatten().tolist()) for row in data.train.pixels}
    assert theirs == ours
    ink = data.prepare(data.train.pixels)
    assert (float(ink.min()), float(ink.max())) == (0, 1)
    assert data.train.count.tolist() == [5] * 797


def test_a_shared_caption_counts_as_found():
    # Scans 0 and 1 share a caption: both find it, but it finds 0 first.
    image = np.eye(6, dtype=np.float16)
    image[1, :2] = 0.9, 0.4
    text = np.stack([np.eye(6)[[0, 0, 2, 3, 4, 5]]] * 2, axis=1).astype(np.float16)
    metrics = digits_metrics(image, text)
    assert metrics["image_to_text_recall@1"] == 1
    assert metrics["text_to_image_recall@1"] == pytest.approx(5 / 6)
