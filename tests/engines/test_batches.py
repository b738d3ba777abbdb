"""The functions over Arrow batches: what they give is what modgap gives for the whole."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import modgap
from conftest import make_pairs
from modgap.core.checks import InputError, InputTypeError, InputValueError
from modgap.corrections import OwnQueriesWarning
from modgap.engines import (
    MOMENTS_SCHEMA,
    corrected_batch,
    merged_top_k,
    moments_of,
    partial_moments,
    top_k_batch,
)
from modgap.moments import Moments
from modgap.search import search

N, DIM = 50, 6


def column(rows: np.ndarray, kind: str) -> pa.Array:
    values = pa.array(np.ascontiguousarray(rows).ravel())
    if kind == "fixed":
        return pa.FixedSizeListArray.from_arrays(values, rows.shape[1])
    offsets = np.arange(0, rows.size + 1, rows.shape[1])
    if kind == "large":
        return pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64()), values)
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values)


def table(rows: np.ndarray, kind: str = "list", **others: Any) -> pa.Table:
    return pa.table({**others, "embedding": column(rows, kind)})


def values(column: pa.ChunkedArray) -> np.ndarray:
    return column.combine_chunks().flatten().to_numpy()


@pytest.fixture
def rows():
    return make_pairs(N, DIM)[0]


@pytest.mark.parametrize("kind", ["list", "large", "fixed"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_partial_moments_add_up_to_those_of_all_rows(rows, kind, dtype):
    rows = rows.astype(dtype)
    whole = table(rows, kind)
    batches = [whole.slice(start, 7) for start in range(0, N, 7)]
    partial = [partial_moments(batch) for batch in batches]
    assert all(one.num_rows == 1 and one.schema == MOMENTS_SCHEMA for one in partial)
    found, expected = moments_of(partial), Moments.from_batch(rows)
    assert found.n == N
    for a, b in ((found.given, expected.given), (found.unit, expected.unit)):
        np.testing.assert_allclose(a.mean, b.mean, rtol=1e-12)
        np.testing.assert_allclose(a.scatter, b.scatter, rtol=1e-10, atol=1e-12)
    together = moments_of(pa.concat_tables(partial))
    np.testing.assert_array_equal(together.unit.scatter, found.unit.scatter)


def test_tables_of_several_chunks_and_record_batches_are_the_same(rows):
    chunked = pa.concat_tables([table(rows[:20]), table(rows[20:])])
    (batch,) = table(rows).to_batches()
    found = partial_moments(batch)
    assert isinstance(found, pa.RecordBatch)
    assert partial_moments(chunked).equals(pa.table(found))


def test_a_batch_without_rows_gives_no_moments(rows):
    empty = partial_moments(table(rows).slice(0, 0))
    assert empty.num_rows == 0
    assert empty.schema == MOMENTS_SCHEMA
    assert moments_of([empty, partial_moments(table(rows))]).n == N
    with pytest.raises(InputValueError, match="at least one row of partial moments"):
        moments_of([empty])


@pytest.mark.parametrize(
    ("values", "options", "sentence"),
    [
        ([[1.0], None, [2.0]], {"first_row": 40}, "row 41 is or holds a null"),
        ([[1.0, 2.0], [None, 2.0]], {}, "row 1 is or holds a null"),
        ([[1.0, 2.0], [1.0]], {}, "row 1 has 1"),
        ([[1.0], [float("nan")]], {"first_row": 7}, "the first at row 8"),
        ([[1.0], [0.0]], {}, "length"),
        (pa.array([[], []], pa.list_(pa.float32())), {}, "must have numbers"),
        ([[1, 2]], {}, "lists of float16, float32, float64"),
        (["a"], {"column": "embedding"}, "lists of float16, float32, float64"),
        ([[1.0]], {"column": "nope"}, "no column 'nope'"),
        (["a"], {}, "Say which column"),
    ],
)
def test_what_is_no_column_of_vectors_is_refused(values, options, sentence):
    with pytest.raises(InputError, match=sentence):
        partial_moments(pa.table({"embedding": values}), **options)


def test_what_is_no_batch_is_refused(rows):
    with pytest.raises(InputTypeError, match="RecordBatch or Table"):
        partial_moments(rows)
    with pytest.raises(InputTypeError, match="Arrow batches"):
        moments_of([{"n": 1}])  # type: ignore[list-item]
    with pytest.raises(InputValueError, match="mean, scatter"):
        moments_of(pa.table({"n": [1]}))
    cells = partial_moments(table(rows)).to_pydict()
    cells["scatter"] = [b"12345678" * 5]
    with pytest.raises(InputValueError, match="must hold 36 numbers"):
        moments_of(pa.table(cells, schema=MOMENTS_SCHEMA))


@pytest.fixture
def correction():
    return modgap.Calibrate().fit(*make_pairs(N, DIM)).correction_


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("kind", ["list", "fixed"])
def test_corrected_vectors_are_those_of_the_correction(rows, correction, dtype, kind):
    rows = rows.astype(dtype)
    batch = table(rows, kind, id=pa.array(range(N)))
    done = corrected_batch(batch, correction, "image")
    assert done.schema.names == ["id", "embedding"]
    assert done["id"].equals(batch["id"])
    expected = correction.apply(rows, "image").astype(dtype)
    np.testing.assert_array_equal(values(done["embedding"]), expected.ravel())
    (one,) = batch.to_batches()
    assert pa.table(corrected_batch(one, correction, "image")).equals(done)
    beside = corrected_batch(batch, correction, "image", into="corrected", dtype="float32")
    assert beside.schema.names == ["id", "embedding", "corrected"]
    assert beside["embedding"].equals(batch["embedding"])
    assert beside.schema.field("corrected").type == pa.list_(pa.float32(), DIM)
    queries = corrected_batch(batch, correction, "text", role="query")["embedding"]
    expected = correction.apply(rows, "text", "query").astype(dtype)
    np.testing.assert_array_equal(values(queries), expected.ravel())


def test_a_batch_without_rows_is_corrected_to_one_of_the_same_schema(rows, correction):
    whole = corrected_batch(table(rows, "fixed"), correction, "image", into="c")
    empty = corrected_batch(table(rows, "fixed").slice(0, 0), correction, "image", into="c")
    assert empty.num_rows == 0
    assert empty.schema == whole.schema


def test_a_column_is_not_written_over_and_other_rows_are_refused(rows, correction):
    batch = table(rows, id=pa.array(range(N)))
    with pytest.raises(InputValueError, match="a column 'id' already"):
        corrected_batch(batch, correction, "image", into="id")
    with pytest.raises(InputValueError, match="for rows of 6 columns, got 2"):
        corrected_batch(pa.table({"embedding": [[1.0, 2.0]]}), correction, "image")
    with pytest.raises(InputValueError, match="must fit into float16"):
        corrected_batch(table(rows * 1e9), _identity(), "image", dtype="float16")


def _identity() -> modgap.Correction:
    return modgap.Correction.identity(DIM)


def test_batches_with_hubs_are_corrected_as_the_whole_is():
    X, Y = make_pairs(60, DIM)
    fixed = modgap.Calibrate(hubs=0.5).fit(X, Y).correction_
    expected = fixed.apply(X, "image")
    parts = [
        corrected_batch(table(X[start : start + 16]), fixed, "image", first_row=start)
        for start in range(0, 60, 16)
    ]
    found = values(pa.concat_tables(parts)["embedding"])
    np.testing.assert_allclose(found.reshape(60, -1), expected, rtol=1e-12)
    with pytest.warns(OwnQueriesWarning, match="number of the first image row"):
        corrected_batch(table(X), fixed, "image")


@pytest.mark.parametrize("metric", ["cosine", "inner_product", "euclidean"])
def test_the_best_of_batches_are_the_best_of_all(metric):
    rng = np.random.default_rng(3)
    documents = rng.integers(-2, 3, size=(200, 3)).astype("float32")  # many are equal
    documents[(documents == 0).all(axis=1)] = 1
    queries = rng.normal(size=(9, 3)).astype("float32")
    rows, scores = search(queries, documents, 5, metric)
    ids = pa.array([f"d{k}" for k in range(200)])
    whole = table(documents, id=ids)
    parts = [
        top_k_batch(
            whole.slice(start, 33), queries, 5, metric=metric, id_column="id", first_row=start
        )
        for start in (99, 0, 33, 66, 132, 165, 198)
    ]
    found = merged_top_k(parts, 5)
    assert found["row"].to_numpy().reshape(9, 5).tolist() == rows.tolist()
    np.testing.assert_allclose(found["score"].to_numpy().reshape(9, 5), scores, rtol=1e-12)
    assert found["id"].to_pylist() == [f"d{row}" for row in rows.ravel()]
    assert merged_top_k(found, 2).num_rows == 18
    empty = top_k_batch(whole.slice(0, 0), queries, 5, metric=metric)
    assert merged_top_k([empty]).num_rows == 0
