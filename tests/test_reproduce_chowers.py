"""Chowers et al. 2026: every figure has its entry, and what the entries found still holds."""

from __future__ import annotations

import json

import numpy as np
import pytest

from conftest import PUBLISHED
from modgap._results import to_json
from modgap.evaluation.noise import noise_correlation
from modgap.reproduce import NotAtHand, Outcome, Setting
from modgap.reproduce.chowers2026 import PAPER
from modgap.reproduce.chowers2026.rephrasing import _orthogonal, _with_rivals
from modgap.reproduce.chowers2026.tasks import class_texts, digits_task

# Entry → verdict, and how many statements did not hold.
FOUND = {
    "fig1": ("other data", 0),
    "fig2": ("other data", 0),
    "fig3": ("agrees", 0),
    "fig4": ("agrees", 0),
    "fig5": ("agrees", 0),
    "fig6": ("other data", 0),
    "fig7": ("agrees", 0),
    "fig8": ("other data", 0),
    "fig9": ("other data", 1),
    "fig10": ("other data", 1),
    "fig11": ("agrees", 0),
    "fig12": ("agrees", 0),
    "fig13": ("other data", 0),
    "fig14": ("other data", 0),
    "fig15": ("other data", 0),
    "fig16": ("agrees", 0),
    "fig17": ("agrees", 0),
    "fig18": ("other data", 0),
    "fig19": ("other data", 0),
}
# Seconds each; the others run in every test.
SLOW = ("fig4", "fig6", "fig8", "fig11", "fig12", "fig14", "fig16", "fig17", "fig18", "fig19")
_outcomes: dict[str, Outcome] = {}


def entry(name: str):
    return PAPER.entries[f"chowers2026/{name}"]


def outcome(name: str) -> Outcome:
    """The outcome of the fast setting, run once."""
    if entry(name).needs == "embeddings" and not (PUBLISHED / "features_clip.npy").exists():
        pytest.skip(f"the published embeddings are not at {PUBLISHED}")
    if name == "fig6":
        pytest.importorskip("transformers", reason="transformers is not installed")
    if name not in _outcomes:
        _outcomes[name] = entry(name).run(Setting(embeddings=EMBEDDINGS))
    return _outcomes[name]


def every(names):
    """The named entries, the slow ones among them marked."""
    return [pytest.param(name, marks=[pytest.mark.long] if name in SLOW else []) for name in names]


def test_every_figure_has_its_entry_in_the_papers_order():
    assert list(PAPER.entries) == [f"chowers2026/fig{k}" for k in range(1, 20)]


@pytest.mark.parametrize("name", FOUND)
def test_an_entry_says_what_it_claims_and_how_it_runs(name):
    made = entry(name)
    assert made.run is not None
    assert made.draw is not None
    assert made.claim.endswith(".")
    assert "\n" not in made.claim
    assert made.fast
    assert made.full
    assert made.published


@pytest.mark.parametrize("name", every(FOUND))
def test_the_recorded_verdict_holds(name):
    found = outcome(name)
    failed = [check.statement for check in found.checks if not check.holds]
    assert (found.verdict, len(failed)) == FOUND[name], failed
    assert set(entry(name).published) <= set(found.measured)


@pytest.mark.parametrize("name", every(FOUND))
def test_an_outcome_is_json(name):
    read = json.loads(to_json(outcome(name)))
    assert list(read["measured"]) == list(outcome(name).measured)
    assert all(isinstance(check["holds"], bool) for check in read["checks"])


@pytest.mark.parametrize("name", every(FOUND))
def test_the_picture_is_drawn_from_the_outcome_alone(name, tmp_path):
    matplotlib = pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.figure import Figure

    figure = entry(name).draw(outcome(name))
    assert isinstance(figure, Figure)
    figure.savefig(tmp_path / "figure.png", dpi=40)
    # Nothing is left open.
    assert not pyplot.get_fignums()


@pytest.mark.parametrize("name", ["fig5", "fig7", "fig10", "fig15"])
def test_the_same_seed_gives_the_same_numbers(name):
    again = entry(name).run(Setting(embeddings=EMBEDDINGS))
    assert again.to_dict() == outcome(name).to_dict()


@pytest.mark.parametrize("name", ["fig5", "fig7"])
def test_another_seed_gives_other_numbers(name):
    assert entry(name).run(Setting(seed=1)).measured != outcome(name).measured


@pytest.mark.parametrize("name", [n for n in FOUND if entry(n).needs == "embeddings"])
def test_without_the_embeddings_a_sentence_says_how_to_get_them(name, tmp_path):
    for folder in (None, tmp_path):
        with pytest.raises(NotAtHand, match=r"features_clip.npy are not at hand. Download them"):
            entry(name).run(Setting(embeddings=folder))


@pytest.mark.parametrize("name", [n for n in FOUND if entry(n).needs != "embeddings"])
def test_what_needs_no_embeddings_asks_for_none(name):
    assert entry(name).synthetic


def test_progress_is_said():
    said = []
    entry("fig10").run(Setting(progress=lambda *step: said.append(step)))
    assert said[0] == ("draws of wordings", 0, 50)


def test_class_texts_classify_the_digits():
    task = digits_task()
    np.testing.assert_allclose(np.linalg.norm(class_texts(2), axis=1), 1, rtol=1e-6)
    accuracy = task.accuracy((0.0, 1.0), task.direction()[0])
    assert accuracy[0] == accuracy[1] > 0.75


def test_rivals_are_other_scans_of_the_same_digit():
    labels = np.repeat(np.arange(3), 7)
    chosen = _with_rivals(labels, np.random.default_rng(0))
    assert np.all(labels[chosen] == labels[:, None])
    assert all(len(set(row)) == 4 for row in chosen.tolist())
    np.testing.assert_array_equal(chosen[:, 0], np.arange(21))


def test_a_direction_of_its_own_for_each_scan_is_orthogonal_to_its_captions(rng):
    candidates = rng.normal(size=(5, 4, 16))
    centred = candidates - candidates.mean(axis=1, keepdims=True)
    directions = _orthogonal(rng.normal(size=16), centred)
    np.testing.assert_allclose(np.einsum("nkd,nd->nk", centred, directions), 0, atol=1e-12)


def test_uncorrelated_noise_has_the_named_correlation(rng):
    # The slip of eq. 50: √(d/(N + d)), not 0.
    for n, d in ((1000, 512), (50, 200)):
        assert noise_correlation(rng.normal(size=(n, d))) == pytest.approx(
            (d / (n + d)) ** 0.5, abs=0.01
        )


@pytest.mark.long
def test_fig4_as_published():
    found = entry("fig4").run(Setting(full=True)).measured
    assert found["cosine to the gap, plane"] < 0.01
    assert found["loss, plane"] < 1e-5
    assert found["gap, plane"] == pytest.approx(1, abs=0.01)
