"""A run of descent: its history, and what it refuses."""

from __future__ import annotations

import dataclasses
import itertools
import json

import numpy as np
import pytest

from modgap.core.checks import InputTypeError, InputValueError
from modgap.measures.loss import soft_assignments
from modgap.simulate.dynamics import descend, log_spaced_steps
from modgap.simulate.dynamics_start import collapsed, make_clusters, three_pairs
from modgap.simulate.dynamics_theory import first_step, shared_caption_loss


def test_the_history_holds_the_asked_steps_and_the_input_stays():
    X, Y = make_clusters(6, 3)
    before = X.copy()
    run = descend(X, Y, 0.1, 50, records=[7, 20], snapshots=[0, 20])
    assert run.steps.tolist() == [0, 7, 20, 50]
    assert [s.step for s in run.snapshots] == [0, 20]
    np.testing.assert_array_equal(run.snapshots[0].X, X)
    at_twenty = descend(X, Y, 0.1, 20)
    np.testing.assert_array_equal(run.snapshots[1].Y, at_twenty.Y)
    np.testing.assert_allclose(
        run.snapshots[1].assignments_y, soft_assignments(at_twenty.X, at_twenty.Y, 0.1).y
    )
    np.testing.assert_array_equal(X, before)
    json.dumps(run.to_dict(), allow_nan=False)
    with pytest.raises(dataclasses.FrozenInstanceError):
        run.loss = 0


def test_log_spaced_steps_end_at_the_last_and_never_repeat():
    spaced = log_spaced_steps(10**7, 60)
    assert (spaced[0], spaced[1], spaced[-1]) == (0, 1, 10**7)
    assert all(a < b for a, b in itertools.pairwise(spaced))
    assert log_spaced_steps(1, 60) == (0, 1)


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"X": np.zeros((3, 1)), "Y": np.zeros((3, 1))}, InputValueError, "at least 2 columns"),
        ({"X": np.zeros((4, 2))}, InputValueError, "same pairs row by row, got"),
        ({"X": np.zeros(3)}, InputValueError, "matrix with one row per item"),
        ({"X": np.full((3, 2), np.nan)}, InputValueError, "3 rows with NaN or infinity"),
        ({"temperature": -0.1}, InputValueError, "temperature must be a finite number above 0"),
        ({"steps": 0}, InputValueError, "steps must be at least 1, got 0"),
        ({"steps": 2.5}, InputTypeError, "steps must be a whole number, got 2.5"),
        ({"learning_rate": 0}, InputValueError, "learning_rate must be a finite number above 0"),
        ({"temperature_rate": -1.0}, InputValueError, "temperature_rate must be a finite"),
        ({"records": 0}, InputValueError, "records must be at least 1"),
        ({"records": 1.5}, InputTypeError, "records must be a list of steps, got 1.5"),
        ({"snapshots": [11]}, InputValueError, "snapshots must be between 0 and 10, got 11"),
        ({"engine": "nump"}, InputValueError, "Did you mean 'numpy'"),
        ({"X": np.zeros((3, 2)), "sphere": True}, InputValueError, "length zero"),
        ({"learning_rate": 1e308}, InputValueError, "left the range of floats before step"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(change, error, text):
    X, Y = make_clusters(3)
    call = {"X": X, "Y": Y, "temperature": 0.1, "steps": 10, **change}
    with pytest.raises(error, match=text):
        descend(**call)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: make_clusters(5, 1), "dimension must be at least 2, got 1"),
        (lambda: make_clusters(5, spread=-1.0), "spread must be a finite number above 0"),
        (lambda: collapsed(1), "n must be at least 2, got 1"),
        (lambda: three_pairs("gaps"), "Did you mean 'gap'"),
        (lambda: first_step(np.eye(3), np.eye(3), 0.1), "must have different means"),
        (lambda: shared_caption_loss(-1.0, 0.0), "first must be a finite number above 0"),
        (lambda: make_clusters(5, gap=float("nan")), "gap must be a finite number above 0"),
    ],
)
def test_bad_starts_are_refused_in_one_sentence(call, text):
    with pytest.raises(InputValueError, match=text):
        call()
