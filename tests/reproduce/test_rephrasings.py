"""What is measured of trained towers with captions in other words, and without normalisation."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("transformers", reason="transformers is not installed")
pytest.importorskip("PIL.Image", reason="Pillow is not installed")

import torch

from modgap.evaluation.robustness import noise_correlation
from modgap.reproduce.flickr8k.rephrasings import (
    gap_without_normalisation,
    rephrasings,
)
from modgap.reproduce.flickr8k.results import Runs
from modgap.train.data import Data, Split, load_data
from modgap.train.towers.build import make_two_tower
from modgap.train.towers.normalisation import without_normalisation
from training import bars_config, write_captions

N, K, D = 60, 3, 16


class Lookup(torch.nn.Module):
    """Towers that know the row of every photo and of every caption by its number."""

    def __init__(self, X, Y):
        super().__init__()
        self.rows = torch.nn.ParameterList([torch.tensor(X), torch.tensor(Y.reshape(-1, D))])

    def encode_image(self, pixels):
        return self.rows[0][pixels[:, 0, 0, 0].long()]

    def encode_text(self, tokens):
        return self.rows[1][tokens[:, 0]]


def measured(X, Y):
    numbers, first = torch.arange(N), torch.arange(N) * K
    split = Split(
        numbers.byte()[:, None, None, None], torch.arange(N * K)[:, None], first,
        torch.full_like(first, K),
    )  # fmt: skip
    data = Data(split, split, 1, None, augment=torch.Tensor.float, prepare=torch.Tensor.float)
    return rephrasings(Lookup(X, Y), data)


@pytest.fixture
def X():
    return np.random.default_rng(0).normal(size=(N, D))


def shifted(X, noise):
    """Captions where the photos are, apart by a gap, and by noise in each wording."""
    gap = np.eye(D)[0] * 8
    return X[:, None] + gap + noise


def test_captions_of_one_photo_that_hardly_differ_are_chosen_as_before(X):
    found = measured(X, X[:, None] + np.random.default_rng(5).normal(size=(N, K, D)) / 1000)
    assert found["rephrasing_clean"] == found["rephrasing_as_trained"] == 1
    assert found["rephrasing_closed"] == 1
    assert found["rephrasing_clean_changed"] == 0


def test_captions_of_other_photos_are_chosen_by_chance(X):
    rng = np.random.default_rng(1)
    found = measured(X, rng.normal(size=(N, K, D)))
    assert found["rephrasing_as_trained"] == pytest.approx(1 / 4, abs=0.1)
    assert found["rephrasing_clean_changed"] == 0


def test_closing_the_gap_helps_against_wordings_that_move_along_it(X):
    rng = np.random.default_rng(2)
    along = rng.normal(size=(N, K, 1)) * np.eye(D)[0] * 4
    along[:, 0] = 0
    found = measured(X, shifted(X, along))
    assert found["rephrasing_closed"] > found["rephrasing_as_trained"]
    assert found["rephrasing_as_trained"] > found["rephrasing_widened"]
    assert 0 < found["rephrasing_gap_closed"] <= 1
    across = measured(X, shifted(X, rng.normal(size=(N, K, D)) / 10))
    assert found["rewording_along_gap"] > 2 * across["rewording_along_gap"]


def test_wordings_are_correlated_where_coordinates_move_together(X):
    rng = np.random.default_rng(3)
    together = rng.normal(size=(N, K, 1)) * np.ones(D)
    found = measured(X, shifted(X, together))
    assert found["rewording_correlation"] > 0.9
    apart = measured(np.eye(D)[rng.integers(D, size=N)], rng.normal(size=(N, K, D)))
    chance = apart["rewording_correlation_by_chance"]
    assert apart["rewording_correlation"] == pytest.approx(chance, abs=0.1)
    assert found["rewording_correlation_by_chance"] < 0.7


def test_the_least_correlated_change_is_reported(X):
    Y = shifted(X, np.random.default_rng(4).normal(size=(N, K, D)))
    units = Y / np.linalg.norm(Y, axis=2, keepdims=True)
    changes = [units[:, b] - units[:, a] for a in range(K) for b in range(a + 1, K)]
    least = min(noise_correlation(change) for change in changes)
    assert measured(X, Y)["rewording_correlation"] == pytest.approx(least)


def test_metrics_come_seed_by_seed_and_none_where_a_run_has_none():
    runs = Runs({"one": [{"metrics": {"a_b": k, "c_b": 9}} for k in (1, 3)], "other": []})
    assert {name: values.tolist() for name, values in runs.by_seed("one", "a_").items()} == {
        "b": [1, 3]
    }
    assert runs.by_seed("one", "d_") == runs.by_seed("other", "a_") == runs.by_seed("x", "a_") == {}


@pytest.fixture(scope="module")
def bars(tmp_path_factory):
    config = bars_config(write_captions(tmp_path_factory.mktemp("bars")))
    return load_data(config.data), make_two_tower(
        {"name": "resnet-tiny", "text": {"context_length": 16, "vocab_size": 320}}
    )


def test_the_gap_without_normalisation_is_that_of_bare_towers_on_bare_pixels(bars):
    data, model = bars
    bare = without_normalisation(model).eval()
    with torch.no_grad():
        rows = bare(data.test.pixels.float() / 255, data.test.tokens[data.test.first].long())
    centres = [torch.nn.functional.normalize(side, dim=1).mean(0) for side in rows]
    found = gap_without_normalisation(model, data)
    assert found["unnormalised_gap"] == pytest.approx(
        float((centres[0] - centres[1]).norm()), rel=1e-4
    )
    assert found["unnormalised_gap"] != pytest.approx(found["normalised_gap"], rel=1e-3)
    for name in ("normalised", "unnormalised"):
        assert found[f"{name}_gap"] > found[f"{name}_gap_by_chance"]
        assert found[f"{name}_told_apart"] > found[f"{name}_told_apart_by_chance"]


def test_numbers_that_grow_beyond_all_bounds_are_none(bars):
    data, model = bars
    with torch.no_grad():
        before = model.image.projection.weight.clone()
        model.image.projection.weight.fill_(torch.inf)
    found = gap_without_normalisation(model, data)
    model.image.projection.weight.data = before
    assert np.isnan(found["unnormalised_gap"])
