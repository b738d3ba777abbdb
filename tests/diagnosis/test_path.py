from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import modgap
from conftest import make_pairs
from modgap.core.checks import InputValueError
from modgap.corrections import (
    Calibrate,
    Center,
    Correction,
    OrthogonalShift,
    Procrustes,
    Shift,
    Whiten,
)
from modgap.corrections.affine import Affine
from modgap.corrections.interpolated import in_proportion, interpolated
from modgap.diagnosis import diagnose, gap_paths
from modgap.diagnosis.path import MOVES, TEMPERATURES
from modgap.diagnosis.splits import split
from modgap.evaluation.metrics import AsTheyAre, correction_metrics, draws_for
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
        as_it_is = modgap.measures.contrastive_loss(X, Y, temperature)
        assert path.losses[place, 0] == pytest.approx(as_it_is, abs=1e-12)
        moved = modgap.measures.contrastive_loss(correction.x(X), correction.y(Y), temperature)
        assert path.losses[place, 1] == pytest.approx(moved, abs=1e-12)


def test_closing_half_of_the_gap_is_half_the_shift(data):
    [path], _ = gap_paths(*data, moves=(Shift(0.5),), steps=(0.5,))
    [other], _ = gap_paths(*data, moves=(Shift(0.25),), steps=(1,))
    for name, values in path.metrics.items():
        assert values[0] == pytest.approx(other.metrics[name][0], abs=1e-12)


def test_a_move_that_moves_nothing_says_why(data):
    X, Y = data
    paths, failures = gap_paths(X, Y, moves=(OrthogonalShift("y", 1.0),), steps=(0, 1))
    assert paths == ()
    assert "moves nothing" in failures["OrthogonalShift(move='y')"]


RECOMMENDED = [
    Calibrate("keep"),
    Calibrate("mixed"),
    Calibrate("keep", hubs=0.5, neighbours=5),
    Calibrate("mixed", hubs=0.75, neighbours=5),
    Center(),
    Shift(0.25),
    Whiten(0.1),
    Procrustes(),
    OrthogonalShift("x", 0.95),
]


@pytest.fixture(scope="module")
def diagnosis(data):
    return diagnose(*data, correctors=RECOMMENDED)


@pytest.mark.parametrize("corrector", RECOMMENDED, ids=lambda one: one.label)
def test_the_recommended_way_comes_first_and_ends_in_the_numbers_of_the_verdict(
    data, diagnosis, corrector
):
    advised = replace(diagnosis, recommended=corrector.label)
    paths, failures = gap_paths(*data, diagnosis=advised, steps=(0, 0.9, 1), move_steps=(0, 1))
    assert not failures
    assert [path.method for path in paths] == list(
        dict.fromkeys(one.label for one in (corrector, *MOVES))
    )
    assert [len(path.steps) for path in paths] == [3, *(2 for _ in paths[1:])]
    (trial,) = (one for one in diagnosis.trials if one.method == corrector.label)
    for name, values in paths[0].metrics.items():
        raw, corrected = diagnosis.raw.metrics[name], trial.confirm.metrics[name]
        assert values[0] == pytest.approx(raw.value.value, abs=1e-12)
        assert values[-1] == pytest.approx(corrected.value.value, abs=1e-12)


def test_the_way_of_both_asking_modalities_ends_in_the_numbers_of_the_verdict(data):
    both = diagnose(*data, queries=("image", "text"), correctors=[Calibrate(form="blocks")])
    advised = replace(both, recommended=both.trials[0].method)
    [path], _ = gap_paths(*data, queries=("image", "text"), diagnosis=advised, moves=())
    for name, values in path.metrics.items():
        for place, scores in ((0, both.raw), (-1, both.trials[0].confirm)):
            expected = scores.metrics[name].value.value
            assert values[place] == pytest.approx(expected, abs=1e-12)
    assert path.losses is None  # documents of the two have no columns in common


@pytest.mark.parametrize("corrector", RECOMMENDED, ids=lambda one: one.label)
def test_a_correction_in_part_is_near_the_rows_at_its_start_and_near_itself_at_its_end(
    data, diagnosis, corrector
):
    correction = diagnosis.corrections[corrector.label]
    assert interpolated(correction, 1) is correction
    whole = in_proportion(correction)
    for name, rows in zip(("image", "text"), data, strict=True):
        little, much = (interpolated(correction, t).affine(name)(rows) for t in (1e-9, 1 - 1e-9))
        np.testing.assert_allclose(little, rows, atol=1e-7)
        np.testing.assert_allclose(much, whole.affine(name)(rows), atol=1e-7)
        longer = np.linalg.norm(much, axis=1) / np.linalg.norm(rows, axis=1)
        assert 0.2 < longer.mean() < 5  # near enough to be drawn together


def test_in_proportion_no_ranking_changes(data, diagnosis):
    held = Modalities.of(*data)
    for corrector in RECOMMENDED:
        correction = diagnosis.corrections[corrector.label]
        found = (correction_metrics(AsTheyAre(held), one, ["text"], ["mixed_ndcg@10"])
                 for one in (correction, in_proportion(correction)))  # fmt: skip
        before, after = (one["mixed_ndcg@10"].values for one in found)
        np.testing.assert_allclose(before, after, atol=1e-12)


def test_scores_of_a_calibration_in_part_lie_between_raw_and_corrected_ones(data, diagnosis):
    X, Y = data
    correction = diagnosis.corrections[Calibrate("keep").label]
    scale = in_proportion(correction).affine("image").scale / correction.affine("image").scale
    half = interpolated(correction, 0.3)
    scores = half.y(Y, "query") @ half.x(X).T
    expected = 0.7 * (Y @ X.T) + 0.3 * scale * (Y @ correction.x(X).T)
    np.testing.assert_allclose(scores, expected, atol=1e-12)


def test_hubs_are_subtracted_in_part(data, diagnosis):
    correction = diagnosis.corrections[Calibrate("keep", hubs=0.5, neighbours=5).label]
    half = interpolated(correction, 0.5)
    X, _ = data
    place, column = half.x(X)[:, :-1], half.x(X)[:, -1]
    bank = np.sort(place @ correction.hubs.bank.astype(float).T, axis=1)
    np.testing.assert_allclose(column, -0.25 * bank[:, -5:].mean(axis=1), atol=1e-6)


def test_a_share_must_be_one(data, diagnosis):
    for share in (0, -0.5, 1.5):
        with pytest.raises(InputValueError, match="share must be above 0 and at most 1"):
            interpolated(diagnosis.corrections["Procrustes()"], share)
        # What only adds an offset can also add more of it, or take it away.
        moved, center = (
            interpolated(diagnosis.corrections["Center()"], s).affine("image") for s in (share, 0.5)
        )
        np.testing.assert_allclose(moved.offset, 2 * share * center.offset)
    with pytest.raises(InputValueError, match="steps must be between 0 and 1"):
        gap_paths(*data, steps=(0, 2))
    wide = {(name, "document"): Affine(2, np.ones((3, 2))) for name in ("image", "text")}
    with pytest.raises(InputValueError, match="keeps the number of columns"):
        interpolated(Correction(("image", "text"), wide), 0.5)


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
    every = correction_metrics(AsTheyAre(held), correction, held.names)
    for name, sample in every.items():
        found = correction_metrics(AsTheyAre(held), correction, held.names, [name])
        [(only, alone)] = found.items()
        assert only == name
        for kind in ("values", "X"):
            if hasattr(sample, kind):
                np.testing.assert_array_equal(getattr(sample, kind), getattr(alone, kind))


def test_noise_is_drawn_less_often_where_queries_are_many():
    assert [draws_for(n) for n in (1, 125, 250, 500, 1000, 10**6)] == [20, 20, 20, 10, 5, 5]
