"""Chowers et al. 2026: what is printed and found in numbers, and how it is measured."""

from __future__ import annotations

import numpy as np
import pytest

from conftest import EMBEDDINGS
from modgap.evaluation.robustness import noise_correlation
from modgap.reproduce import Setting
from modgap.reproduce.chowers2026 import PAPER
from modgap.reproduce.chowers2026.gap import _gain_inside
from modgap.reproduce.chowers2026.neighbour_tasks import class_task, class_tasks, tasks
from modgap.reproduce.chowers2026.rephrasing import _correlation, _with_rivals
from modgap.reproduce.chowers2026.robustness import slopes
from modgap.reproduce.sources import digit_zero_shot, zero_shots
from modgap.reproduce.statistics import best_of_other_half
from outcomes import own_rows, published_outcome

pytestmark = pytest.mark.xdist_group("chowers2026")  # every entry is run once


def found(name: str, start: str) -> str:
    """How the only statement that begins so came out."""
    [check] = [
        each
        for each in published_outcome(f"chowers2026/{name}").checks
        if each.statement.startswith(start)
    ]
    return check.finding


@pytest.mark.published
@pytest.mark.long
def test_rephrasing_on_imagenet_is_no_better_with_the_gap_closed():
    measured = published_outcome("chowers2026/fig10").measured
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
            said = f"{name} {side}: the mean absolute cosine to the gap is below"
            assert found("fig13", f"{said} 0.1") == "holds"
            assert found("fig13", f"{said} that") == "fails"
    measured = published_outcome("chowers2026/fig13").measured
    for side in ("images", "texts"):
        # In 64 dimensions: √(2/(π·64)) = 0.0997.
        chance = measured[f"mean absolute cosine to random directions, digits {side}"]
        assert chance == pytest.approx((2 / np.pi / 64) ** 0.5, rel=0.02)
        assert measured[f"mean absolute cosine, digits {side}"] < chance / 5


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
    assert len(part.queries) == 36


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
    measured = PAPER.entries["chowers2026/fig4"].run(Setting(full=True)).measured
    assert measured["cosine to the gap, plane"] < 0.01
    assert measured["loss, plane"] < 1e-5
    assert measured["gap, plane"] == pytest.approx(1, abs=0.01)
    # A thousand points in R³ cannot come near zero loss.
    assert measured["loss, many pairs"] > 5
