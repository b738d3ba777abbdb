"""Multiple choice against brute force, and other wordings whose answer is planted."""

from __future__ import annotations

import numpy as np
import pytest

from modgap.core.checks import InputError
from modgap.corrections import METRICS, Center
from modgap.evaluation import compare
from modgap.tasks import (
    OwnShift,
    multiple_choice_task,
    rephrased_choice_task,
    sweep_task,
)
from modgap.tasks import rephrased_choice as protocol_of
from modgap.tasks.multiple_choice import AMOUNTS
from modgap.tasks.questions import own_directions
from task_rows import nearest, planted_questions

SIZES = (4, 2, 3, 4, 4)
QUESTION_OF = np.repeat(np.arange(len(SIZES)), SIZES)
IMAGE_OF, CORRECT = np.array([0, 1, 0, 2, 1]), np.array([3, 0, 2, 1, 0])


@pytest.fixture
def questions(rng):
    return rng.normal(size=(3, 8)), rng.normal(size=(sum(SIZES), 8))


def multiple_choice(*given, correction=None, **settings):
    return multiple_choice_task(*given, **settings).score(correction)


def rephrased_choice(*given, gap=None, amounts=AMOUNTS, **settings):
    return protocol_of(rephrased_choice_task(*given, **settings), gap=gap, amounts=amounts)


def slow_choice(X, Y, metric):
    own = [Y[question == QUESTION_OF] for question in range(len(SIZES))]
    return np.array([nearest(X[k], rows, metric) for k, rows in zip(IMAGE_OF, own, strict=True)])


@pytest.mark.parametrize("metric", METRICS)
def test_choices_equal_brute_force(questions, metric, library):
    X, Y = questions
    expected = slow_choice(X, Y, metric)
    found = multiple_choice(
        library(X), (library(Y), QUESTION_OF), CORRECT, image_of=IMAGE_OF, metric=metric
    )
    np.testing.assert_array_equal(found.predictions, expected)
    np.testing.assert_array_equal(found.outcomes, expected == CORRECT)
    assert found.mean == np.mean(expected == CORRECT)
    assert found.chance == pytest.approx((1 / 4 + 1 / 2 + 1 / 3 + 1 / 4 + 1 / 4) / 5)
    assert set(found.to_dict()) == {"mean", "parts", "chance", "n", "metric"}


def test_a_correction_maps_both_sides(questions):
    X, Y = questions
    correction = Center().fit(X, Y).correction_
    found = multiple_choice(X, (Y, QUESTION_OF), CORRECT, image_of=IMAGE_OF, correction=correction)
    expected = slow_choice(correction.x(X), correction.y(Y), "cosine")
    np.testing.assert_array_equal(found.predictions, expected)


def test_as_many_answers_each_come_as_one_array_and_equal_scores_go_to_the_earlier():
    X = np.eye(3)
    texts = X[[[0, 0, 1], [2, 1, 1], [0, 1, 0]]]
    found = multiple_choice(X, texts, [0, 2, 0])
    assert found.predictions.tolist() == [0, 1, 0]
    assert found.outcomes.tolist() == [True, False, True]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"texts": np.eye(3)}, "texts must be a pair"),
        ({"texts": (np.eye(3), [0, 1])}, "say the question of each text"),
        ({"texts": (np.eye(3), [0, 2, 2])}, "numbered from 0, in order"),
        ({"texts": (np.eye(3), [1, 0, 1])}, "numbered from 0, in order"),
        ({"texts": (np.eye(4), [0, 0, 1, 1])}, "same number of columns"),
        ({"correct": [0]}, "correct must be a whole number for each of 2 questions"),
        ({"correct": [0, 2]}, "correct must count from 0 .*: question 1 has 1, got 2"),
        ({"correct": [0.0, 0.0]}, "correct must be a whole number"),
        ({"image_of": None}, "2 questions and 3 images"),
        ({"image_of": [0, 3]}, "image_of must count from 0 .*rows of X: question 1 has 3, got 3"),
    ],
)
def test_bad_questions_are_refused_in_one_sentence(change, message):
    given = {"texts": (np.eye(3), [0, 0, 1]), "correct": [0, 0], "image_of": [0, 1]} | change
    with pytest.raises(InputError, match=message):
        multiple_choice(np.eye(3), given["texts"], given["correct"], image_of=given["image_of"])


def test_a_direction_of_its_own_for_each_question_is_orthogonal_to_its_texts(rng):
    candidates = rng.normal(size=(5, 4, 16))
    candidates[2, 3] = candidates[2, 0]  # the same answer twice
    gap = rng.normal(size=16)
    directions = own_directions(gap, candidates)
    centred = candidates - candidates.mean(axis=1, keepdims=True)
    np.testing.assert_allclose(np.einsum("nkd,nd->nk", centred, directions), 0, atol=1e-12)
    for own, direction in zip(centred, directions, strict=True):
        inside = np.linalg.lstsq(own.T, gap, rcond=None)[0]
        np.testing.assert_allclose(direction, gap - own.T @ inside, atol=1e-12)


def test_a_planted_rephrasing_is_found_and_clean_accuracy_stays():
    X, texts, correct, right, wrong = planted_questions()
    found = rephrased_choice(X, texts, correct, right, wrong, draws=100)
    assert np.ptp(found.clean) == 0
    assert found.clean[0] == multiple_choice(X, texts, correct).mean
    gain = found.gain(resamples=400)
    assert gain.difference.low > 0.02
    assert gain.p_value < 0.01
    assert found.rephrased[0] < found.rephrased[4] < found.rephrased[-1] <= found.clean[0] + 0.05
    assert 0.9 < found.closed <= 1
    widened = found.gain(-1.0, resamples=400)
    assert widened.difference.high < 0


def test_wordings_that_do_not_vary_along_the_gap_gain_nothing():
    X, texts, correct, right, wrong = planted_questions(spread=0.0)
    found = rephrased_choice(X, texts, correct, right, wrong, draws=50)
    assert abs(found.gain(resamples=200).difference.value) < 0.02


def test_rephrased_accuracy_equals_all_draws_counted_by_hand():
    X = np.array([[1.0, 0.0, 0.0]])
    texts = np.array([[[1.0, 0.1, 0.0], [0.0, 1.0, 0.0]]])
    # Two right wordings and two wrong answers: one of the four draws goes wrong.
    right = np.array([[[0.9, 0.1, 0.0], [0.5, 0.5, 0.0]]])
    wrong = np.array([[[0.8, 0.2, 0.0], [0.0, 0.0, 1.0]]])
    found = rephrased_choice(X, texts, [0], right, wrong, amounts=[0.0], draws=4000)
    assert found.rephrased[0] == pytest.approx(0.75, abs=4 * (0.75 * 0.25 / 4000) ** 0.5)
    ties = rephrased_choice(X, texts, [0], right[:, :1], right[:, :1], amounts=[0.0], draws=3)
    assert ties.rephrased[0] == 0.5


def test_draws_depend_on_the_seed_alone():
    given = planted_questions(n=12)
    one, again, other = (rephrased_choice(*given, draws=20, seed=s) for s in (0, 0, 1))
    np.testing.assert_array_equal(one.rephrased_shares, again.rephrased_shares)
    assert np.any(one.rephrased_shares != other.rephrased_shares)


def test_the_sweep_moves_each_question_as_the_protocol_does():
    X, texts, correct, right, wrong = planted_questions(n=30)
    amounts = (-1.0, 0.5, 1.0)
    protocol = rephrased_choice(X, texts, correct, right, wrong, amounts=amounts, draws=40)
    task = rephrased_choice_task(X, texts, correct, right, wrong, draws=40)
    swept = sweep_task(task, [OwnShift(amounts=amounts)], resamples=100)
    for k, amount in enumerate(amounts):
        found = swept.outcomes_at("shift by question", amount)
        np.testing.assert_allclose(found, protocol.rephrased_shares[k])
    clean = sweep_task(
        multiple_choice_task(X, texts, correct), [OwnShift(amounts=amounts)], resamples=100
    )
    assert {point.value.value for point in clean.points} == {clean.raw.value.value}
    assert clean.points[-1].gap < 0.2 * clean.raw.gap < clean.points[0].gap


def test_a_planted_gap_is_closed_on_one_half_and_helps_on_the_other():
    X, texts, correct, right, wrong = planted_questions(n=120)
    task = rephrased_choice_task(X, texts, correct, right, wrong, draws=40)
    swept = sweep_task(task, [OwnShift()], resamples=400)
    assert swept.chosen.way == "shift by question"
    assert swept.chosen.amount > 0.5
    assert swept.chosen.helps
    assert swept.n_groups == 120


def test_every_default_way_can_be_tried_on_questions_that_share_images():
    X, texts, correct, *_ = planted_questions(n=40)
    image_of = np.arange(40) // 2
    task = multiple_choice_task(X[:20], texts, correct, image_of=image_of)
    swept = sweep_task(task, resamples=100)
    assert swept.n_groups == 20
    raw = multiple_choice(X[:20], texts, correct, image_of=image_of).outcomes
    np.testing.assert_array_equal(swept.outcomes[0], raw)
    assert compare(raw, swept.outcomes_at("Calibrate", 1.0), image_of, resamples=100).n_groups == 20


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"right": np.eye(4)[None]}, "right must have texts for each of 2 questions, got 1"),
        ({"wrong": np.eye(4)[[[0], [1]]]}, "question 0 has 1 for 2"),
        ({"wrong": np.ones((2, 2, 5))}, "same number of columns"),
        ({"gap": np.ones(3)}, "gap must be one vector of 4 finite numbers"),
        ({"draws": 0}, "draws must be at least 1"),
        ({"right": np.zeros((2, 1, 4))}, "right has 2 rows with length zero"),
    ],
)
def test_bad_wordings_are_refused_in_one_sentence(change, message):
    texts = np.eye(4)[[[0, 1, 2], [1, 2, 3]]]
    given = {"right": texts, "wrong": texts} | change
    with pytest.raises(InputError, match=message):
        rephrased_choice(np.eye(4)[:2], texts, [0, 1], **given)


def test_a_gain_needs_its_amounts():
    found = rephrased_choice(*planted_questions(n=4), amounts=[0.0, 0.5], draws=2)
    with pytest.raises(InputError, match="amounts must hold 0 and 1"):
        found.gain()
    assert set(found.to_dict()) == {"amounts", "clean", "rephrased", "closed", "draws", "n"}
