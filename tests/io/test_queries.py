"""Modalities by name, queries of their own, and keys that tell groups wherever their rows go."""

from __future__ import annotations

import numpy as np
import pytest

from conftest import make_pairs
from modgap import fuse
from modgap.corrections import Calibrate, Center
from modgap.evaluation import mixed_retrieval, retrieval
from modgap.io import (
    Embeddings,
    Modalities,
    open_embeddings,
    open_modalities,
    write_embeddings,
)
from modgap.io.group_keys import document_keys, label_keys, row_keys

X, Y = make_pairs(30)
Q = Y + 0.5
NAMES = [f"item {i}" for i in range(30)]


def three(**options):
    return Modalities.of({"image": X, "text": Y, "fused": fuse(X, Y)}, **options)


def test_any_number_of_modalities_come_by_name():
    data = three()
    assert data.names == ("image", "text", "fused")
    assert (data.paired, data.n_groups, data.dim) == (True, 30, 12)
    pair = data.pair("fused", "image")
    assert pair.names == ("fused", "image")
    np.testing.assert_array_equal(pair.Y, X)
    assert not three(paired=False).paired


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Modalities.of({"image": X}), "two or more"),
        (lambda: Modalities.of({"image": X, "text": None}), "text must be"),
        (lambda: Modalities.of({"image": X, "text": Y}, Y), "one mapping; pass no Y"),
        (
            lambda: Modalities.of({"a": X, "b": Y, "c": X}, groups=(range(30), range(30))),
            "must be a mapping",
        ),
        (
            lambda: Modalities.of({"a": X, "b": Y}, groups={"a": range(30)}),
            "must name the same modalities",
        ),
        (lambda: Modalities.of({"a": X, "b": Y, "c": X[:3]}, paired=True), "30 and 3 rows"),
        (lambda: three().with_queries({"video": Q}), "modality must be one of"),
        (lambda: three().with_queries({"text": Q[:, :3]}), "12 columns of the documents, got 3"),
        (lambda: three().with_queries({"text": Q}, {"text": [1, 2]}), "one label per text query"),
        (lambda: three().with_queries({"text": Q}, {"text": NAMES}), "must be row numbers"),
        (
            lambda: three().with_queries({"text": Q}, {"text": range(100, 130)}),
            "No label of the text queries",
        ),
        (lambda: three().pair("image", "video"), "modality must be one of"),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_sentence(call, message):
    with pytest.raises((ValueError, TypeError), match=message) as said:
        call()
    assert "\n" not in str(said.value)


def test_keys_stay_the_same_wherever_rows_go():
    data = Modalities.of(X, Y, groups=(NAMES, NAMES))
    part = data.take_groups(np.array([3, 7, 11]))
    chosen = np.flatnonzero(np.isin(data.groups[0], [3, 7, 11]))
    np.testing.assert_array_equal(part.keys_of("image"), data.keys_of("image")[chosen])
    np.testing.assert_array_equal(data.keys_of("text"), label_keys(NAMES))
    assert Modalities.of(X, Y).keys_of("image").tolist() == list(range(30))
    apart = Modalities.of(X, Y, paired=False)
    assert not set(apart.keys_of("image")) & set(apart.keys_of("text"))


@pytest.mark.parametrize("ids", [list(range(100, 130)), NAMES])
def test_rows_read_by_themselves_have_the_keys_they_had_in_the_pair(ids):
    sides = [Embeddings.from_array(rows, ids=ids) for rows in (X, Y)]
    data = Modalities.of(*sides)
    assert data.keyed_by == "id"
    np.testing.assert_array_equal(document_keys(sides[0], "image", "id"), data.keys_of("image"))
    assert document_keys(Embeddings.of(X, "image"), "image", "id") is None
    unpaired = Modalities.of(X, Y, paired=False)
    np.testing.assert_array_equal(
        document_keys(Embeddings.of(Y, "text"), "text", unpaired.keyed_by), unpaired.keys_of("text")
    )
    np.testing.assert_array_equal(document_keys(sides[0], "image", "row"), row_keys(30))


def test_queries_apart_ask_and_documents_do_not():
    data = Modalities.of(X, Y).with_queries({"text": Q[::2]}, {"text": np.arange(0, 30, 2)})
    assert data.asks_apart("text")
    assert not data.asks_apart("image")
    found = retrieval(data, k=1)
    assert len(found.ranks_y) == 15
    unit = [rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (Q[::2], X)]
    scores = unit[0] @ unit[1].T
    own = scores[np.arange(15), np.arange(0, 30, 2)]
    np.testing.assert_array_equal(found.ranks_y, (scores > own[:, None]).sum(axis=1))
    # In one index their matches may be of their own modality: the query is not in it.
    mixed = mixed_retrieval(data, queries="text", repeats=1)
    (queries,) = mixed.queries
    assert len(queries.group) == 15
    assert {*queries.target} == {0, 1}


def test_taking_groups_takes_their_queries():
    data = three().with_queries({"text": Q}, {"text": np.arange(30)})
    part = data.take_groups(np.array([2, 5]))
    np.testing.assert_array_equal(part.queries_of("text").rows(), Q[[2, 5]])
    np.testing.assert_array_equal(part.query_keys("text"), [2, 5])
    unlabelled = three().with_queries({"text": Q})
    assert unlabelled.take_groups(np.array([2, 5])).queries_of("text").n_rows == 0


@pytest.mark.parametrize("mode", ["keep", "mixed"])
def test_calibration_takes_the_spread_of_the_queries_that_ask(mode):
    rng = np.random.default_rng(0)
    short = rng.normal(size=(40, 12)) + 2
    fitted = Calibrate(mode).fit(X, Y, query_rows={"text": short})
    # The same as a third modality that asks and is not searched.
    beside = Calibrate(mode).fit({"image": X, "text": Y, "short": short}, queries="short")
    assert fitted.spreads_["y", "x"] == pytest.approx(beside.spreads_["short", "image"])
    ours, theirs = fitted.correction_, beside.correction_
    for name, rows in (("image", X), ("text", Y)):
        np.testing.assert_allclose(ours.apply(rows, name), theirs.apply(rows, name))
    np.testing.assert_allclose(
        ours.apply(short, "text", "query"), theirs.apply(short, "short", "query")
    )
    assert ours.fitted_queries["text"].n == 40


def test_centring_gives_queries_a_mean_of_their_own():
    fitted = Center().fit(X, Y, query_rows={"text": Q}).correction_
    unit = Q / np.linalg.norm(Q, axis=1, keepdims=True)
    centred = unit - unit.mean(0)
    expected = centred / np.linalg.norm(centred, axis=1, keepdims=True)
    np.testing.assert_allclose(fitted.apply(Q, "text", "query"), expected)
    assert not np.allclose(fitted.apply(Q, "text"), expected)


def test_fused_rows_lie_between_their_parts():
    rows = fuse(X, Y)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1)
    unit = [part / np.linalg.norm(part, axis=1, keepdims=True) for part in (X, Y)]
    np.testing.assert_allclose(fuse(X, Y, 1.0), unit[0])
    np.testing.assert_allclose(fuse(X, Y, 0.0), unit[1])
    np.testing.assert_allclose(fuse(3 * X, 0.1 * Y), rows)
    with pytest.raises(ValueError, match="same documents, got 30 and 3"):
        fuse(X, Y[:3])
    with pytest.raises(ValueError, match="between 0 and 1"):
        fuse(X, Y, 1.5)


def test_two_files_joined_by_a_plus_are_read_as_fused_documents(tmp_path):
    for name, rows in (("image", X), ("text", Y)):
        np.save(tmp_path / f"{name}.npy", rows.astype(np.float32))
    side = open_embeddings(f"{tmp_path}/image.npy+{tmp_path}/text.npy")
    expected = fuse(X.astype(np.float32), Y.astype(np.float32))
    np.testing.assert_allclose(side.rows(), expected, rtol=1e-6)
    np.testing.assert_allclose(np.concatenate([*side.batches(7)]), expected, rtol=1e-6)
    np.testing.assert_allclose(side.take([4, 2]), expected[[4, 2]], rtol=1e-6)
    data = open_modalities(
        {
            "image": tmp_path / "image.npy",
            "text": tmp_path / "text.npy",
            "fused": f"{tmp_path}/image.npy+{tmp_path}/text.npy",
        }
    )
    assert data.names == ("image", "text", "fused")
    assert data.pairing == "row by row"
    np.save(tmp_path / "short.npy", Y[:3].astype(np.float32))
    with pytest.raises(ValueError, match="two parts of the same documents"):
        open_embeddings(f"{tmp_path}/image.npy+{tmp_path}/short.npy")
    with pytest.raises(ValueError, match="no file or folder"):
        open_embeddings(f"{tmp_path}/image.npy+{tmp_path}/missing.npy")
    np.save(tmp_path / "a+b.npy", X)  # a file of that name comes first
    np.testing.assert_array_equal(open_embeddings(tmp_path / "a+b.npy").rows(), X)


def test_parts_whose_ids_differ_are_not_fused(tmp_path):
    write_embeddings(tmp_path / "image.parquet", X, ids=NAMES)
    write_embeddings(tmp_path / "text.parquet", Y, ids=NAMES[::-1])
    with pytest.raises(ValueError, match="but their ids differ"):
        open_embeddings(f"{tmp_path}/image.parquet+{tmp_path}/text.parquet")
    write_embeddings(tmp_path / "text.parquet", Y, ids=NAMES)
    side = open_embeddings(f"{tmp_path}/image.parquet+{tmp_path}/text.parquet")
    assert list(side.ids) == NAMES
