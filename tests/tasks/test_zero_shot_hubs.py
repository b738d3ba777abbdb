"""Zero-shot with hubs against loops; what is chosen and measured on which rows; bad input."""

from __future__ import annotations

import numpy as np
import pytest

from conftest import unit
from modgap.corrections import Calibrate
from modgap.corrections.bank import ForeignBankWarning
from modgap.io import Modalities
from modgap.tasks.zero_shot import zero_shot_task
from modgap.tasks.zero_shot_hubs import zero_shot_hubs

N, CLASSES, DIM = 240, 8, 16


@pytest.fixture
def task():
    """Rows around their class's direction; the first two texts lie where all rows are."""
    rng = np.random.default_rng(3)
    centres = rng.normal(size=(CLASSES, DIM))
    labels = rng.integers(0, CLASSES, N)
    mean = 3 * rng.normal(size=DIM)
    X = centres[labels] + 0.8 * rng.normal(size=(N, DIM)) + mean
    texts = centres + 0.4 * rng.normal(size=centres.shape) - mean
    texts[:2] += 0.5 * mean
    return X, texts, labels


@pytest.fixture
def bank(task):
    X, _, labels = task
    rng = np.random.default_rng(4)
    means = np.array([X[labels == c].mean(axis=0) for c in range(CLASSES)])
    return means[rng.integers(0, CLASSES, 60)] + 0.8 * rng.normal(size=(60, DIM))


def slow_predictions(X, texts, bank, weight, k):
    """Class by class and row by row; the bank is held in half precision."""
    X, texts, bank = unit(X), unit(texts), unit(bank).astype(np.float16).astype(np.float64)
    texts = texts - texts.mean(axis=0)
    hubness = []
    for t in texts:
        scores = sorted((float(b @ t) for b in bank), reverse=True)
        hubness.append(sum(scores[:k]) / k)
    return np.array(
        [np.argmax([x @ t - weight * h for t, h in zip(texts, hubness, strict=True)]) for x in X]
    )


def measured_rows(seed=0):
    return np.sort(np.array_split(np.random.default_rng(seed).permutation(N), 2)[1])


@pytest.mark.parametrize(("weight", "k"), [(0.5, 10), (0.25, 5)])
def test_zero_shot_with_a_correction_with_hubs_equals_brute_force(task, bank, library, weight, k):
    X, texts, labels = task
    data = Modalities.of(X, texts, paired=False)
    corrector = Calibrate(hubs=weight, neighbours=k).fit(data, queries="image", bank=bank)
    found = zero_shot_task(library(X), library(texts), labels).score(corrector.correction_)
    expected = slow_predictions(X, texts, bank, weight, k)
    np.testing.assert_array_equal(found.predictions, expected)
    assert (expected != zero_shot_task(*task).score().predictions).any()


def test_the_gain_is_that_of_the_second_half_with_what_the_first_half_chose(task, bank, library):
    X, texts, labels = task
    found = zero_shot_hubs(library(X), library(texts), labels, library(bank))
    rows = measured_rows()
    expected = slow_predictions(X[rows], texts, bank, found.weight, found.neighbours)
    np.testing.assert_array_equal(found.corrected.predictions, expected)
    raw = zero_shot_task(X[rows], texts, labels[rows]).score()
    np.testing.assert_array_equal(found.raw.predictions, raw.predictions)
    gain = np.mean(expected == labels[rows]) - raw.mean
    assert found.gain.difference.value == pytest.approx(gain)
    assert found.gain.difference.low > 0  # texts that lie where all rows are were planted
    assert found.n_bank == len(bank)


def test_the_choice_is_the_best_of_the_first_half_by_brute_force(task, bank):
    X, texts, labels = task
    found = zero_shot_hubs(*task, bank, weights=(0.5, 1), neighbours=(5, 20))
    rows = np.setdiff1d(np.arange(N), measured_rows())
    scores = {
        (weight, k): np.mean(slow_predictions(X[rows], texts, bank, weight, k) == labels[rows])
        for k in (5, 20)
        for weight in (0.5, 1)
    }
    assert (found.weight, found.neighbours) == max(scores, key=scores.__getitem__)


def test_without_a_bank_each_half_is_the_bank_of_the_other(task):
    X, texts, _ = task
    found = zero_shot_hubs(*task, seed=1)
    rows = measured_rows(seed=1)
    others = X[np.setdiff1d(np.arange(N), rows)]
    expected = slow_predictions(X[rows], texts, others, found.weight, found.neighbours)
    np.testing.assert_array_equal(found.corrected.predictions, expected)
    assert found.n_bank == N // 2
    assert found.correction.hubs.n_bank == N


def test_labels_of_the_measured_half_choose_nothing(task, rng):
    X, texts, labels = task
    rows = measured_rows()
    shuffled = labels.copy()
    shuffled[rows] = rng.permutation(shuffled[rows])
    before, after = zero_shot_hubs(*task), zero_shot_hubs(X, texts, shuffled)
    assert (before.weight, before.neighbours) == (after.weight, after.neighbours)
    assert after.corrected.mean < before.corrected.mean


def test_the_correction_serves_new_rows(task, bank):
    X, texts, labels = task
    found = zero_shot_hubs(*task, bank)
    again = zero_shot_task(X, texts, labels).score(found.correction)
    expected = slow_predictions(X, texts, bank, found.weight, found.neighbours)
    np.testing.assert_array_equal(again.predictions, expected)
    assert found.correction.hubs.weight == found.weight
    assert found.correction.queries == ("image",)


def test_where_nothing_is_better_the_rows_stay_as_they_are():
    texts = np.eye(4) + 0.1
    labels = np.repeat(np.arange(4), 20)
    found = zero_shot_hubs(texts[labels], texts, labels)
    assert (found.weight, found.neighbours, found.correction) == (0.0, 0, None)
    assert found.gain.difference.value == 0


def test_more_neighbours_than_half_of_the_bank_are_not_tried(task, bank):
    found = zero_shot_hubs(*task, bank[:20], neighbours=(5, 10, 11, 50))
    assert found.neighbours in (5, 10)


def test_names_are_those_of_the_correction(task):
    found = zero_shot_hubs(*task, names=("audio", "text"))
    assert found.correction.queries == ("audio",)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda X, t, y, b: (X, t, y, b[:0]), "bank"),
        (lambda X, t, y, b: (X, t, y, b[:19]), "must have at least 20 queries, got 19"),
        (lambda X, t, y, b: (X[:30], t, y[:30], None), "X must have at least 40 rows .* got 30"),
        (lambda X, t, y, b: (X, t, y, b[:, :4]), "The bank must have the 16 columns of the rows"),
        (lambda X, t, y, b: (X, t, y, b * np.nan), "bank has 60 rows with NaN"),
        (lambda X, t, y, b: (X, t, y, 0 * b), "bank has 60 rows with length zero"),
        (lambda X, t, y, b: (X, t, y, np.vstack([b, X[:3]])), "The bank has 3 rows of X"),
        (lambda X, t, y, b: (X, t, y, np.repeat(t, 5, axis=0)), "are of another model"),
        (lambda X, t, y, b: (X, t, y + 1, b), "labels must be between 0 and 7"),
        (lambda X, t, y, b: (X, t, y[:-1], b), "labels must give one label per row"),
        (lambda X, t, y, b: (X, t, y.astype(float), b), "labels must be class numbers"),
        (lambda X, t, y, b: (X, t[:, :4], y, b), "must .* same number of col"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(task, bank, change, said):
    with pytest.raises((ValueError, TypeError), match=said):
        zero_shot_hubs(*change(*task, bank))


def test_a_bank_of_another_kind_is_warned_of_once(rng):
    texts = rng.normal(size=(60, DIM))
    labels = np.repeat(np.arange(60), 8)
    half = np.arange(DIM) < DIM // 2  # rows differ in these features, the bank's in the others
    X = 0.3 + texts[labels] * half + 0.3 * rng.normal(size=(480, DIM)) * half
    foreign = 0.3 + rng.normal(size=(100, DIM)) * ~half
    with pytest.warns(ForeignBankWarning, match="finds other hubs") as said:
        zero_shot_hubs(X, texts, labels, foreign)
    assert len(said) == 1


def test_weights_that_are_no_shares_are_refused(task, bank):
    with pytest.raises(ValueError, match="hubs must be between 0 and 1, got 2"):
        zero_shot_hubs(*task, bank, weights=(2,))
