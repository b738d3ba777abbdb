from __future__ import annotations

import numpy as np
import pytest

import modgap
from conftest import make_pairs
from modgap._validate import InputValueError
from modgap.corrections import Calibrate, Center, OrthogonalShift, Shift
from modgap.diagnosis import diagnose, gap_paths
from modgap.diagnosis.path import MOVES, TEMPERATURES, partly
from modgap.diagnosis.splits import split
from modgap.evaluation.metrics import correction_metrics, draws_for, noise_for
from modgap.io import Modalities


@pytest.fixture(scope="module")
def data():
    X, Y = make_pairs(200, 16, seed=5)
    return tuple(A / np.linalg.norm(A, axis=1, keepdims=True) for A in (X, Y))


@pytest.mark.parametrize("paired", [True, False])
def test_at_both_ends_metrics_are_those_of_diagnose(data, paired):
    paths, failures = gap_paths(*data, paired=paired, steps=(0, 0.5, 1))
    diagnosis = diagnose(*data, paired=paired, correctors=MOVES)
    assert not failures
    assert [path.method for path in paths] == [trial.method for trial in diagnosis.trials]
    for path, trial in zip(paths, diagnosis.trials, strict=True):
        assert "robust_to_noise" in path.metrics
        for name, values in path.metrics.items():
            raw, corrected = diagnosis.raw.metrics[name], trial.confirm.metrics[name]
            assert values[0] == pytest.approx(raw.value.value, abs=1e-12)
            assert values[-1] == pytest.approx(corrected.value.value, abs=1e-12)


def test_losses_are_those_of_the_held_out_pairs(data):
    [path], _ = gap_paths(*data, moves=(Shift(0.5),), steps=(0, 1))
    splits = split(Modalities.of(*data), seed=0)
    correction = Shift(0.5).fit(splits.fit).correction_
    X, Y = splits.confirm.X, splits.confirm.Y
    for place, temperature in enumerate(TEMPERATURES):
        assert path.losses[place, 0] == modgap.measures.contrastive_loss(X, Y, temperature)
        moved = modgap.measures.contrastive_loss(correction.x(X), correction.y(Y), temperature)
        assert path.losses[place, 1] == pytest.approx(moved, abs=1e-12)


def test_closing_half_of_the_gap_is_half_the_shift(data):
    [path], _ = gap_paths(*data, moves=(Shift(0.5),), steps=(0.5,))
    [other], _ = gap_paths(*data, moves=(Shift(0.25),), steps=(1,))
    for name, values in path.metrics.items():
        assert values[0] == pytest.approx(other.metrics[name][0], abs=1e-12)


def test_offsets_and_renormalising_say_where_rows_go(data):
    X, _ = data
    paths, _ = gap_paths(*data, steps=(0,))
    fit = split(Modalities.of(*data), seed=0).fit
    for path, corrector in zip(
        paths, (Shift(0.5), Center(), OrthogonalShift("y", 0.95)), strict=True
    ):
        moved = X + path.offsets[0]
        if path.renormalise:
            moved /= np.linalg.norm(moved, axis=1, keepdims=True)
        np.testing.assert_allclose(moved, corrector.fit(fit.X, fit.Y).correction_.x(X), atol=1e-9)


def test_a_move_that_moves_nothing_says_why(data):
    X, Y = data
    paths, failures = gap_paths(X, Y, moves=(OrthogonalShift("y", 1.0),), steps=(0, 1))
    assert paths == ()
    assert "moves nothing" in failures["OrthogonalShift(move='y')"]


def test_only_offsets_can_be_applied_in_part(data):
    correction = Calibrate().fit(*data).correction_
    with pytest.raises(InputValueError, match="Only a correction that moves rows by an offset"):
        partly(correction, 0.5)


def test_progress_counts_to_the_end(data):
    heard = []
    gap_paths(*data, steps=(0, 1), progress=lambda step, done, total: heard.append((done, total)))
    assert heard[0] == (0, 6)
    assert heard[-1] == (5, 6)
    assert [done for done, _ in heard] == sorted(done for done, _ in heard)


@pytest.mark.parametrize("paired", [True, False])
def test_wanted_metrics_are_the_same_as_among_all(data, paired):
    held = split(Modalities.of(*data, paired=paired), seed=0).confirm
    correction = Center().fit(*data).correction_
    every = correction_metrics(held, correction, noise_for(held), 0)
    for name, sample in every.items():
        [(only, alone)] = correction_metrics(held, correction, noise_for(held), 0, [name]).items()
        assert only == name
        for kind in ("values", "X"):
            if hasattr(sample, kind):
                np.testing.assert_array_equal(getattr(sample, kind), getattr(alone, kind))


def test_noise_is_drawn_less_often_where_queries_are_many():
    assert [draws_for(n) for n in (1, 125, 250, 500, 1000, 10**6)] == [20, 20, 20, 10, 5, 5]


def test_moments_at_hand_give_the_same_correction(data):
    X, Y = data
    moments = modgap.moments.PairMoments.from_batch(X, Y)
    for corrector in (Shift(), Center(), Calibrate(), OrthogonalShift("x", 0.9)):
        once = corrector.fit(X, Y).correction_
        again = corrector.fit(X, Y, moments=moments).correction_
        np.testing.assert_array_equal(once.x(X), again.x(X))
        assert once.about == again.about
