"""Zero-shot classification against brute force: prompts, classes, ties, corrections, bad input."""

from __future__ import annotations

import json

import numpy as np
import pytest

from modgap.corrections import METRICS, Center
from modgap.evaluation.significance import compare
from modgap.reproduce.liang2022 import PAPER
from modgap.tasks import zero_shot_task
from modgap.tasks.zero_shot import PUBLISHED
from task_rows import nearest

N, CLASSES, DIM = 90, 6, 10


@pytest.fixture
def task():
    """Rows scattered around their class's direction, texts with an offset; one class is empty."""
    rng = np.random.default_rng(5)
    centres = rng.normal(size=(CLASSES, DIM))
    labels = rng.integers(0, CLASSES - 1, N)
    X = centres[labels] + 1.1 * rng.normal(size=(N, DIM))
    texts = (centres + 0.6 * rng.normal(size=centres.shape) + 0.8) * rng.uniform(
        0.5, 2, (CLASSES, 1)
    )
    return X, texts, labels


def zero_shot(X, texts, labels, correction=None, **settings):
    return zero_shot_task(X, texts, labels, **settings).score(correction)


def slow_predictions(X, texts, metric):
    return np.array([nearest(x, texts, metric) for x in X])


@pytest.mark.parametrize("metric", METRICS)
def test_predictions_and_accuracies_equal_brute_force(task, metric, library):
    X, texts, labels = task
    expected = slow_predictions(X, texts, metric)
    found = zero_shot(library(X), library(texts), labels, metric=metric)
    np.testing.assert_array_equal(found.predictions, expected)
    np.testing.assert_array_equal(found.outcomes, expected == labels)
    assert found.mean == np.mean(expected == labels)
    assert 1 / CLASSES < found.mean < 1
    by_class = found.by(labels)
    for c in range(CLASSES - 1):
        assert by_class[c] == pytest.approx(np.mean(expected[labels == c] == c))
    assert (found.n, found.metric, found.chance) == (N, metric, 1 / CLASSES)


def test_the_published_accuracies_are_those_of_the_paper():
    rows = PAPER.table("table1").rows
    assert [one.value for one in PUBLISHED] == [after for _, after, _ in rows.values()]
    assert "smaller than the original, where it is 0.541" in PUBLISHED[2].what


def test_a_class_without_items_has_no_accuracy_and_json_has_no_items(task):
    found = zero_shot(*task)
    assert list(found.by(task[2])) == list(range(CLASSES - 1))
    metrics = json.loads(json.dumps(found.to_dict()))
    assert set(metrics) == {"mean", "parts", "chance", "n", "metric"}
    assert metrics["n"] == N


def test_several_prompts_are_averaged_at_unit_length(task, library, rng):
    X, texts, labels = task
    prompts = texts[:, None, :] + rng.normal(size=(CLASSES, 3, DIM))
    unit = prompts / np.linalg.norm(prompts, axis=2, keepdims=True)
    expected = slow_predictions(X, unit.mean(axis=1), "cosine")
    assert (expected != slow_predictions(X, prompts.mean(axis=1), "cosine")).any()
    stacked = zero_shot(library(X), library(prompts), labels)
    np.testing.assert_array_equal(stacked.predictions, expected)
    listed = zero_shot(library(X), [library(p) for p in prompts], labels)
    np.testing.assert_array_equal(listed.predictions, expected)


def test_classes_may_have_different_numbers_of_prompts(task, rng):
    X, texts, labels = task
    prompts = [t + 0.3 * rng.normal(size=(p + 1, DIM)) for p, t in enumerate(texts)]
    rows = [(p / np.linalg.norm(p, axis=1, keepdims=True)).mean(axis=0) for p in prompts]
    found = zero_shot(X, prompts, labels)
    np.testing.assert_array_equal(found.predictions, slow_predictions(X, rows, "cosine"))


def test_equal_scores_go_to_the_earlier_class():
    X = np.ones((4, 3))
    found = zero_shot(X, np.ones((3, 3)), [0, 1, 2, 0])
    assert found.predictions.tolist() == [0] * 4
    assert found.by([0, 1, 2, 0]) == {0: 1, 1: 0, 2: 0}


def test_row_lengths_and_rotation_change_nothing(task, rng):
    X, texts, labels = task
    turn = np.linalg.qr(rng.normal(size=(DIM, DIM)))[0]
    stretched = zero_shot(3 * X @ turn, 0.2 * texts @ turn, labels)
    np.testing.assert_array_equal(stretched.predictions, zero_shot(X, texts, labels).predictions)


def test_a_correction_is_applied_and_compared_on_the_same_items(task):
    X, texts, labels = task
    correction = Center().fit(X, texts, rows="given").correction_
    before, after = zero_shot(*task), zero_shot(*task, correction=correction)
    expected = slow_predictions(X - X.mean(0), texts - texts.mean(0), "cosine")
    assert (after.predictions != before.predictions).any()
    # Center moves unit rows, so brute force agrees on nearly, not exactly, all of these.
    assert np.mean(after.predictions == expected) > 0.8
    by_hand = zero_shot(correction.x(X), correction.y(texts), labels)
    np.testing.assert_array_equal(after.predictions, by_hand.predictions)
    test = compare(before.outcomes, after.outcomes)
    assert test.test == "mcnemar"
    assert test.difference.value == pytest.approx(after.mean - before.mean)


def test_labels_may_be_a_torch_tensor(task):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    X, texts, labels = task
    found = zero_shot(torch.tensor(X), torch.tensor(texts), torch.tensor(labels))
    assert found.mean == zero_shot(X, texts, labels).mean


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda X, t, y: (X, t, y[:-1]), "labels must give one label per row: 90 rows, got shape"),
        (lambda X, t, y: (X, t, y + 2), "labels must be between 0 and 5, one class per row"),
        (lambda X, t, y: (X, t, y - 1), "labels must be between 0 and 5.* got -1 to"),
        (lambda X, t, y: (X, t, y.astype(str)), "labels must be class numbers, whole numbers"),
        (lambda X, t, y: (X, t[:, :4], y), "X and class_texts must have the same number of col"),
        (lambda X, t, y: (X, 0 * t, y), "class_texts has 6 rows with length zero"),
        (lambda X, t, y: (X, [t, 0 * t], y % 2), r"class_texts\[1\] has 6 rows with length zero"),
        (lambda X, t, y: (X * np.nan, t, y), "X has 90 rows with NaN"),
        (lambda X, t, y: (X, [], y), "class_texts must be a matrix"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(task, change, said):
    with pytest.raises((ValueError, TypeError), match=said):
        zero_shot(*change(*task))
