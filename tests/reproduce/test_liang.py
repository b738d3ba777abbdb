"""Liang et al. 2022: what is printed and found in numbers, and how it is measured."""

from __future__ import annotations

import numpy as np
import pytest

from conftest import make_pairs
from modgap.arrays import unit
from modgap.measures.landscape import shift_landscape
from modgap.reproduce import Setting
from modgap.reproduce.liang2022 import PAPER
from modgap.reproduce.liang2022.initialisations import unseen_cones
from modgap.reproduce.liang2022.landscape import TEMPERATURES, _landscape
from modgap.reproduce.liang2022.row_statistics import mean_cosine
from modgap.reproduce.liang2022.zero_shot import Classification, shift_sweep
from modgap.reproduce.sources import Pairs
from modgap.reproduce.statistics import best_of_other_half
from outcomes import outcome_of, published_outcome

pytestmark = pytest.mark.xdist_group("liang2022")  # every entry is run once


@pytest.mark.published
def test_fig1_does_without_umap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("modgap.reproduce.liang2022.gap.umap_is_installed", lambda: False)
    outcome = outcome_of.__wrapped__("liang2022/fig1")  # a run of its own
    assert outcome.data["method"] == "pca"
    assert outcome.holds


@pytest.mark.published
def test_the_landscape_of_clip_moves_with_the_temperature() -> None:
    measured = published_outcome("liang2022/fig3").measured
    assert measured["gap"] == pytest.approx(0.8514, abs=1e-4)
    assert measured["least loss at, τ = 1/100"] == pytest.approx(measured["gap"], abs=0.1)
    assert abs(float(measured["least loss at, τ = 1"] or 0)) < 0.05


@pytest.mark.published
def test_closing_the_gap_costs_on_imagenet_and_helps_on_esc50() -> None:
    measured = published_outcome("liang2022/fig10").measured
    assert measured["accuracy at it, ImageNet"] == pytest.approx(0.589, abs=1e-3)
    assert measured["accuracy at it, ESC-50"] == pytest.approx(0.915, abs=1e-3)
    assert float(measured["change when closed, ImageNet"] or 0) < -0.15
    assert float(measured["change when closed, ESC-50"] or 0) > 0.01


@pytest.mark.published
def test_the_gain_of_a_shift_remains_on_held_out_sounds() -> None:
    found = {
        check.statement.partition(":")[0]: check
        for check in published_outcome("liang2022/table1").checks
    }
    assert found["ESC-50"].holds
    assert not found["ImageNet, other wording"].holds
    assert found["ImageNet"].high == pytest.approx(0.01, abs=0.005)


def test_the_landscape_is_that_of_shift_landscape() -> None:
    X, Y = (A.astype(np.float64) for A in make_pairs(n=100, d=16))
    found = _landscape(Setting(), Pairs("made up", X, Y))
    order = np.random.default_rng(0).permutation(100)
    lambdas = np.arange(-10, 51) * 0.05
    wanted = shift_landscape(X[order], Y[order], lambdas.tolist(), TEMPERATURES, batch_size=50)
    assert found.means == pytest.approx(wanted.losses, rel=1e-9)
    assert found.gaps == pytest.approx(wanted.gaps, rel=1e-9)


def test_table5_is_recomputed_to_the_printed_digits() -> None:
    published = PAPER.entries["liang2022/table5"].published
    for name in ("CIFAR10", "CIFAR100", "EuroSAT"):
        measured = outcome_of("liang2022/table5").measured[f"p, {name}"]
        assert measured == pytest.approx(published[f"p, {name}"], rel=1e-3)


def test_the_slips_of_the_paper_are_named() -> None:
    slips = " ".join(slip for entry in PAPER for slip in entry.slips)
    for words in ("0.0078", "ROC-AUC", "25 models", "5.84 %", "½"):
        assert words in slips


def made_up_task(n: int = 300) -> Classification:
    X, Y = (unit(A) for A in make_pairs(n=n, d=16))
    return Classification(X, Y[:10], np.arange(n) % 10)


def test_a_shift_is_never_chosen_on_the_images_it_is_tried_on() -> None:
    found = shift_sweep(made_up_task(1000), np.array([0.0, 0.5]))
    # The second shift is right on one half alone: chosen there, it must fail on the other.
    order = np.random.default_rng(3).permutation(found.hits.shape[1])
    found.hits[:] = 0
    found.hits[1, order[:500]] = 1
    assert best_of_other_half(found.hits, seed=3)[order[500:]].sum() == 0


def test_centres_of_unseen_inputs_tell_networks_apart_only_where_they_differ(rng) -> None:
    rows = rng.standard_normal((200, 8)) + 2 * np.eye(8)[0]
    told_apart, apart, within = unseen_cones([rows, rows @ np.roll(np.eye(8), 1, axis=1)], seed=0)
    assert told_apart > 0.8
    assert apart > 3 * within
    told_apart, apart, within = unseen_cones([rows, rows], seed=0)
    assert told_apart == 0.5
    assert apart == within


def test_a_row_that_is_drawn_twice_is_no_pair_with_itself() -> None:
    rows = np.eye(3)
    assert mean_cosine(rows)(np.array([[2.0, 1.0, 0.0], [1.0, 1.0, 1.0]])).tolist() == [0, 0]
