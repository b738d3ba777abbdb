from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from conftest import EMBEDDINGS, PUBLISHED, make_pairs
from modgap._arrays import unit
from modgap._results import to_json
from modgap.measures.landscape import shift_landscape
from modgap.reproduce import Outcome, Setting
from modgap.reproduce.liang2022 import PAPER
from modgap.reproduce.liang2022.initialisations import unseen_cones
from modgap.reproduce.liang2022.landscape import TEMPERATURES, _landscape
from modgap.reproduce.liang2022.row_statistics import mean_cosine
from modgap.reproduce.liang2022.zero_shot import Classification, shift_sweep
from modgap.reproduce.setting import OwnRows
from modgap.reproduce.sources import Pairs
from modgap.reproduce.statistics import best_of_other_half
from outcomes import outcome_of

pytestmark = pytest.mark.xdist_group("liang2022")  # every entry is run once

KEYS = [f"fig{k}" for k in range(1, 17)] + [f"table{k}" for k in range(1, 6)] + ["section4-4"]

# The kind of evidence of each run with the published rows at hand, and its finding with one seed
# where rows decide it; "" where seeds do, which are pooled elsewhere.
RECORDED = {
    "fig1": ("own settings", "holds"),
    "fig2": ("other data", "holds"),
    "fig3": ("other data", ""),
    "fig4": ("as printed", "holds"),
    "fig5": ("own settings", "holds"),
    "fig6": ("other data", "holds"),
    "fig7": ("other data", "holds"),
    "fig8": ("other data", "too small to say"),
    "fig9": ("own settings", "holds"),
    "fig10": ("other data", "holds"),
    "fig11": ("consistency only", "holds"),
    "fig12": ("consistency only", "holds"),
    "fig13": ("other data", ""),
    "fig14": ("other data", "holds"),
    "fig15": ("other data", "holds"),
    "fig16": ("other data", "fails"),
    "table1": ("other data", ""),
    "table3": ("consistency only", "holds"),
    "table5": ("other data", ""),
    "section4-4": ("other data", "too small to say"),
}
# Those whose rows others published; the digits are their default.
EMBEDDED = ("fig1", "fig2", "fig3", "fig4", "fig6", "fig10", "fig14", "table1", "table5")
NETWORKS = ("fig2", "fig5", "fig6", "fig7", "fig13", "fig15")
LONG = ("fig1", "fig2", "fig5", "fig13")  # UMAP compiles itself first, and there are many networks


def entry_run(name: str) -> Callable[[Setting], Outcome]:
    run = PAPER.entries[f"liang2022/{name}"].run
    assert run is not None
    return run


def needs_published(name: str) -> None:
    if name in EMBEDDED and len(EMBEDDINGS) < 2:
        pytest.skip(f"the published embeddings are not at {PUBLISHED}")


def fast(name: str) -> Outcome:
    """The outcome of an entry's fast setting, run once for all tests."""
    if name in NETWORKS:
        pytest.importorskip("torch", reason="torch is not installed")
        pytest.importorskip("transformers", reason="transformers is not installed")
    return outcome_of(f"liang2022/{name}")


def entries(names: Any) -> list[Any]:
    marks = {
        name: [pytest.mark.published] * (name in EMBEDDED) + [pytest.mark.long] * (name in LONG)
        for name in names
    }
    return [pytest.param(name, marks=marks[name], id=name) for name in names]


def test_every_figure_and_table_has_an_entry_in_the_paper_s_order() -> None:
    assert list(PAPER.entries) == [f"liang2022/{name}" for name in KEYS]


def test_every_entry_says_what_it_claims_and_needs() -> None:
    for entry in PAPER:
        assert entry.title
        assert entry.claim.endswith(".")
        assert entry.claim.count(". ") == 0
        if entry.run is None:
            assert entry.needs == "model"
            assert "Needs" in entry.how
            assert entry.draw is None
        else:
            assert entry.needs != "model"
            assert entry.fast
            assert entry.full
            assert entry.draw is not None
    assert {entry.key for entry in PAPER if entry.run} == {f"liang2022/{name}" for name in RECORDED}


@pytest.mark.parametrize("name", entries(RECORDED))
def test_the_fast_run_has_the_recorded_verdict(name: str) -> None:
    needs_published(name)
    outcome = fast(name)
    kind, finding = RECORDED[name]
    told = [f"{check.finding}: {check.statement}" for check in outcome.checks]
    assert outcome.kind == kind
    assert outcome.finding == finding or not finding, told
    assert {check.about for check in outcome.checks if check.about == "claim"} == (
        set() if kind == "consistency only" else {"claim"}
    )
    assert all(check.otherwise for check in outcome.checks if check.about == "claim")


@pytest.mark.parametrize("name", entries(RECORDED))
def test_the_outcome_is_json_and_its_picture_comes_from_it_alone(name: str) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed").use("Agg")
    import matplotlib.pyplot as pyplot

    needs_published(name)
    outcome = fast(name)
    back = json.loads(to_json(outcome))
    assert back["measured"]
    draw = PAPER.entries[f"liang2022/{name}"].draw
    assert draw is not None
    # Drawing from what JSON carried shows that nothing is computed from anything else.
    figure = draw(Outcome(back["measured"], (), back["data"]))
    figure.canvas.draw()
    assert figure.axes
    pyplot.close(figure)
    assert pyplot.get_fignums() == []


@pytest.mark.parametrize("name", ["fig12", "fig15"])
def test_the_same_seed_gives_the_same_numbers(name: str) -> None:
    outcome = fast(name)
    assert to_json(entry_run(name)(Setting(embeddings=EMBEDDINGS))) == to_json(outcome)


@pytest.mark.parametrize("name", sorted({*EMBEDDED} - {"fig1", "fig2"}))
def test_the_digits_stand_in_where_nothing_else_is_at_hand(name: str) -> None:
    if name in NETWORKS:
        pytest.importorskip("transformers", reason="transformers is not installed")
    outcome = entry_run(name)(Setting())
    assert "digits" in outcome.on
    assert outcome.kind == "other data"
    assert any(check.about == "claim" for check in outcome.checks)


@pytest.mark.parametrize("scale", [1.0, 7.0], ids=["unit", "raw"])
@pytest.mark.parametrize("name", sorted({*EMBEDDED} - {"fig1", "fig2", "fig6"}))
def test_your_own_rows_take_the_place_of_all_others(name: str, scale: float) -> None:
    X, Y = make_pairs(n=200, d=16)
    X, Y = (scale * A / np.linalg.norm(A, axis=1, keepdims=True) for A in (X, Y))
    labels = np.arange(200) % 10
    own = OwnRows(X, Y, labels, Y[:10], Y[10:20])
    outcome = entry_run(name)(Setting(embeddings=EMBEDDINGS, rows=own))
    assert "your rows" in outcome.on
    assert not any("CLIP" in check.statement for check in outcome.checks)
    if scale != 1:
        at_unit = replace(own, X=X / scale, Y=Y / scale)
        again = entry_run(name)(Setting(rows=at_unit))
        assert [c.finding for c in again.checks] == [c.finding for c in outcome.checks]


@pytest.mark.published
def test_fig1_does_without_umap(monkeypatch: pytest.MonkeyPatch) -> None:
    needs_published("fig1")
    monkeypatch.setattr("modgap.reproduce.liang2022.gap.umap_is_installed", lambda: False)
    outcome = entry_run("fig1")(Setting(embeddings=EMBEDDINGS))
    assert outcome.data["method"] == "pca"
    assert outcome.holds


def test_progress_is_reported() -> None:
    pytest.importorskip("transformers", reason="transformers is not installed")
    steps: list[tuple[str, int, int]] = []
    entry_run("fig15")(Setting(progress=lambda *step: steps.append(step)))
    assert steps
    assert all(0 <= done < total for _, done, total in steps)


@pytest.mark.published
def test_the_landscape_of_clip_moves_with_the_temperature() -> None:
    needs_published("fig3")
    measured = fast("fig3").measured
    assert measured["gap"] == pytest.approx(0.8514, abs=1e-4)
    assert measured["least loss at, τ = 1/100"] == pytest.approx(measured["gap"], abs=0.1)
    assert abs(float(measured["least loss at, τ = 1"] or 0)) < 0.05


@pytest.mark.published
def test_closing_the_gap_costs_on_imagenet_and_helps_on_esc50() -> None:
    needs_published("fig10")
    measured = fast("fig10").measured
    assert measured["accuracy at it, ImageNet"] == pytest.approx(0.589, abs=1e-3)
    assert measured["accuracy at it, ESC-50"] == pytest.approx(0.915, abs=1e-3)
    assert float(measured["change when closed, ImageNet"] or 0) < -0.15
    assert float(measured["change when closed, ESC-50"] or 0) > 0.01


@pytest.mark.published
def test_the_gain_of_a_shift_remains_on_held_out_sounds() -> None:
    needs_published("table1")
    found = {check.statement.partition(":")[0]: check for check in fast("table1").checks}
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
        measured = fast("table5").measured[f"p, {name}"]
        assert measured == pytest.approx(published[f"p, {name}"], rel=1e-3)


def test_the_slips_of_the_paper_are_named() -> None:
    slips = " ".join(slip for entry in PAPER for slip in entry.slips)
    for words in ("0.0078", "ROC-AUC", "25 models", "5.84 %", "½"):
        assert words in slips


def made_up_task(n: int = 300) -> Classification:
    X, Y = (unit(A) for A in make_pairs(n=n, d=16))
    return Classification(X, Y[:10], np.arange(n) % 10)


def test_a_shift_of_nothing_is_plain_zero_shot() -> None:
    task = made_up_task()
    found = shift_sweep(task, np.array([-0.5, 0.0, 0.5]))
    assert found.at(0) == 1
    plain = np.argmax(task.X @ task.texts.T, axis=1) == task.labels
    assert np.array_equal(found.hits[1], plain)
    assert abs(found.gaps[0]) > abs(found.gaps[1]) > abs(found.gaps[2])


def test_a_shift_moves_both_sides_along_the_gap() -> None:
    task, amount = made_up_task(), 0.3
    x, t = unit(task.X - amount * task.gap), unit(task.texts + amount * task.gap)
    found = shift_sweep(task, np.array([amount]))
    assert np.array_equal(found.hits[0], np.argmax(x @ t.T, axis=1) == task.labels)
    assert found.gaps[0] == pytest.approx(np.linalg.norm(x.mean(axis=0) - t.mean(axis=0)))


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
