"""Modalities: the one value of named rows, their groups and what matches."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import modgap
from modgap.io import Embeddings, Modalities
from modgap.io._contents import Column
from modgap.moments import PairMoments

labels = st.lists(st.integers(0, 6), min_size=1, max_size=12)


def rows(n, dim=3, seed=0):
    return np.random.default_rng(seed).normal(size=(n, dim))


@pytest.mark.parametrize(
    ("n", "m", "options", "paired"),
    [
        (4, 4, {}, True),
        (4, 4, {"paired": False}, False),
        (4, 5, {}, False),
        (4, 5, {"groups": ([0, 1, 2, 3], [0, 0, 1, 2, 9])}, True),
    ],
)
def test_rows_are_pairs_when_groups_say_so_or_their_numbers_are_equal(n, m, options, paired):
    data = Modalities.of(rows(n), rows(m), **options)
    assert data.paired is paired
    assert data.names == ("image", "text")
    # Without pairs every row is a group of its own, and none matches another.
    assert (data.n_groups == 0) is not paired


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: Modalities.of(rows(4)), TypeError, "rows of text are missing"),
        (lambda: Modalities.of(rows(4), rows(5), paired=True), ValueError, "must be pairs, got 4"),
        (
            lambda: Modalities.of(rows(4), rows(4), groups=(range(4),) * 2, paired=False),
            ValueError,
            "cannot be unpaired as well",
        ),
        (
            lambda: Modalities.of(rows(4), rows(4), groups=(range(3),) * 2),
            ValueError,
            "of image: 4",
        ),
        (lambda: Modalities.of(rows(4), rows(4), groups=range(4)), TypeError, "two sequences"),
        (lambda: Modalities.of(rows(4), rows(4), ("a", "a")), ValueError, "must differ"),
        (
            lambda: Modalities.of(Modalities.of(rows(4), rows(4)), rows(4)),
            TypeError,
            "pass nothing beside them",
        ),
        (lambda: Modalities.of(np.ones(4), rows(4)), ValueError, "image must be a matrix"),
    ],
)
def test_what_cannot_be_one_value_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_a_value_goes_through_every_door_as_it_is():
    X = rows(40)
    data = Modalities.of(X, X + 0.3 * rows(40, seed=1))
    assert Modalities.of(data) is data
    assert modgap.measure(data).to_dict() == modgap.measure(data.X, data.Y).to_dict()


@given(labels, labels)
def test_matches_are_the_first_rows_of_every_group_that_both_sides_have(gx, gy):
    X, Y = rows(len(gx)), rows(len(gy), seed=1)
    common = sorted(set(gx) & set(gy))
    if not common:
        with pytest.raises(ValueError, match="no row has a match"):
            Modalities.of(X, Y, groups=(gx, gy))
        return
    data = Modalities.of(X, Y, groups=(gx, gy))
    ix, iy = data.matches()
    assert [gx[i] for i in ix] == [gy[j] for j in iy] == common
    assert ix.tolist() == [gx.index(g) for g in common]
    assert iy.tolist() == [gy.index(g) for g in common]
    pairs = data.pairs()
    np.testing.assert_array_equal(pairs.X, X[ix])
    np.testing.assert_array_equal(pairs.Y, Y[iy])
    # The groups taken are whole, and rows that matched match still.
    chosen = data.matched_groups[::2]
    taken = data.take_groups(chosen)
    kept = [np.flatnonzero(np.isin(codes, chosen)) for codes in data.groups]
    np.testing.assert_array_equal(taken.X, X[kept[0]])
    np.testing.assert_array_equal(
        np.equal.outer(*taken.groups),
        np.equal.outer(data.groups[0][kept[0]], data.groups[1][kept[1]]),
    )
    assert taken.n_groups == len(chosen)


def test_three_modalities_fit_the_type_and_what_takes_two_says_so():
    sides = {name: rows(4, seed=k) for k, name in enumerate(("image", "text", "audio"))}
    groups = {"image": [0, 1, 2, 3], "text": [3, 2, 1, 0], "audio": [0, 0, 1, 7]}
    data = Modalities.of(sides, groups=groups)
    assert data.names == ("image", "text", "audio")
    assert [rows.tolist() for rows in data.matches()] == [[0, 1], [3, 2], [0, 2]]
    for takes_two in (lambda: data.x, lambda: data.Y, data.two, data.moments):
        with pytest.raises(ValueError, match="two modalities, got 3: image, text, audio"):
            takes_two()


def test_moments_are_those_of_the_rows_whether_in_memory_or_read():
    X, Y = rows(30), rows(25, seed=1)
    expected = PairMoments.from_batch(X, Y)
    for data in (
        Modalities.of(X, Y),
        Modalities.of(Embeddings.from_array(X), Embeddings.from_array(Y)),
    ):
        found = data.moments()
        np.testing.assert_array_equal(found.x.given.covariance, expected.x.given.covariance)
        assert found.gap_distance() == expected.gap_distance()


def test_tensors_stay_tensors():
    torch = pytest.importorskip("torch")
    data = Modalities.of(torch.ones(4, 3), torch.zeros(5, 3), groups=(range(4), [0, 1, 2, 3, 3]))
    taken = data.take_groups(np.array([3]))
    assert isinstance(taken.Y, torch.Tensor)
    assert taken.Y.shape == (2, 3)


def test_rows_that_are_taken_keep_what_belongs_to_them():
    captions = np.array([f"caption {row}" for row in range(6)])
    y = Embeddings.from_array(rows(6), captions=captions, ids=np.arange(6) * 10)
    data = replace(
        Modalities.of(rows(6, seed=1), y),
        thumbnails={"image": lambda row: b"picture %d" % row},
    )
    taken = data.take([np.array([4, 1]), np.array([5, 2])])
    assert taken.y.captions.tolist() == ["caption 5", "caption 2"]
    assert taken.y.ids.tolist() == [50, 20]
    assert taken.x.ids is None
    assert [taken.thumbnails["image"](row) for row in (0, 1)] == [b"picture 4", b"picture 1"]


def test_rows_go_to_a_device_and_give_the_same_numbers(tmp_path):
    X = np.random.default_rng(0).normal(size=(40, 5)).astype("f4")
    Y = X + 1
    np.save(tmp_path / "x.npy", X)
    data = Modalities.of(tmp_path / "x.npy", Y).to("cpu")
    assert all(side.in_memory for side in data.sides.values())
    there = modgap.measure(data).to_dict()
    assert there["gap_distance"] == pytest.approx(modgap.measure(X, Y).gap_distance, abs=1e-12)
    with pytest.raises(ValueError, match="held by one device"):
        data.to("cuda:all")
    with pytest.raises(ValueError, match="device"):
        data.to("nowhere")


@pytest.mark.parametrize("ids", [None, ["a", "b", None, "d", "e"]])
def test_rows_that_are_pairs_by_their_numbers_are_those_of_numbered_groups(ids):
    """No array of groups is made where row i is group i; what is taken is the same."""
    X, Y = np.eye(5), np.eye(5)[::-1]
    column = None if ids is None else Column.of(np.array(ids, dtype=object))
    sides = [
        replace(Embeddings.from_array(rows), columns={} if column is None else {"ids": column})
        for rows in (X, Y)
    ]
    plain = Modalities.of(*sides)
    assert plain.row_by_row
    numbered = replace(plain, group_codes=(np.arange(5), np.arange(5)))
    assert not numbered.row_by_row
    assert plain.n_groups == numbered.n_groups
    assert plain.matched_groups.tolist() == numbered.matched_groups.tolist()
    for some in (None, np.array([3, 1])):
        for found, expected in zip(plain.matches(some), numbered.matches(some), strict=True):
            assert found.tolist() == expected.tolist()
    chosen = np.array([4, 2, 0])
    taken, expected = plain.take_groups(chosen), numbered.take_groups(chosen)
    assert taken.group_keys.tolist() == expected.group_keys.tolist()
    for name in plain.names:
        assert (taken.sides[name].rows() == expected.sides[name].rows()).all()
        assert taken.keys_of(name).tolist() == expected.keys_of(name).tolist()
    for one, other in zip(split(pairs(plain), 0), split(pairs(numbered), 0), strict=True):
        assert (one == other).all()


def pairs(data):
    """Enough of the same pairs to be split."""
    rows = [np.tile(side.rows(), (4, 1)) for side in data.sides.values()]
    many = Modalities.of(*rows)
    return many if data.row_by_row else replace(many, group_codes=(np.arange(20),) * 2)


def split(data, seed):
    from modgap.diagnosis.splits import split as cut

    found = cut(data, seed)
    parts = (found.fit, found.choose, found.confirm, *found.folds)
    return [side.rows() for part in parts for side in part.sides.values()]
