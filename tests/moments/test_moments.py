"""Moments: gathered in any order and grouping they are those of all rows at once."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reference
from conftest import make_pairs
from modgap.measures import cone
from modgap.moments import Moments, PairMoments, RowMoments
from modgap.moments import rows as row_blocks


def parts_of(n: int, cuts: list[int], seed: int) -> list[np.ndarray]:
    """Row numbers in a random order, cut at random places, none empty."""
    order = np.random.default_rng(seed).permutation(n)
    return [part for part in np.split(order, sorted(cuts)) if len(part)]


def check_rows(found: RowMoments, rows: np.ndarray, **tolerance: float) -> None:
    tolerance = tolerance or {"rel": 1e-9, "abs": 1e-9}
    assert found.n == len(rows)
    assert found.mean == pytest.approx(rows.mean(axis=0), **tolerance)
    assert found.covariance == pytest.approx(reference.covariance(rows), **tolerance)
    assert found.variance == pytest.approx(rows.var(axis=0), **tolerance)


partitions = st.lists(st.integers(0, 40), max_size=8)
seeds = st.integers(0, 2**32 - 1)


@given(cuts=partitions, seed=seeds)
def test_shards_in_any_order_and_grouping_give_the_moments_of_all_rows(cuts, seed):
    X, _ = make_pairs(40, 5, seed)
    moments = [Moments.from_batch(X[part]) for part in parts_of(40, cuts, seed)]
    rng = np.random.default_rng(seed)
    while len(moments) > 1:  # add two of them, whichever, until one is left
        i, j = rng.choice(len(moments), 2, replace=False)
        total = moments[i] + moments[j]
        moments = [m for k, m in enumerate(moments) if k not in (i, j)] + [total]
    check_rows(moments[0].given, X)
    check_rows(moments[0].unit, reference.unit(X))


@given(cuts=partitions, seed=seeds)
def test_shards_of_pairs_give_the_cross_moments_of_all_pairs(cuts, seed):
    X, Y = make_pairs(40, 5, seed)
    parts = parts_of(40, cuts, seed)
    total = PairMoments.from_batches([X[p] for p in parts], [Y[p] for p in parts], paired=True)
    centred = (X - X.mean(axis=0)).T @ (Y - Y.mean(axis=0))
    assert total.cross.given == pytest.approx(centred, rel=1e-9, abs=1e-9)
    U, V = reference.unit(X), reference.unit(Y)
    assert total.cross.unit == pytest.approx(
        (U - U.mean(axis=0)).T @ (V - V.mean(axis=0)), rel=1e-9, abs=1e-9
    )
    check_rows(total.x.given, X)
    check_rows(total.y.unit, V)


def test_the_measures_of_shards_are_those_of_the_whole(pairs):
    X, Y = pairs
    shards = PairMoments.from_batches(np.split(X, 4), np.split(Y, 4), paired=True)
    assert shards.gap_vector() == pytest.approx(reference.gap_vector(X, Y))
    assert shards.gap_distance() == pytest.approx(reference.gap_distance(X, Y))
    assert shards.separability() == pytest.approx(reference.separability(X, Y))
    assert shards.alignment() == pytest.approx(reference.alignment(X, Y))
    assert shards.mean_pair_cosine() == pytest.approx(
        np.mean(np.sum(reference.unit(X) * reference.unit(Y), axis=1))
    )
    assert shards.wasserstein_uniformity() == pytest.approx(reference.wasserstein_uniformity(X, Y))
    assert shards.x.feature_offset() == pytest.approx(reference.feature_offset(X))
    assert shards.x.off_diagonal_dominance() == pytest.approx(reference.off_diagonal_dominance(X))
    cosines = reference.cone_cosines(X)
    assert shards.x.cone_mean_and_std() == pytest.approx((cosines.mean(), cosines.std()))
    assert shards.x.cone_mean_and_std() == pytest.approx((cone(X).mean, cone(X).std))


def test_modalities_of_different_sizes_have_no_cross_moments(pairs):
    X, Y = pairs
    found = PairMoments.from_batches(np.split(X, 3), [Y[:11]])
    assert found.cross is None
    assert (found.x.n, found.y.n) == (60, 11)
    with pytest.raises(ValueError, match="needs moments of paired rows"):
        found.alignment()


@pytest.mark.parametrize("shards", [1, 7])
@pytest.mark.parametrize("precision", [np.float64, np.float32])
def test_variances_a_billion_times_below_the_mean_survive(rng, shards, precision):
    # sum(x²) − n·mean² would lose them altogether: 1e12 against 1e-6.
    X = (1e6 + (1e-3 if precision is np.float64 else 1.0) * rng.normal(size=(700, 4))).astype(
        precision
    )
    found = Moments.from_batches(np.array_split(X, shards)).given
    rows = X.astype(np.float64)
    offset = rows - rows[0]  # exact, so the two-pass variance of it is right
    assert found.mean == pytest.approx(rows.mean(axis=0), rel=1e-14)
    assert found.variance == pytest.approx(offset.var(axis=0), rel=1e-6)
    assert found.covariance == pytest.approx(
        reference.covariance(offset), rel=1e-5, abs=1e-6 * offset.var()
    )


def test_many_small_batches_do_not_drift(rng):
    X = 1e6 + 1e-3 * rng.normal(size=(2000, 3))
    found = Moments.from_batches(X.reshape(-1, 2, 3)).given
    offset = X - X[0]
    assert found.variance == pytest.approx(offset.var(axis=0), rel=1e-6)


def test_details_below_covariance_hold_less(pairs):
    X, Y = pairs
    variance = Moments.from_batch(X, detail="variance").given
    assert variance.variance == pytest.approx(X.var(axis=0))
    assert variance.scatter.shape == (12,)
    with pytest.raises(ValueError, match="hold variances only; gather the covariance"):
        _ = variance.covariance
    mean = Moments.from_batch(X, detail="mean")
    assert mean.given.scatter is None
    with pytest.raises(ValueError, match="hold means only; gather variances too"):
        mean.feature_offset()
    without = Moments.from_batch(X, unit=False)
    with pytest.raises(ValueError, match="leave out the unit rows; gather them too"):
        without.cone_mean_and_std()
    assert (without + Moments.from_batch(Y)).unit is None


@pytest.mark.parametrize("detail", ["mean", "variance", "covariance"])
def test_streams_keep_the_detail_asked_for(pairs, detail):
    whole = Moments.from_batch(pairs[0], detail=detail).given
    found = Moments.from_batches(np.split(pairs[0], 3), detail=detail).given
    assert found.mean == pytest.approx(whole.mean)
    if detail == "mean":
        assert found.scatter is None
    else:
        assert found.scatter == pytest.approx(whole.scatter, abs=1e-9)


@pytest.mark.parametrize("order", [("covariance", "variance"), ("variance", "covariance")])
def test_a_sum_of_different_details_holds_the_lesser_one(pairs, order):
    X, Y = pairs
    total = Moments.from_batch(X, detail=order[0]) + Moments.from_batch(Y, detail=order[1])
    assert total.given.variance == pytest.approx(np.concatenate([X, Y]).var(axis=0))
    assert total.given.scatter.shape == (12,)


def test_a_sum_with_means_only_holds_means_only(pairs):
    X, Y = pairs
    total = Moments.from_batch(X) + Moments.from_batch(Y, detail="mean")
    assert total.given.mean == pytest.approx(np.concatenate([X, Y]).mean(axis=0))
    assert total.given.scatter is None


def test_a_sum_of_pairs_and_others_has_no_cross_moments(pairs):
    X, Y = pairs
    total = PairMoments.from_batch(X, Y, paired=True) + PairMoments.from_batch(X, Y)
    assert total.cross is None
    assert total.x.n == 120


def test_torch_and_numpy_agree(library, pairs):
    X, Y = (library(A) for A in pairs)
    found = PairMoments.from_batch(X, Y, paired=True)
    U, V = reference.unit(X), reference.unit(Y)
    # Gathered in float64 whatever the precision of the rows.
    assert library.check_kind(found.x.given.covariance) == pytest.approx(
        reference.covariance(X), abs=1e-9
    )
    assert library.check_kind(found.y.unit.mean) == pytest.approx(V.mean(axis=0), abs=1e-9)
    assert library.check_kind(found.cross.unit) == pytest.approx(
        (U - U.mean(axis=0)).T @ (V - V.mean(axis=0)), abs=1e-9
    )


def test_blocks_of_a_large_batch_give_the_whole(rng, monkeypatch):
    X, Y = rng.normal(size=(2, 50, 3))
    monkeypatch.setattr("modgap.moments.rows.BLOCK_ROWS", 7)
    found = PairMoments.from_batch(X, Y, paired=True)
    check_rows(found.x.given, X)
    assert found.alignment() == pytest.approx(reference.alignment(X, Y))


def test_a_saved_file_brings_back_the_same_moments(library, pairs, tmp_path):
    X, Y = (library(A) for A in pairs)
    both = PairMoments.from_batch(X, Y, paired=True)
    both.save(tmp_path / "both.safetensors")
    loaded = PairMoments.load(tmp_path / "both.safetensors")
    assert loaded.gap_distance() == both.gap_distance()
    assert loaded.alignment() == pytest.approx(both.alignment(), abs=1e-12)
    assert (loaded.cross.given == np.asarray(both.cross.given)).all()
    assert loaded.y.n == 60
    both.x.save(tmp_path / "x.safetensors")
    alone = Moments.load(tmp_path / "x.safetensors")
    assert (alone.given.covariance == np.asarray(both.x.given.covariance)).all()
    assert (alone.unit.mean == np.asarray(both.x.unit.mean)).all()


@pytest.mark.parametrize("detail", ["mean", "variance"])
def test_what_was_left_out_stays_out_of_the_file(pairs, tmp_path, detail):
    Moments.from_batch(pairs[0], detail=detail, unit=False).save(tmp_path / "m.safetensors")
    loaded = Moments.load(tmp_path / "m.safetensors")
    assert loaded.unit is None
    assert (loaded.given.scatter is None) == (detail == "mean")
    PairMoments.from_batch(*pairs).save(tmp_path / "p.safetensors")
    assert PairMoments.load(tmp_path / "p.safetensors").cross is None


def test_loading_another_kind_of_file_is_refused(pairs, tmp_path):
    Moments.from_batch(pairs[0]).save(tmp_path / "m.safetensors")
    with pytest.raises(
        ValueError, match=r"not a set of pair moments .*; it holds a set of moments"
    ):
        PairMoments.load(tmp_path / "m.safetensors")
    (tmp_path / "text").write_text(json.dumps({"a": 1}))
    with pytest.raises(ValueError, match="cannot be read as safetensors"):
        Moments.load(tmp_path / "text")
    from safetensors.numpy import save_file

    save_file({"a": np.zeros(2)}, tmp_path / "other.safetensors")
    with pytest.raises(ValueError, match="not a set of moments that modgap wrote"):
        Moments.load(tmp_path / "other.safetensors")


def test_moments_of_different_dimensions_do_not_add(pairs):
    first, second = Moments.from_batch(pairs[0]), Moments.from_batch(pairs[0][:, :3])
    with pytest.raises(ValueError, match="same number of columns, got 12 and 3"):
        first + second
    with pytest.raises(ValueError, match="same number of columns, got 12 and 3"):
        Moments.from_batches([pairs[0], pairs[0][:, :3]])
    with pytest.raises(ValueError, match="same number of columns, got 12 and 3"):
        PairMoments.from_batch(pairs[0], pairs[1][:, :3])


def test_pairs_must_be_as_many_on_both_sides(pairs):
    X, Y = pairs
    with pytest.raises(ValueError, match=r"same pairs row by row, got \(60, 12\) and \(59, 12\)"):
        PairMoments.from_batch(X, Y[:59], paired=True)
    with pytest.raises(ValueError, match="shorter"):
        PairMoments.from_batches([X[:30], X[30:]], [Y[:30]], paired=True)


def test_no_batches_at_all_are_refused():
    with pytest.raises(ValueError, match="photo must have at least one row, got no batches"):
        Moments.from_batches([], name="photo")
    with pytest.raises(ValueError, match="X must have at least one row, got no batches"):
        PairMoments.from_batches([], [], paired=True)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_bad_row_of_a_stream_is_named_by_its_number_in_the_stream(pairs, value):
    X = pairs[0].copy()
    X[47, 2] = value
    with pytest.raises(ValueError, match=r"photo has 1 row with NaN or infinity.* at row 47"):
        Moments.from_batches(np.split(X, 3), name="photo")
    with pytest.raises(ValueError, match=r"text has 1 row with NaN or infinity.* at row 47"):
        PairMoments.from_batches(
            np.split(pairs[0], 3), np.split(X, 3), names=("photo", "text"), paired=True
        )


def test_a_row_without_direction_is_refused_unless_only_given_rows_are_gathered(pairs):
    X = pairs[0].copy()
    X[5] = 0
    with pytest.raises(ValueError, match="1 row with length zero, the first at row 5"):
        Moments.from_batch(X)
    assert Moments.from_batch(X, unit=False).n == 60


def test_the_rows_of_a_memory_map_are_gathered_like_any_other(pairs, tmp_path):
    np.save(tmp_path / "x.npy", pairs[0])
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    check_rows(Moments.from_batch(mapped).given, pairs[0])


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_any_number_of_threads_gives_the_same_bits(rng, monkeypatch, dtype):
    X, Y = rng.normal(size=(2, 90, 6)).astype(dtype)
    monkeypatch.setattr("modgap.moments.rows.BLOCK_ROWS", 8)
    batches = [X[:30], X[30:]]
    found = []
    for workers in (1, 2, 7):
        monkeypatch.setattr("modgap.moments.rows.workers_for", lambda _, n=workers: n)
        both = PairMoments.from_stream(batches, [Y[:30], Y[30:]])
        found.append((Moments.from_stream(batches), both.x, both.y, both.cross))
        check_rows(found[-1][0].given, X.astype(float))
        check_rows(found[-1][0].unit, reference.unit(X.astype(float)))
    for one, x, y, cross in found[1:]:
        for own, first in zip((one, x, y), found[0], strict=False):
            assert (own.given.scatter == first.given.scatter).all()
            assert (own.unit.mean == first.unit.mean).all()
        assert (cross.unit == found[0][3].unit).all()


def test_a_running_sum_has_the_bits_of_one_sum_after_the_other(pairs):
    X, Y = (np.split(A, 4) for A in pairs)
    parts = [PairMoments.from_batch(x, y, paired=True) for x, y in zip(X, Y, strict=True)]
    summed = parts[0] + parts[1] + parts[2] + parts[3]
    grown = PairMoments.from_batches(X, Y, paired=True)
    assert (grown.x.given.scatter == summed.x.given.scatter).all()
    assert (grown.y.unit.scatter == summed.y.unit.scatter).all()
    assert (grown.cross.given == summed.cross.given).all()


def test_unit_rows_alone_are_the_unit_half(pairs):
    X = pairs[0]
    both, alone = Moments.from_batch(X), Moments.from_batch(X, only_unit=True)
    assert (alone.given.scatter == both.unit.scatter).all()
    stream = Moments.from_stream(np.split(X, 3), only_unit=True)
    assert stream.given is stream.unit
    check_rows(stream.given, reference.unit(X))


def test_batches_that_use_one_array_again_are_gathered_like_any_other(pairs, monkeypatch):
    monkeypatch.setattr("modgap.moments.rows.BLOCK_ROWS", 4)
    again = np.empty((20, 12))

    def refilled():
        for part in np.split(pairs[0], 3):
            again[:] = part
            yield again

    check_rows(Moments.from_batches(refilled()).given, pairs[0])


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_rows_are_never_changed(pairs, dtype):
    X = pairs[0].astype(dtype)
    before = X.copy()
    Moments.from_batch(X)
    Moments.from_batch(X, only_unit=True)
    PairMoments.from_batch(X, X, paired=True)
    RowMoments.of(X)
    assert (before == X).all()


def test_rows_of_unit_length_are_their_own_unit_rows_block_by_block(monkeypatch):
    monkeypatch.setattr(row_blocks, "BLOCK_ROWS", 16)
    rng = np.random.default_rng(3)
    X = rng.normal(size=(64, 5)) + 1
    X[:32] /= np.linalg.norm(X[:32], axis=1, keepdims=True)
    X = X.astype(np.float32)
    for rows in (X, X[:32], X[::-1].copy()):
        found = Moments.from_batch(rows)
        wide = rows.astype(np.float64)
        unit = wide / np.linalg.norm(wide, axis=1, keepdims=True)
        for own, expected in ((found.given, wide), (found.unit, unit)):
            assert own.mean == pytest.approx(expected.mean(axis=0), abs=1e-7)
            assert own.covariance == pytest.approx(np.cov(expected.T, ddof=0), abs=1e-7)
