"""Levi and Gilboa 2025: every figure has its entry, and what the entries found still holds."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from conftest import EMBEDDINGS
from modgap import measures
from modgap._results import to_json
from modgap.datasets.digits import measure_scans
from modgap.measures import origin_landscape
from modgap.reproduce import NotAtHand, Outcome, Setting
from modgap.reproduce.drawing import bin_counts, limits, some
from modgap.reproduce.levi2025 import PAPER
from modgap.reproduce.levi2025.landscape import moved_curves
from modgap.reproduce.levi2025.resampled import (
    Binned,
    around,
    divergences,
    of_features,
    row_weights,
    share_interval,
)
from modgap.reproduce.levi2025.row_sets import BINS, digits, extremeness
from modgap.reproduce.setting import OwnRows
from modgap.reproduce.statistics import rank_correlation
from outcomes import outcome_of
from planted.levi2025 import SLOW

pytestmark = pytest.mark.xdist_group("levi2025")  # every entry is run once

# Entry → what it finds on the rows at hand, and with the digits alone.
FINDINGS = {
    "fig1": ("holds", "holds"),
    "fig2": ("holds", "holds"),
    "fig3": ("holds", "fails"),
    "fig4": ("holds", "holds"),
    "fig5": ("holds", "holds"),
    "fig6": ("holds", "holds"),
    "fig7": ("holds", "holds"),
    "fig8": ("holds", "holds"),
    "fig9": ("holds", "fails"),
    "fig10": ("holds", "fails"),
    "fig11": ("fails", "holds"),
    "fig12": ("holds", "holds"),
    "fig14": ("fails", "holds"),
    "fig15": ("fails", "fails"),
    "fig16": ("holds", "fails"),
    "fig17": ("holds", "fails"),
    "fig18": ("fails", "fails"),
    "fig19": ("fails", "fails"),
    "fig20": ("holds", "holds"),
    "fig21": ("fails", "holds"),
    "fig22": ("fails", "too small to say"),
    "fig23": ("holds", "fails"),
    "fig24": ("holds", "fails"),
}
RUNNABLE = list(FINDINGS)
# Compare rows with the pictures behind them.
NEED_SCANS = ["fig1", "fig8", "fig19", "fig20"]
# These, and one that makes its own.
NO_ROWS = [*NEED_SCANS, "fig7"]


def entry(name: str):
    return PAPER.entries[f"levi2025/{name}"]


def outcome(name: str, published: bool = True) -> Outcome:
    """The outcome of the fast setting with the first seed, run once."""
    if published and len(EMBEDDINGS) < 2:
        pytest.skip("the published embeddings are not at hand")
    return outcome_of(f"levi2025/{name}", published=published)


def test_there_is_one_entry_for_each_of_the_24_figures_in_order():
    assert list(PAPER.entries) == [f"levi2025/fig{k}" for k in range(1, 25)]
    assert [e.key for e in PAPER if e.run is None] == ["levi2025/fig13"]
    assert {e.needs for e in PAPER} == {"nothing", "digits", "model"}


def test_every_entry_says_what_it_claims_and_what_it_needs():
    for e in PAPER:
        assert e.title, e.key
        assert e.claim.endswith("."), e.key
        if e.run is None:
            assert e.needs == "model", e.key
            assert e.how, e.key
        else:
            assert e.fast, e.key
            assert e.full, e.key
            assert e.draw, e.key


def test_what_an_entry_needs_is_measured_by_functions_that_there_are():
    named = {name for e in PAPER for name in re.findall(r"(\w+)\(X\b", e.how)}
    assert len(named) >= 10
    assert [name for name in sorted(named) if not hasattr(measures, name)] == []


@pytest.mark.parametrize("name", RUNNABLE)
def test_checks_are_whole_sentences(name):
    statements = [check.statement for check in outcome(name, published=False).checks]
    assert len(set(statements)) == len(statements) > 0
    assert [s for s in statements if not s.endswith(".") or s[0].islower()] == []


def slow_ones_later(name: str):
    return pytest.param(name, marks=[pytest.mark.long] if name in SLOW else [])


@pytest.mark.published
@pytest.mark.parametrize("name", [slow_ones_later(name) for name in RUNNABLE])
def test_what_the_published_rows_show(name):
    found = outcome(name)
    assert found.kind == ("as printed" if name == "fig7" else "other data")
    assert found.finding == FINDINGS[name][0], [c for c in found.checks if c.finding != "holds"]
    known = {*found.measured, *(published_elsewhere(name))}
    assert set(entry(name).published) <= known


def published_elsewhere(name: str) -> set[str]:
    """Published values of images where rows of texts alone are at hand."""
    of_images = {"fig9", "fig16"}
    return {key for key in entry(name).published if name in of_images and "image" in key}


@pytest.mark.parametrize("name", RUNNABLE)
def test_every_entry_runs_on_the_digits_alone(name):
    found = outcome(name, published=False)
    assert found.finding == FINDINGS[name][1], [c for c in found.checks if c.finding != "holds"]


@pytest.mark.parametrize("name", RUNNABLE)
def test_checks_of_the_claim_say_what_else_might_have_been(name):
    claims = [check for check in outcome(name, published=False).checks if check.about == "claim"]
    assert claims
    assert all(check.otherwise for check in claims)


def own_rows(lengths: float) -> Setting:
    """Made-up pairs of six classes with a gap, whose lengths spread by so much."""
    rng = np.random.default_rng(3)
    latent, labels = rng.standard_normal((120, 24)), np.arange(120) % 6
    sides = []
    for axis in range(2):
        A = latent + axis * rng.standard_normal((120, 24)) + 2 * np.eye(24)[axis]
        by = np.exp(lengths * rng.standard_normal((120, 1)))
        sides.append(by * A / np.linalg.norm(A, axis=1, keepdims=True))
    return Setting(rows=OwnRows(sides[0], sides[1], labels, sides[1][:6]))


@pytest.mark.parametrize("name", [name for name in RUNNABLE if name not in NO_ROWS])
def test_your_own_rows_take_the_place_of_all_others(name):
    setting = own_rows(lengths=0.3)
    found = entry(name).run(setting)
    assert setting.rows.used
    assert found.on == setting.rows.words
    assert entry(name).draw(found)


@pytest.mark.parametrize("name", ["fig2", "fig4", "fig6", "fig10"])
def test_your_own_rows_may_be_at_unit_length(name):
    assert entry(name).run(own_rows(lengths=0.0)).checks


def test_what_needs_pictures_or_lengths_says_so():
    for name in NEED_SCANS:
        with pytest.raises(NotAtHand, match="the pictures behind them"):
            entry(name).run(own_rows(lengths=0.3))
    with pytest.raises(NotAtHand, match="all of one length"):
        entry("fig14").run(own_rows(lengths=0.0))


@pytest.mark.parametrize("name", RUNNABLE)
def test_outcomes_are_json_and_are_drawn_from_it(name):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib.figure import Figure

    found = outcome(name, published=False)
    read = json.loads(to_json(found))
    figure = entry(name).draw(
        Outcome(found.measured, found.checks, read["data"], found.on, found.note)
    )
    assert isinstance(figure, Figure)
    figure.canvas.draw()


@pytest.mark.parametrize("name", ["fig5", "fig7", "fig9", "fig12", "fig24"])
def test_the_same_seed_gives_the_same_numbers(name):
    again = entry(name).run(Setting())
    assert to_json(again) == to_json(outcome(name, published=False))


@pytest.mark.parametrize("name", ["fig5", "fig7", "fig12", "fig24"])
def test_another_seed_draws_anew(name):
    other = entry(name).run(Setting(seed=1))
    assert other.measured != outcome(name, published=False).measured


@pytest.mark.parametrize("name", ["fig10", "fig14"])
def test_what_is_measured_on_given_rows_does_not_depend_on_the_seed(name):
    other = entry(name).run(Setting(seed=1))
    assert to_json(other) == to_json(outcome(name, published=False))


def test_progress_is_reported():
    steps = []
    entry("fig24").run(
        Setting(progress=lambda step, done, total: steps.append((step, done, total)))
    )
    assert steps[0] == ("digits, SLERP", 0, 3)


def test_the_published_numbers_fit_each_other():
    # Section 4: mean radius 7.5873, variance 0.1914; section 6: slope 1.461 at an offset of 0.94.
    root = (7.5873**2 + 0.1914) ** 0.5
    assert root == pytest.approx(7.5999, abs=5e-5)
    measured = outcome("fig9", published=False).measured
    implied = measured["slope by proposition 1 from the published offset, image"]
    assert implied == pytest.approx(1.461, abs=2e-3)
    # Appendix C.1 puts the mean radius in for the norm of the mean.
    printed = (7.59**2 + 7.587**2) ** 0.5 / 7.587
    assert printed == pytest.approx(2**0.5, abs=1e-3)


def test_the_printed_slope_of_the_texts_is_not_that_of_their_printed_offset():
    found = {c.statement: c for c in outcome("fig9", published=False).checks if c.about == "paper"}
    assert [check.holds for check in found.values()] == [True, False]


@pytest.mark.published
def test_numbers_of_the_published_rows():
    measured = outcome("fig11").measured
    assert measured["KL at α = 0, CLIP"] == pytest.approx(0.133, abs=5e-4)
    assert outcome("fig3").measured["tag features"] == 17
    # The paper's 93 and 134, counted from 1, in the same model on other pictures.
    for name in ("Unsplash", "ImageNet"):
        telling = outcome("fig2").measured[f"most telling features, from 0, {name}"]
        assert {"92", "133"} <= set(telling.split(", "))
    # Raw rows of the paper's model have the printed correlation, 0.9998.
    assert outcome("fig9").measured["Pearson, text"] == pytest.approx(0.99984, abs=5e-6)


@pytest.mark.published
def test_the_loss_of_matched_rows_falls_all_the_way_to_the_origin():
    measured = outcome("fig6").measured
    for name in ("CLIP", "Unsplash"):
        rank = measured[f"rank correlation of α and the loss of the matched, 0 to 1, {name}"]
        assert rank < -0.98


@pytest.mark.parametrize("move", ["x", "y", "both"])
def test_moved_curves_are_those_of_the_origin_landscape(pairs, move):
    X, Y = pairs
    alphas = [-1.0, -0.5, 0.0, 0.5, 1.0]
    found = moved_curves(X, Y, alphas, move, 0.1)
    expected = origin_landscape(X, Y, alphas, move, 0.1, bins=BINS)
    for name in ("loss", "alignment", "uniformity", "matched", "mismatched"):
        assert getattr(found, name)[0] == pytest.approx(getattr(expected, name), abs=1e-9), name
    assert found.divergence[0] == pytest.approx(expected.conformity_divergence, abs=1e-6)


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


def test_rank_correlation_is_spearmans():
    from scipy.stats import spearmanr

    rng = np.random.default_rng(3)
    a, b = rng.integers(0, 9, size=(2, 40))
    assert rank_correlation(a, a + b) == pytest.approx(spearmanr(a, a + b).statistic)
    assert rank_correlation(a, -a) == pytest.approx(-1)


def test_histograms_share_their_bins_and_may_leave_out_the_top():
    groups = {"a": np.arange(100.0), "b": np.array([0.0, 1e6])}
    assert [sum(c) for c in bin_counts(groups)["counts"].values()] == [100, 2]
    cut = bin_counts(groups, tail=0.05)
    assert len(cut["edges"]) == BINS + 1
    assert cut["edges"][-1] < 100


def test_pictures_show_at_most_what_they_can():
    rows = np.arange(4000.0).reshape(2000, 2)
    assert len(some(rows)) == 600
    assert some(rows[:5]).tolist() == rows[:5].tolist()
    (low, high), _ = limits({"rows": rows})
    assert low < 0
    assert high > 3998


@pytest.mark.long
@pytest.mark.published
@pytest.mark.parametrize("name", RUNNABLE)
def test_the_full_setting_finds_the_same(name):
    found = entry(name).run(Setting(full=True, embeddings=EMBEDDINGS))
    assert found.finding == outcome(name).finding
