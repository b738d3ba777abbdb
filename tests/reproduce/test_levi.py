"""Levi and Gilboa 2025: what is printed and found in numbers, and how it is measured."""

from __future__ import annotations

import re

import numpy as np
import pytest

from modgap import measures
from modgap.datasets.digits import measure_scans
from modgap.measures import origin_landscape
from modgap.reproduce import Outcome, Setting
from modgap.reproduce.levi2025 import PAPER
from modgap.reproduce.levi2025.landscape import READINGS, moved_curves
from modgap.reproduce.levi2025.resampled import (
    Binned,
    around,
    divergences,
    of_features,
    row_weights,
    share_interval,
)
from modgap.reproduce.levi2025.row_sets import BINS, digits, extremeness
from outcomes import outcome_of, published_outcome

pytestmark = pytest.mark.xdist_group("levi2025")  # every entry is run once


def alone(name: str) -> Outcome:
    """What an entry finds on the digits."""
    return outcome_of(f"levi2025/{name}", published=False)


def test_what_an_entry_needs_is_measured_by_functions_that_there_are():
    named = {name for e in PAPER for name in re.findall(r"(\w+)\(X\b", e.how)}
    assert len(named) >= 10
    assert [name for name in sorted(named) if not hasattr(measures, name)] == []


def test_the_published_numbers_fit_each_other():
    # Section 4: mean radius 7.5873, variance 0.1914; section 6: slope 1.461 at an offset of 0.94.
    root = (7.5873**2 + 0.1914) ** 0.5
    assert root == pytest.approx(7.5999, abs=5e-5)
    measured = alone("fig9").measured
    implied = measured["slope by proposition 1 from the published offset, image"]
    assert implied == pytest.approx(1.461, abs=2e-3)
    # Appendix C.1 puts the mean radius in for the norm of the mean.
    printed = (7.59**2 + 7.587**2) ** 0.5 / 7.587
    assert printed == pytest.approx(2**0.5, abs=1e-3)


def test_the_printed_slope_of_the_texts_is_not_that_of_their_printed_offset():
    found = {c.statement: c for c in alone("fig9").checks if c.about == "paper"}
    assert [check.holds for check in found.values()] == [True, False]


@pytest.mark.published
def test_numbers_of_the_published_rows():
    measured = published_outcome("levi2025/fig11").measured
    assert measured["KL at α = 0, CLIP"] == pytest.approx(0.133, abs=5e-4)
    assert published_outcome("levi2025/fig3").measured["tag features"] == 17
    # The paper's 93 and 134, counted from 1, in the same model on other pictures.
    for name in ("Unsplash", "ImageNet"):
        telling = published_outcome("levi2025/fig2").measured[
            f"most telling features, from 0, {name}"
        ]
        assert {"92", "133"} <= set(telling.split(", "))
    # Raw rows of the paper's model have the printed correlation, 0.9998.
    assert published_outcome("levi2025/fig9").measured["Pearson, text"] == pytest.approx(
        0.99984, abs=5e-6
    )


@pytest.mark.published
def test_the_loss_of_matched_rows_falls_all_the_way_to_the_origin():
    measured = published_outcome("levi2025/fig6").measured
    for name in ("CLIP", "Unsplash"):
        said = f"rank correlation of α and the loss of the matched, 0 to 1, {name}"
        first, *others = (measured[f"{said}, {reading}"] for reading in READINGS)
        assert first < -0.98
        assert min(others) > 0.5


@pytest.mark.parametrize("move", ["x", "y", "both"])
def test_moved_curves_are_those_of_the_origin_landscape(pairs, move):
    X, Y = pairs
    alphas = [-1.0, -0.5, 0.0, 0.5, 1.0]
    found = moved_curves(X, Y, alphas, move, 0.1)
    expected = origin_landscape(X, Y, alphas, move, 0.1, bins=BINS)
    for name in ("loss", "alignment", "uniformity"):
        assert getattr(found, name)[0] == pytest.approx(getattr(expected, name), abs=1e-9), name
    for name in ("matched", "mismatched"):
        first = next(iter(getattr(found, name).values()))[0]
        assert first == pytest.approx(getattr(expected, name), abs=1e-9), name
    assert found.divergence[0] == pytest.approx(expected.conformity_divergence, abs=1e-6)


def test_each_reading_of_matched_is_what_it_says(pairs):
    X, Y = pairs
    alphas = [-0.5, 0.0, 0.5]
    found = moved_curves(X, Y, alphas, "x", 0.1)
    losses, hits = [], []
    for alpha in alphas:
        sides = [A / np.linalg.norm(A, axis=1)[:, None] for A in (X - alpha * X.mean(0), Y)]
        S = sides[0] @ sides[1].T / 0.1
        losses.append([np.log(np.exp(S).sum(k)) - np.diag(S) for k in (1, 0)])
        hits.append([S.argmax(k) == np.arange(len(S)) for k in (1, 0)])
    for reading, (anew, by_side) in READINGS.items():
        for k in range(3):
            told = hits[k if anew else 1]
            if not by_side:
                told = [told[0], told[0]]
            wanted = np.concatenate(losses[k])[np.concatenate(told)].mean()
            others = np.concatenate(losses[k])[~np.concatenate(told)].mean()
            assert found.matched[reading][0, k] == pytest.approx(wanted), reading
            assert found.mismatched[reading][0, k] == pytest.approx(others), reading


def test_pairs_drawn_anew_are_weighted_means(pairs):
    X, Y = pairs
    found = moved_curves(X, Y, [0.0], "x", 0.1)
    S = (X / np.linalg.norm(X, axis=1)[:, None]) @ (Y / np.linalg.norm(Y, axis=1)[:, None]).T / 0.1
    per_pair = (np.log(np.exp(S).sum(1)) + np.log(np.exp(S).sum(0))) / 2 - np.diag(S)
    assert found.loss[1:, 0] == pytest.approx(row_weights(len(X)) @ per_pair)


def test_divergences_of_drawn_rows_are_those_of_the_rows_themselves(pairs):
    x, y = pairs[0][:, 0], pairs[1][:, 0]
    weights = row_weights(len(x), draws=1)
    drawn = np.repeat(np.arange(len(x)), np.rint(weights[0] * len(x)).astype(int))
    # With the first and the last value on both sides, the bins stay the same.
    binned = Binned.of(x[None], y[None], 20)
    low, high = min(x.min(), y.min()), max(x.max(), y.max())
    p, q = (np.histogram(v[drawn], 20, (low, high))[0] + 1e-10 for v in (x, y))
    p, q = p / p.sum(), q / q.sum()
    expected = np.sum(p * np.log(p / q))
    assert divergences(binned, weights, weights)[0, 0] == pytest.approx(expected, abs=1e-6)


def test_intervals_of_rows_drawn_anew():
    rng = np.random.default_rng(0)
    rows = rng.normal(1, 1, size=(400, 3))
    found = of_features(lambda means, _: means.mean(axis=-1), rows)
    half = 1.96 / (3 * 400) ** 0.5
    assert found.value == pytest.approx(rows.mean())
    assert (found.low, found.high) == pytest.approx(
        (found.value - half, found.value + half), abs=0.2 * half
    )
    # As far below the value as the draws lie above it.
    biased = around(1.0, np.linspace(1.0, 2.0, 101))
    assert (biased.low, biased.high) == pytest.approx((0.025, 0.975))


def test_shares_of_none_and_all_have_an_interval():
    none, every = share_interval(np.zeros(100)), share_interval(np.ones(100))
    assert (none.low, every.high) == pytest.approx((0, 1))
    assert none.high == pytest.approx(1 - every.low) == pytest.approx(0.037, abs=1e-3)


def test_digits_are_raw_rows_with_one_caption_each():
    rows = digits(Setting())
    assert rows.X.shape == rows.Y.shape == (1797, 64)
    assert len(rows.captions) == 1797
    assert np.ptp(np.linalg.norm(rows.X, axis=1)) > 0.1
    assert len(digits(Setting(), "test").X) == 1000


def test_extremeness_is_the_mean_distance_of_the_ranks_from_the_middle():
    images = digits(Setting()).images[:50]
    expected = []
    for values in measure_scans(images).values():
        below = (values[:, None] > values[None]).sum(1)
        equal = (values[:, None] == values[None]).sum(1)
        expected.append(np.abs((below + equal / 2) / 50 - 0.5))
    assert extremeness(images) == pytest.approx(np.mean(expected, axis=0))
