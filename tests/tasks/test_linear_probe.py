"""The linear probe: against the bare classifier, choice of C, labels; swept over corrections."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from modgap.corrections import Calibrate, OrthogonalShift, Shift
from modgap.evaluation.significance import compare
from modgap.tasks import CorrectionWay, linear_probe, linear_probe_task, sweep_task

DIM, CLASSES = 8, 4


def make_rows(n, rng, spread=1.5):
    labels = np.arange(n) % CLASSES
    centres = np.random.default_rng(1).normal(size=(CLASSES, DIM))
    return centres[labels] + spread * rng.normal(size=(n, DIM)), labels


@pytest.fixture
def task():
    rng = np.random.default_rng(3)
    return make_rows(120, rng), make_rows(80, rng)


def test_it_is_a_logistic_regression_fitted_on_train_and_scored_on_test(task, library):
    (X, x_labels), (Y, y_labels) = task
    X, Y = X.astype("float32"), Y.astype("float32")
    model = LogisticRegression(C=0.316, max_iter=1_000).fit(X.astype("float64"), x_labels)
    expected = model.predict(Y.astype("float64"))
    found = linear_probe((library(X), x_labels), (library(Y), y_labels))
    np.testing.assert_array_equal(found.predictions, expected)
    assert found.accuracy == np.mean(expected == y_labels)
    assert 1 / CLASSES < found.accuracy < 1
    assert (found.n, found.n_train, found.C, found.converged) == (80, 120, 0.316, True)


def test_separable_classes_are_read_without_error_and_noise_at_chance(rng):
    easy = make_rows(200, rng, 0.01)
    assert linear_probe(easy, make_rows(100, rng, 0.01)).accuracy == 1
    X, labels = make_rows(400, rng)
    noise = rng.normal(size=X.shape)
    found = linear_probe((noise, labels), (rng.normal(size=X.shape), labels))
    assert abs(found.accuracy - 1 / CLASSES) < 4 * (0.25 * 0.75 / 400) ** 0.5


def test_rotating_the_rows_changes_nothing(task, rng):
    (X, x_labels), (Y, y_labels) = task
    turn = np.linalg.qr(rng.normal(size=(DIM, DIM)))[0]
    turned = linear_probe((X @ turn, x_labels), (Y @ turn, y_labels))
    assert turned.accuracy == linear_probe(*task).accuracy


def test_labels_may_be_words(task):
    (X, x_labels), (Y, y_labels) = task
    words = np.array(["dog", "ant", "cat", "bee"])
    found = linear_probe((X, words[x_labels]), (Y, words[y_labels]))
    plain = linear_probe(*task)
    assert found.predictions.tolist() == words[plain.predictions].tolist()
    metrics = json.loads(json.dumps(found.to_dict()))
    assert metrics["accuracy"] == plain.accuracy
    assert "predictions" not in metrics


def test_of_several_c_the_one_that_does_best_on_held_out_train_rows_is_used(rng):
    X, labels = make_rows(400, rng, 0.3)
    small = 1e-3 * X
    test = (1e-3 * make_rows(200, rng, 0.3)[0], labels[:200])
    weak = linear_probe((small, labels), test, C=1e-6)
    found = linear_probe((small, labels), test, C=(1e6, 1e-6))
    assert found.C == 1e6
    assert found.accuracy > weak.accuracy
    assert found.n_train == 400


def test_the_test_rows_do_not_choose_c(task, rng):
    train, (Y, labels) = task
    grid = (1e-4, 1e-2, 1.0, 100.0)
    chosen = linear_probe(train, (Y, labels), C=grid).C
    assert chosen == linear_probe(train, (Y, rng.permutation(labels)), C=grid).C


def test_stopping_early_is_said_in_the_result(task):
    assert not linear_probe(*task, max_iterations=1).converged


def test_two_probes_of_the_same_items_compare_pair_by_pair(task):
    first, second = linear_probe(*task), linear_probe(*task, C=1e-6)
    test = compare(first.hits, second.hits)
    assert test.difference.value == pytest.approx(second.accuracy - first.accuracy)
    assert test.n_groups == 80


def test_rows_and_labels_may_be_torch_tensors(task):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    sides = [(torch.tensor(rows), torch.tensor(labels)) for rows, labels in task]
    assert linear_probe(*sides).accuracy == linear_probe(*task).accuracy


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda a, b: (a[0], b), "train must be a pair \\(rows, labels\\), got ndarray"),
        (lambda a, b: (a, (b[0], b[1][:3])), "test labels must give one label per row: 80 rows"),
        (lambda a, b: (a, (b[0][:, :3], b[1])), "train and test must have the same number of col"),
        (lambda a, b: ((a[0], 0 * a[1]), b), "train needs at least two classes, got only"),
        (lambda a, b: (a, (b[0], b[1] + 1)), "test has 1 classes that train does not have"),
        (lambda a, b: ((a[0] * np.inf, a[1]), b), "train rows has 120 rows with NaN or infinity"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(task, change, said):
    with pytest.raises((ValueError, TypeError), match=said):
        linear_probe(*change(*task))


def test_bad_settings_are_refused_in_a_sentence(task):
    with pytest.raises(ValueError, match="C must be finite numbers above 0"):
        linear_probe(*task, C=-1)
    with pytest.raises(ValueError, match="max_iterations must be at least 1"):
        linear_probe(*task, max_iterations=0)
    train, test = task
    few = (train[0][:8], train[1][:8])
    with pytest.raises(ValueError, match="about five train rows per class, got 8 rows"):
        linear_probe(few, test, C=(1, 2))


N, WIDTH = 240, 10


@pytest.fixture
def split(rng):
    centres = rng.normal(size=(CLASSES, WIDTH))
    labels = rng.integers(0, CLASSES, N)
    X = centres[labels] + 0.9 * rng.normal(size=(N, WIDTH)) + 2
    Y = rng.normal(size=(50, WIDTH)) - 2
    return (X[: N // 2], labels[: N // 2]), (X[N // 2 :], labels[N // 2 :]), Y


def test_rows_as_they_are_give_the_probe_of_unit_rows(split) -> None:
    train, test, Y = split
    sides = [(rows / np.linalg.norm(rows, axis=1, keepdims=True), y) for rows, y in (train, test)]
    expected = linear_probe(*sides, C=(1.0, 10.0, 100.0), max_iterations=300)
    task = linear_probe_task(train, test, Y)
    np.testing.assert_array_equal(task.score().outcomes, expected.hits)
    assert (task.n_items, task.roles) == (N // 2, ("document", "document"))


def test_a_move_without_renormalising_changes_nothing_and_one_length_for_all_neither(split) -> None:
    train, test, Y = split
    task = linear_probe_task(train, test, Y, C=10.0)
    unmoved = CorrectionWay("orthogonal", (1.0,), OrthogonalShift("x", 0.5))
    found = sweep_task(task, [unmoved, CorrectionWay("Calibrate", (1.0,), Calibrate())])
    # The intercept takes up the offset; what is left is another size, and so another penalty.
    assert np.mean(found.outcomes[1] != found.outcomes[0]) < 0.03
    assert np.mean(found.outcomes[2] != found.outcomes[0]) < 0.05
    longer = linear_probe_task((9 * train[0], train[1]), (9 * test[0], test[1]), Y,
                               C=10.0, metric="euclidean")  # fmt: skip
    as_given = linear_probe_task(train, test, Y, C=10.0, metric="euclidean")
    np.testing.assert_array_equal(longer.score().outcomes, as_given.score().outcomes)


def test_corrections_never_see_the_rows_that_test(split) -> None:
    train, test, Y = split
    way = CorrectionWay("Shift", (1.0,), Shift(0.5))
    found = sweep_task(linear_probe_task(train, test, Y, C=10.0), [way])
    assert found.fitted_on == f"{N // 2} image and 50 text rows of the task"
    # A probe judges each test row by itself, so fewer of them change nothing for the others.
    fewer = linear_probe_task(train, (test[0][:60], test[1][:60]), Y, C=10.0)
    np.testing.assert_array_equal(sweep_task(fewer, [way]).outcomes, found.outcomes[:, :60])


def test_the_default_ways_of_a_probe_have_no_hubs_and_few_amounts(split) -> None:
    train, test, Y = split
    found = sweep_task(linear_probe_task(train, test, Y, C=10.0), resamples=100)
    assert not [way for way in found.ways if way.startswith("hubs")]
    assert {"Shift", "Center", "Calibrate", "Whiten"} <= set(found.ways)
    assert len(found.points) < 15
