"""The linear probe as a task: equal to linear_probe, blind to moves, open to other lengths."""

from __future__ import annotations

import numpy as np
import pytest

from modgap.corrections import Calibrate, OrthogonalShift, Shift
from modgap.evaluation import linear_probe
from modgap.evaluation.tasks import CorrectionWay, linear_probe_task, sweep_task

N, DIM, CLASSES = 240, 10, 4


@pytest.fixture
def split(rng):
    centres = rng.normal(size=(CLASSES, DIM))
    labels = rng.integers(0, CLASSES, N)
    X = centres[labels] + 0.9 * rng.normal(size=(N, DIM)) + 2
    Y = rng.normal(size=(50, DIM)) - 2
    return (X[: N // 2], labels[: N // 2]), (X[N // 2 :], labels[N // 2 :]), Y


def test_rows_as_they_are_give_the_probe_of_unit_rows(split) -> None:
    train, test, Y = split
    sides = [(rows / np.linalg.norm(rows, axis=1, keepdims=True), y) for rows, y in (train, test)]
    expected = linear_probe(*sides, C=(1.0, 10.0, 100.0), max_iterations=300)
    task = linear_probe_task(train, test, Y)
    np.testing.assert_array_equal(task.outcomes(), expected.hits)
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
    np.testing.assert_array_equal(longer.outcomes(), as_given.outcomes())


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


def test_bad_input_is_refused(split) -> None:
    train, test, Y = split
    with pytest.raises(ValueError, match="columns"):
        linear_probe_task(train, (test[0][:, :3], test[1]), Y)
    with pytest.raises(ValueError, match="test labels must give one label per row"):
        linear_probe_task(train, (test[0], test[1][:5]), Y)
    with pytest.raises(ValueError, match="columns"):
        linear_probe_task(train, test, Y[:, :4])
    with pytest.raises(ValueError, match="1 classes that train does not have"):
        sweep_task(linear_probe_task(train, (test[0], test[1] + 1), Y))
