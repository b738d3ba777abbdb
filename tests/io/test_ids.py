"""Rows are paired by their ids where both sides have them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from command_line import make_files, modgap
from modgap import retrieval
from modgap.io import (
    Embeddings,
    Modalities,
    PairingWarning,
    open_pair,
    write_clip_retrieval,
    write_embeddings,
)

RNG = np.random.default_rng(5)


def rows(n, ids=None):
    return Embeddings.from_array(RNG.normal(size=(n, 3)), ids=ids)


def test_the_same_ids_in_the_same_order_are_pairs_row_by_row():
    data = Modalities.of(rows(3, ["a", "b", "c"]), rows(3, ["a", "b", "c"]))
    assert data.paired
    assert data.group_codes is None
    assert data.pairing == "row by row, the ids agree"


def test_ids_in_another_order_say_which_rows_match():
    data = Modalities.of(rows(3, ["a", "b", "c"]), rows(3, ["c", "a", "b"]))
    assert [tuple(one) for one in data.matches()] == [(0, 1, 2), (1, 2, 0)]
    assert data.pairing == "by id: 3 of 3 image rows and 3 of 3 text rows match"


@pytest.mark.parametrize(
    ("x", "y"),
    [
        ([7, 8, 9], ["9", "8", "7"]),
        ([7, 8, 9], np.array([9, 8, 7], np.uint64)),
        (np.array([7, 8, 9], np.int8), np.array([9.0, 8.0, 7.0])),
        (np.array(["7", 8, 9], object), [9, 8, 7]),
        (np.array([2**63 + 1, 8, 9], np.uint64), ["9", "8", str(2**63 + 1)]),
    ],
)
def test_a_number_and_its_digits_are_the_same_id(x, y):
    data = Modalities.of(rows(3, x), rows(3, y))
    assert [tuple(one) for one in data.matches()] == [(0, 1, 2), (2, 1, 0)]


def test_rows_with_the_same_id_are_one_group():
    data = Modalities.of(rows(2, [1, 2]), rows(5, [2, 1, 2, 1, 3]))
    assert np.equal.outer(*data.groups).tolist() == [
        [False, True, False, True, False],
        [True, False, True, False, False],
    ]
    assert data.n_groups == 2
    assert data.pairing == "by id: 2 of 2 image rows and 4 of 5 text rows match"


def test_rows_without_an_id_match_nothing():
    x = rows(3, np.array(["a", None, "b"], object))
    y = rows(3, np.array([None, "a", "b"], object))
    data = Modalities.of(x, y)
    assert [tuple(one) for one in data.matches()] == [(0, 2), (1, 2)]
    floats = Modalities.of(rows(3, [1.0, np.nan, 2.0]), rows(3, [np.nan, 1.0, 2.0]))
    assert [tuple(one) for one in floats.matches()] == [(0, 2), (1, 2)]


@pytest.mark.parametrize("ids", [[0.5, 1.5], [True, False], np.array([b"a", 3], object)])
def test_ids_that_cannot_be_compared_leave_rows_as_they_are(ids):
    data = Modalities.of(rows(2, ids), rows(2, ["b", "a"]))
    assert (data.pairing, data.group_codes) == ("row by row", None)


def test_python_objects_in_a_file_are_not_loaded_for_their_ids(tmp_path):
    objects = np.array(["a", None], object)
    np.savez(tmp_path / "x.npz", image=np.eye(2), id=objects)
    np.savez(tmp_path / "y.npz", text=np.eye(2), id=np.array(["b", "a"]))
    assert open_pair(tmp_path / "x.npz", tmp_path / "y.npz").pairing == "row by row"


def test_ids_with_none_in_common_leave_rows_as_they_are_and_warn():
    with pytest.warns(PairingWarning, match=r"'a.jpg' and '0'.*pairs row by row.*--groups"):
        data = Modalities.of(rows(2, ["a.jpg", "b.jpg"]), rows(2, [0, 1]))
    assert (data.paired, data.group_codes, data.pairing) == (True, None, "row by row")
    with pytest.warns(PairingWarning, match="rows are taken as not paired"):
        data = Modalities.of(rows(2, ["a.jpg", "b.jpg"]), rows(3, [0, 1, 2]))
    assert (data.paired, data.pairing) == (False, "not paired")


def test_few_ids_in_common_are_pointed_out_with_figures():
    x, y = rows(5, [1, 2, 3, 4, 5]), rows(6, [5, 4, 16, 17, 18, 19])
    with pytest.warns(PairingWarning, match="2 of 5 image rows and 2 of 6 text rows match"):
        data = Modalities.of(x, y)
    assert data.n_groups == 2
    # All captions of a few of the images are no mistake.
    assert Modalities.of(rows(50, range(50)), rows(3, [7, 5, 6])).n_groups == 3


def test_groups_and_unpaired_win_over_ids():
    x, y = rows(2, ["a", "b"]), rows(2, ["b", "a"])
    assert [tuple(c) for c in Modalities.of(x, y, groups=([0, 1], [0, 1])).groups] == [(0, 1)] * 2
    assert Modalities.of(x, y, groups=([0, 1], [0, 1])).pairing == "by group"
    unpaired = Modalities.of(x, y, paired=False)
    assert (unpaired.paired, unpaired.pairing) == (False, "not paired")


def test_one_column_of_ids_for_both_sides_is_not_read(tmp_path, monkeypatch):
    X = RNG.normal(size=(4, 3)).astype(np.float32)
    write_clip_retrieval(tmp_path / "clip", X, X, ids=["a", "a", "b", "c"])
    monkeypatch.setattr(Embeddings, "ids", property(lambda _: pytest.fail("the ids were read")))
    data = open_pair(tmp_path / "clip")
    assert data.group_codes is None
    assert data.pairing == "row by row, the ids agree"


def test_taken_rows_still_say_how_they_were_paired():
    data = Modalities.of(rows(3, ["a", "b", "c"]), rows(3, ["c", "a", "b"]))
    assert data.pairs().pairing == data.pairing


@given(st.permutations(range(8)), st.permutations(range(8)))
def test_whatever_the_order_pairs_are_the_same(first, second):
    X, Y = np.random.default_rng(0).normal(size=(2, 8, 3))
    ids = np.array([f"row {i}" for i in range(8)])
    data = Modalities.of(
        Embeddings.from_array(X[first], ids=ids[first]),
        Embeddings.from_array(Y[second], ids=ids[second]),
    )
    assert retrieval(data).recall() == retrieval(X, Y).recall()


@pytest.fixture
def contradicting(tmp_path):
    """Two Parquet files of the same ids, the texts in another order."""
    X, Y = make_files(tmp_path, 60)
    order = np.random.default_rng(1).permutation(60)
    write_embeddings(tmp_path / "image.parquet", X, ids=np.arange(60))
    write_embeddings(tmp_path / "text.parquet", Y[order], ids=order.astype(str))
    return tmp_path / "image.parquet", tmp_path / "text.parquet"


def test_the_command_line_says_how_many_rows_match(contradicting, tmp_path):
    ran = modgap("measure", *contradicting, "--json")
    assert ran.status == 0
    assert ran.err == (
        "modgap: rows are paired by id: 60 of 60 image rows and 60 of 60 text rows match\n"
    )
    plain = modgap("measure", tmp_path / "image.npy", tmp_path / "text.npy", "--json")
    assert ran.json["pairs"]["alignment"] == pytest.approx(plain.json["pairs"]["alignment"])
