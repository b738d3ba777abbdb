"""Chowers et al. 2026: every figure has its entry, and what the entries found still holds."""

from __future__ import annotations

import json

import numpy as np
import pytest

from conftest import EMBEDDINGS, make_pairs
from modgap._results import to_json
from modgap.evaluation.robustness import noise_correlation
from modgap.reproduce import NotAtHand, Outcome, Setting
from modgap.reproduce.chowers2026 import PAPER
from modgap.reproduce.chowers2026.gap import _gain_inside
from modgap.reproduce.chowers2026.neighbour_tasks import class_task, class_tasks, tasks
from modgap.reproduce.chowers2026.rephrasing import _correlation, _with_rivals
from modgap.reproduce.chowers2026.robustness import slopes
from modgap.reproduce.setting import OwnRows
from modgap.reproduce.sources import digit_zero_shot, zero_shots
from modgap.reproduce.statistics import best_of_other_half
from outcomes import outcome_of

pytestmark = pytest.mark.xdist_group("chowers2026")  # every entry is run once

# Entry → kind, and the findings that one seed may come to.
SURE, UNSURE = ("holds",), ("holds", "too small to say")
FOUND = {
    "fig1": ("other data", SURE),
    "fig2": ("other data", UNSURE),
    "fig3": ("own settings", SURE),
    "fig4": ("own settings", SURE),
    "fig5": ("own settings", SURE),
    "fig6": ("other data", SURE),
    "fig7": ("own settings", SURE),
    "fig8": ("other data", UNSURE),
    "fig9": ("other data", UNSURE),
    "fig10": ("other data", ("fails",)),
    # By the draw, S_i is larger near the centre or farther out.
    "fig11": ("own settings", ("holds", "fails")),
    "fig12": ("consistency only", SURE),
    "fig13": ("other data", ("fails",)),
    "fig14": ("other data", UNSURE),
    "fig15": ("other data", SURE),
    "fig16": ("own settings", SURE),
    "fig17": ("own settings", SURE),
    "fig18": ("other data", ("fails",)),
    "fig19": ("other data", ("fails",)),
}
# Seconds each; the others run in every test.
SLOW = ("fig4", "fig6", "fig8", "fig9", "fig10", "fig11", "fig14", "fig17", "fig18", "fig19")
# What embeddings can be put to.
ON_ROWS = ("fig1", "fig2", "fig8", "fig9", "fig10", "fig13", "fig14", "fig15", "fig18", "fig19")
FILES = {
    *("features_clip", "features_videoclip"),
    *("imagenet-clip-b32", "esc50-clap", "unsplash-clip-b32"),
}


def entry(name: str):
    return PAPER.entries[f"chowers2026/{name}"]


def outcome(name: str) -> Outcome:
    """The outcome of the fast setting, run once."""
    if name in ON_ROWS and not set(Setting(embeddings=EMBEDDINGS).data) >= FILES:
        pytest.skip("the published embeddings are not at hand")
    if name == "fig6":
        pytest.importorskip("transformers", reason="transformers is not installed")
    return outcome_of(f"chowers2026/{name}")


def found(name: str, start: str) -> str:
    """How the only statement that begins so came out."""
    [check] = [each for each in outcome(name).checks if each.statement.startswith(start)]
    return check.finding


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
    assert made.synthetic


@pytest.mark.parametrize("name", every(FOUND))
def test_the_recorded_verdict_holds(name):
    came = outcome(name)
    kind, findings = FOUND[name]
    said = [(check.finding, check.statement) for check in came.checks if not check.holds]
    assert came.kind == kind
    assert came.finding in findings, said
    assert set(entry(name).published) <= set(came.measured)
    if kind in ("own settings", "other data"):
        assert came.on


@pytest.mark.parametrize("name", every(FOUND))
def test_every_check_of_a_claim_says_what_else_might_be_seen(name):
    claims = [check for check in outcome(name).checks if check.about == "claim"]
    assert bool(claims) == (name != "fig12")
    assert all(check.otherwise.endswith(".") for check in claims)


@pytest.mark.parametrize("name", every(FOUND))
def test_an_outcome_is_json(name):
    read = json.loads(to_json(outcome(name)))
    assert list(read["measured"]) == list(outcome(name).measured)
    assert all(check["finding"] in (*UNSURE, "fails") for check in read["checks"])


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


@pytest.mark.parametrize("name", ["fig5", "fig7", "fig15", "fig16"])
def test_the_same_seed_gives_the_same_numbers(name):
    again = entry(name).run(Setting(embeddings=EMBEDDINGS))
    assert again.to_dict() == outcome(name).to_dict()


@pytest.mark.parametrize("name", ["fig5", "fig7", "fig15", "fig16"])
def test_another_seed_gives_other_numbers_and_the_same_statements(name):
    other = entry(name).run(Setting(embeddings=EMBEDDINGS, seed=1))
    assert other.measured != outcome(name).measured
    said = [[check.statement for check in each.checks] for each in (other, outcome(name))]
    assert said[0] == said[1]


@pytest.mark.published
@pytest.mark.long
def test_rephrasing_on_imagenet_is_no_better_with_the_gap_closed():
    measured = outcome("fig10").measured
    assert measured["clean accuracy as trained, ImageNet"] == pytest.approx(0.589, abs=1e-3)
    assert measured["accuracy in another wording as trained, ImageNet"] == pytest.approx(
        0.6115, abs=1e-3
    )
    assert found("fig10", "ImageNet: among four classes the accuracy under") == "fails"
    assert found("fig10", "ImageNet: it rises among the same four") == "fails"


@pytest.mark.published
@pytest.mark.long
@pytest.mark.parametrize("task", ["ImageNet", "CLIP", "Unsplash"])
def test_the_two_readings_of_algorithm_1_come_out_differently(task):
    trade = f"{task}: at ε = 5 % robustness gains more than accuracy loses"
    assert found("fig18", f"{trade} (each direction above ε)") == "fails"
    assert found("fig18", f"{trade} (directions above ε together)") == "holds"


@pytest.mark.published
def test_the_gap_of_trained_models_is_no_more_orthogonal_than_random_directions():
    for name in ("CLIP", "VideoCLIP", "Unsplash"):
        for side in ("images", "texts"):
            assert found("fig13", f"{name} {side}") == "fails"
    measured = outcome("fig13").measured
    for side in ("images", "texts"):
        # In 64 dimensions: √(2/(π·64)) = 0.0997.
        chance = measured[f"the same to random directions, digits {side}"]
        assert chance == pytest.approx((2 / np.pi / 64) ** 0.5, rel=0.02)
        assert measured[f"mean absolute cosine, digits {side}"] < chance / 5


@pytest.mark.parametrize("name", ["fig1", "fig2", "fig13", "fig15"])
def test_without_embeddings_the_digits_are_judged(name):
    came = entry(name).run(Setting())
    assert came.kind == "other data"
    assert "digits that come with modgap" in came.on
    assert came.checks


def own_rows(classes: bool = True) -> OwnRows:
    """Raw rows, and their classes in two wordings."""
    X, Y = make_pairs(60, 16)
    if not classes:
        return OwnRows(X, Y)
    labels = np.arange(60) % 6
    texts = np.stack([Y[labels == k].mean(axis=0) for k in range(6)])
    return OwnRows(X, Y, labels, texts, texts + 0.1 * np.roll(texts, 1, axis=1))


@pytest.mark.parametrize("name", ON_ROWS)
def test_rows_of_your_own_take_the_place_of_all_others(name):
    came = entry(name).run(Setting(embeddings=EMBEDDINGS, rows=own_rows()))
    assert came.on.startswith("your")
    statements = " ".join(check.statement for check in came.checks)
    assert not any(other in statements for other in ("ImageNet", "CLIP", "Unsplash", "digits"))


@pytest.mark.parametrize("name", ["fig2", "fig8", "fig13", "fig19"])
def test_pairs_alone_are_enough_where_no_classes_are_asked_for(name):
    assert entry(name).run(Setting(rows=own_rows(classes=False))).checks


def test_rephrasing_needs_a_second_wording():
    rows = own_rows()
    without = OwnRows(rows.X, rows.Y, rows.labels, rows.class_texts)
    with pytest.raises(NotAtHand, match="in a second wording"):
        entry("fig10").run(Setting(rows=without))


def test_progress_is_said():
    said = []
    entry("fig10").run(Setting(progress=lambda *step: said.append(step)))
    assert said[0] == ("digits: 3 draws of classes", 0, 1)


def test_class_texts_classify_the_digits():
    task = class_task(digit_zero_shot(Setting()))
    for rows in (task.queries, task.candidates, task.other):
        np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, rtol=1e-5)
    accuracy = task.accuracy((0.0, 1.0), task.direction()[0])
    assert accuracy[0] == accuracy[1] > 0.75


def test_some_classes_keep_their_images_and_their_texts():
    [found] = zero_shots(Setting(rows=own_rows()))
    whole, part = class_task(found), class_task(found, classes=3, seed=1)
    assert len(part.candidates) == 3
    for query, truth in zip(part.queries, part.truth, strict=True):
        [place] = np.flatnonzero((whole.queries == query).all(axis=1))
        text = whole.candidates[whole.truth[place]]
        np.testing.assert_array_equal(part.candidates[truth], text)
    assert len(part.queries) == 30


def test_digits_are_judged_only_where_nothing_else_is_at_hand():
    assert [task.judged for task in class_tasks(Setting())] == [True]
    assert all(task.judged for task in tasks(Setting(rows=own_rows())))


@pytest.mark.published
def test_real_data_is_judged_in_place_of_the_digits():
    judged = {task.name: task.judged for task in tasks(Setting(embeddings=EMBEDDINGS))}
    assert judged == {
        "ImageNet": True,
        "ESC-50": True,
        "CLIP": True,
        "Unsplash": True,
        "digits": False,
    }


def test_rivals_are_other_classes():
    task = class_task(digit_zero_shot(Setting()))
    chosen = _with_rivals(task, np.random.default_rng(0))
    assert all(len(set(row)) == 4 for row in chosen.tolist())
    np.testing.assert_array_equal(chosen[:, 0], task.truth)
    # Each of the nine others is drawn as often, within a few standard errors.
    jumps = (chosen[:, 1:] - task.truth[:, None]) % 10
    assert np.bincount(jumps.ravel(), minlength=10)[1:].min() > 333 - 4 * 333**0.5


def test_slopes_are_those_of_least_squares(rng):
    amounts, kept = [-1.0, 0.0, 0.5, 2.0], rng.random((4, 7))
    np.testing.assert_allclose(slopes(amounts, kept), np.polyfit(amounts, kept, 1)[0])


def test_what_is_chosen_on_one_half_is_judged_on_the_other():
    halves = np.arange(8) < 4, np.arange(8) >= 4
    # Amounts × queries: the first half would choose the second amount, the other half the third.
    hits = np.zeros((4, 8))
    hits[1, :4], hits[2, 4:] = 1, 1
    np.testing.assert_array_equal(_gain_inside(hits, halves), 0)
    hits[1] = 1
    np.testing.assert_array_equal(_gain_inside(hits, halves), 1)
    # A threshold that is best by chance on a half gains nothing on the other.
    worth = np.random.default_rng(0).normal(size=(9, 4000))
    assert abs(best_of_other_half(worth, 0).mean()) < 0.05
    assert worth[:, :100].mean(axis=1).max() > 0.1


def test_uncorrelated_noise_has_the_named_correlation(rng):
    # The slip of eq. 50: √(d/(N + d)), not 0.
    for n, d in ((1000, 512), (50, 200)):
        assert noise_correlation(rng.normal(size=(n, d))) == pytest.approx(
            (d / (n + d)) ** 0.5, abs=0.01
        )


def test_the_interval_of_a_correlation_narrows_with_the_texts(rng):
    mixed = rng.normal(size=(4000, 8)) @ rng.normal(size=(8, 8))
    many, few = (_correlation(mixed[:n], with_interval=True) for n in (4000, 400))
    assert many.low < many.value < many.high
    assert many.high - many.low < (few.high - few.low) / 2


@pytest.mark.long
def test_fig4_as_published():
    measured = entry("fig4").run(Setting(full=True)).measured
    assert measured["cosine to the gap, plane"] < 0.01
    assert measured["loss, plane"] < 1e-5
    assert measured["gap, plane"] == pytest.approx(1, abs=0.01)
    # A thousand points in R³ cannot come near zero loss.
    assert measured["loss, many pairs"] > 5
