from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conftest import PUBLISHED
from modgap._results import to_json
from modgap.reproduce import NotAtHand, Outcome, Setting
from modgap.reproduce.liang2022 import PAPER
from modgap.reproduce.liang2022.fairness import denigration_shares, prompts
from modgap.reproduce.liang2022.zero_shot import chosen_elsewhere, digit_tasks, holm, sweep

KEYS = [f"fig{k}" for k in range(1, 17)] + [f"table{k}" for k in range(1, 6)] + ["section4-4"]

# What each fast run gives: the verdict, and whether every statement holds.
RECORDED = {
    "fig1": ("agrees", True),
    "fig2": ("other data", True),
    "fig3": ("agrees", True),
    "fig4": ("agrees", True),
    "fig5": ("other data", True),
    "fig6": ("other data", True),
    "fig7": ("other data", True),
    "fig8": ("other data", True),
    "fig9": ("agrees", True),
    "fig10": ("other data", False),
    "fig11": ("other data", True),
    "fig12": ("agrees", True),
    "fig13": ("other data", False),
    "fig15": ("other data", True),
    "fig16": ("other data", False),
    "table1": ("other data", False),
    "table3": ("other data", True),
    "table5": ("agrees", True),
    "section4-4": ("other data", False),
}
EMBEDDINGS = ("fig1", "fig3", "fig4", "fig6")
NETWORKS = ("fig2", "fig5", "fig6", "fig7", "fig13", "fig15")
LONG = ("fig1",)  # UMAP compiles itself first

_RUNS: dict[str, Outcome] = {}


def fast(name: str) -> Outcome:
    """The outcome of an entry's fast setting, run once for all tests."""
    if name not in _RUNS:
        run = PAPER.entries[f"liang2022/{name}"].run
        assert run is not None
        if name in NETWORKS:
            pytest.importorskip("torch", reason="torch is not installed")
            pytest.importorskip("transformers", reason="transformers is not installed")
        here = PUBLISHED if (PUBLISHED / "features_clip.npy").exists() else None
        if here is None and name in EMBEDDINGS:
            pytest.skip(f"the published embeddings are not at {PUBLISHED}")
        _RUNS[name] = run(Setting(embeddings=here))
    return _RUNS[name]


def entries(names: Any) -> list[Any]:
    marks = {
        name: [pytest.mark.published] * (name in EMBEDDINGS) + [pytest.mark.long] * (name in LONG)
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
    outcome = fast(name)
    failed = [check.statement for check in outcome.checks if not check.holds]
    assert (outcome.verdict, outcome.holds) == RECORDED[name], failed
    assert all(type(check.holds) is bool for check in outcome.checks)


@pytest.mark.parametrize("name", entries(RECORDED))
def test_the_outcome_is_json_and_its_picture_comes_from_it_alone(name: str) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed").use("Agg")
    import matplotlib.pyplot as pyplot

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


@pytest.mark.parametrize("name", ["fig10", "fig12", "table1", "fig15"])
def test_the_same_seed_gives_the_same_numbers(name: str) -> None:
    outcome = fast(name)
    run = PAPER.entries[f"liang2022/{name}"].run
    assert run is not None
    assert to_json(run(Setting())) == to_json(outcome)


@pytest.mark.parametrize("name", EMBEDDINGS)
def test_missing_embeddings_are_named(name: str, tmp_path: Path) -> None:
    run = PAPER.entries[f"liang2022/{name}"].run
    assert run is not None
    for where in (None, tmp_path):
        with pytest.raises(NotAtHand, match=r"features_clip\.npy are not at hand.*--embeddings"):
            run(Setting(embeddings=where))


@pytest.mark.published
def test_fig1_does_without_umap(monkeypatch: pytest.MonkeyPatch) -> None:
    if not (PUBLISHED / "features_clip.npy").exists():
        pytest.skip(f"the published embeddings are not at {PUBLISHED}")
    monkeypatch.setattr("modgap.reproduce.liang2022.gap.umap_is_installed", lambda: False)
    run = PAPER.entries["liang2022/fig1"].run
    assert run is not None
    outcome = run(Setting(embeddings=EMBEDDINGS))
    assert outcome.data["method"] == "pca"
    assert outcome.holds


def test_fig2_takes_the_digits_where_the_embeddings_are_missing() -> None:
    pytest.importorskip("transformers", reason="transformers is not installed")
    run = PAPER.entries["liang2022/fig2"].run
    assert run is not None
    outcome = run(Setting())
    assert "the embedded digits" in outcome.on
    assert outcome.measured["mean cosine, sigmoid, depth 2"] == pytest.approx(0.991, abs=2e-3)


def test_progress_is_reported() -> None:
    pytest.importorskip("transformers", reason="transformers is not installed")
    steps: list[tuple[str, int, int]] = []
    run = PAPER.entries["liang2022/fig15"].run
    assert run is not None
    run(Setting(progress=lambda *step: steps.append(step)))
    assert steps
    assert all(0 <= done < total for _, done, total in steps)


@pytest.mark.published
def test_the_landscape_of_clip_moves_with_the_temperature() -> None:
    measured = fast("fig3").measured
    assert measured["gap"] == pytest.approx(0.8514, abs=1e-4)
    assert measured["least loss at, τ = 1/100"] == pytest.approx(measured["gap"], abs=0.02)
    assert abs(float(measured["least loss at, τ = 1"] or 0)) < 0.05


def test_table5_is_recomputed_to_the_printed_digits() -> None:
    published = PAPER.entries["liang2022/table5"].published
    for name in ("CIFAR10", "CIFAR100", "EuroSAT"):
        measured = fast("table5").measured[f"p, {name}"]
        assert measured == pytest.approx(published[f"p, {name}"], rel=1e-3)


def test_the_slips_of_the_paper_are_named() -> None:
    slips = " ".join(slip for entry in PAPER for slip in entry.slips)
    for words in ("0.0078", "ROC-AUC", "25 models", "5.84 %", "½"):
        assert words in slips


def test_a_shift_of_nothing_is_plain_zero_shot() -> None:
    task = digit_tasks()["digit, mean caption"]
    found = sweep(task, np.array([-0.5, 0.0, 0.5]))
    assert found.at(0) == 1
    plain = np.argmax(task.X @ task.texts.T, axis=1) == task.labels
    assert np.array_equal(found.hits[1], plain)
    assert abs(found.gaps[0]) > abs(found.gaps[1]) > abs(found.gaps[2])


def test_a_shift_is_never_chosen_on_the_images_it_is_tried_on() -> None:
    task = digit_tasks()["odd or even"]
    found = sweep(task, np.array([0.0, 0.5]))
    # The second shift is right on one half alone: chosen there, it must fail on the other.
    order = np.random.default_rng(3).permutation(found.hits.shape[1])
    found.hits[:] = 0
    found.hits[1, order[:500]] = 1
    assert chosen_elsewhere(found, seed=3)[order[500:]].sum() == 0


@pytest.mark.parametrize(
    ("p_values", "kept"),
    [
        ([0.01, 0.04, 0.03], [True, False, False]),
        ([0.01, 0.02, 0.03], [True, True, True]),
        ([0.04, 0.9], [False, False]),
        ([0.05], [True]),
    ],
)
def test_holm_by_hand(p_values: list[float], kept: list[bool]) -> None:
    assert holm(p_values) == kept


def test_denigration_counts_the_nearest_prompt_only() -> None:
    texts, kinds = prompts()
    assert len(texts) == len(set(texts)) == 21
    assert "a photo of an indian woman" in texts
    rows = np.eye(21)
    images = rows[[0, kinds.index("crime"), kinds.index("non-human"), 1]]
    found = denigration_shares(images, rows, kinds, np.array(["a", "a", "b", "b"]))
    assert found == {
        "a": {"crime": 0.5, "non-human": 0.0},
        "b": {"crime": 0.0, "non-human": 0.5},
    }
