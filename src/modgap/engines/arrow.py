"""Functions from Arrow to Arrow, for Ray Data, Spark, Dask and Polars to run on batches.

`partial_moments` makes one row of a batch, and `moments_of` adds such rows up. `corrected_batch`
corrects a column of vectors. `top_k_batch` finds the best documents of a batch, and `merged_top_k`
the best of all. None of them knows which engine calls it: a Table gives a Table, as Ray Data wants
it, and a RecordBatch a RecordBatch, as Spark does.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from modgap.core.checks import (
    Array,
    InputTypeError,
    InputValueError,
    check_choice,
    check_count,
    did_you_mean,
)
from modgap.corrections import Correction, Metric, OwnQueriesWarning, own_keys
from modgap.corrections.correction import Role
from modgap.io import Embeddings
from modgap.io._arrow_columns import is_list, list_numbers, numpy_dtype
from modgap.io._row_stream import FLOATS, RowStream
from modgap.moments import Moments, RowMoments
from modgap.search import search

Batch: TypeAlias = "pa.RecordBatch | pa.Table"

# One row of partial moments: of the rows as given, and of the rows at unit length. The scatter is
# (d, d) in float64, row after row.
MOMENTS_SCHEMA = pa.schema(
    [
        ("n", pa.int64()),
        ("mean", pa.list_(pa.float64())),
        ("scatter", pa.binary()),
        ("unit_mean", pa.list_(pa.float64())),
        ("unit_scatter", pa.binary()),
    ]
)
TOP_K_SCHEMA = pa.schema(
    [("query", pa.int64()), ("row", pa.int64()), ("id", pa.string()), ("score", pa.float64())]
)

# What errors call the place of the rows; an engine does not say which file they came from.
_PLACE = Path("the batch")


def partial_moments(
    batch: Batch, column: str | None = None, *, name: str | None = None, first_row: int = 0
) -> Batch:
    """The moments of a batch as one row of ``MOMENTS_SCHEMA``; no row for a batch without any.

    Parameters
    ----------
    batch : RecordBatch or Table
        With a column of lists or fixed-size lists of float16, float32 or float64.
    column : str, optional
        The column of the vectors, where there is more than one of lists.
    name : str, optional
        What errors call the rows; the column by default.
    first_row : int
        The number of the first row, for errors.

    >>> rows = pa.table({"embedding": [[3.0, 4.0], [1.0, 0.0]]})
    >>> partial = partial_moments(rows)
    >>> partial["n"].to_pylist(), partial["mean"].to_pylist()
    ([2], [[2.0, 2.0]])
    >>> moments_of([partial, partial]).n
    4
    """
    chosen = vector_column(batch, column)
    if batch.num_rows == 0:
        return _as_given(MOMENTS_SCHEMA.empty_table(), batch)
    rows = rows_of_column(batch, chosen, first_row)
    moments = Moments.from_batch(rows, name=name or chosen, first_row=first_row)
    return _as_given(pa.Table.from_batches([moments_batch(moments)]), batch)


def moments_batch(moments: Moments) -> pa.RecordBatch:
    """Moments as one row of ``MOMENTS_SCHEMA``; null where they leave something out."""
    cells: dict[str, Any] = {"n": moments.n}
    for prefix, rows in (("", moments.given), ("unit_", moments.unit)):
        scatter = None if rows is None else rows.scatter
        cells[f"{prefix}mean"] = None if rows is None else np.asarray(rows.mean, np.float64)
        cells[f"{prefix}scatter"] = (
            None if scatter is None else np.ascontiguousarray(scatter, dtype="<f8").tobytes()
        )
    arrays = [pa.array([cells[field.name]], field.type) for field in MOMENTS_SCHEMA]
    return pa.record_batch(arrays, schema=MOMENTS_SCHEMA)


def moments_of(batches: Batch | Iterable[Batch]) -> Moments:
    """The sum of rows that `partial_moments` made, in any number of batches or tables."""
    total: Moments | None = None
    for batch in _each(batches):
        missing = [name for name in MOMENTS_SCHEMA.names if name not in batch.schema.names]
        if missing:
            raise InputValueError(
                f"Rows of partial moments must have the columns {', '.join(MOMENTS_SCHEMA.names)}, "
                f"but {', '.join(missing)} is missing."
            )
        for cells in batch.select(MOMENTS_SCHEMA.names).to_pylist():
            part = _moments_of_row(cells)
            total = part if total is None else total + part
    if total is None:
        raise InputValueError("There must be at least one row of partial moments, got none.")
    return total


def corrected_batch(
    batch: Batch,
    correction: Correction,
    modality: str,
    column: str | None = None,
    into: str | None = None,
    *,
    role: Role = "document",
    dtype: Any = None,
    first_row: int | None = None,
) -> Batch:
    """The batch with its vectors corrected; all other columns stay as they are.

    Parameters
    ----------
    batch : RecordBatch or Table
        With a column of lists or fixed-size lists of float16, float32 or float64.
    correction : Correction
        What `modgap.Correction.load` reads.
    modality : str
        Which of its modalities the rows are.
    column : str, optional
        The column of the vectors, where there is more than one of lists.
    into : str, optional
        A new column for the corrected vectors; without it they take the place of the others.
    role : {"document", "query"}
        As what they are corrected.
    dtype : dtype, optional
        float16, float32 or float64; that of the column when left out.
    first_row : int, optional
        The number of the first row in the whole data, for errors, and for a correction with hubs
        whose bank goes by row numbers.

    >>> import modgap
    >>> fitted = modgap.Calibrate().fit([[1.0, 0.0], [0.8, 0.6]], [[0.0, 1.0], [0.6, 0.8]])
    >>> rows = pa.table({"id": [7], "embedding": [[2.0, 0.0]]})
    >>> corrected_batch(rows, fitted.correction_, "image", into="corrected").schema.names
    ['id', 'embedding', 'corrected']
    """
    chosen = vector_column(batch, column)
    place = batch.schema.get_field_index(chosen)
    if into is not None and into != chosen and into in batch.schema.names:
        raise InputValueError(f"There is a column {into!r} already. Choose another one with into.")
    mapping = correction.map(modality, role)
    rows = rows_of_column(batch, chosen, first_row or 0, dim=mapping.dim_in)
    kind = np.dtype(dtype or rows.dtype)
    if len(rows):
        keys = _keys(batch, rows, correction, modality, role, first_row)
        mapped = mapping(rows, modality, first_row=first_row or 0, keys=keys)
        rows = RowStream([mapped], modality, kind).collect()
    values = pa.array(np.ascontiguousarray(rows, dtype=kind).reshape(-1))
    of_kind = pa.list_(values.type, mapping.dim_out)
    corrected = pa.FixedSizeListArray.from_arrays(values, type=of_kind)
    table = pa.table(batch) if isinstance(batch, pa.RecordBatch) else batch
    if into is None or into == chosen:
        table = table.set_column(place, pa.field(chosen, corrected.type), corrected)
    else:
        table = table.append_column(pa.field(into, corrected.type), corrected)
    return _as_given(table, batch)


def top_k_batch(
    batch: Batch,
    queries: Array,
    k: int = 10,
    column: str | None = None,
    *,
    metric: Metric = "cosine",
    id_column: str | None = None,
    first_row: int = 0,
) -> Batch:
    """The k best documents of a batch for each query, as rows of ``TOP_K_SCHEMA``.

    Exact, as `modgap.search.search` is. Documents are scored as they are: correct them first with
    `corrected_batch`, and rank by the metric of the correction.

    Parameters
    ----------
    batch : RecordBatch or Table
        The documents.
    queries : (n, d) array
        The queries, corrected where the documents are.
    k : int
        How many to find.
    column : str, optional
        The column of the vectors, where there is more than one of lists.
    metric : {"cosine", "inner_product", "euclidean"}
        What the score is.
    id_column : str, optional
        A column of ids to carry along, as texts.
    first_row : int
        The number of the first document in the whole data; equal scores go to the earlier one.
    """
    chosen = vector_column(batch, column)
    if batch.num_rows == 0:
        return _as_given(TOP_K_SCHEMA.empty_table(), batch)
    documents = rows_of_column(batch, chosen, first_row)
    rows, scores = search(queries, documents, k, metric)
    flat = pa.array(rows.ravel())
    ids = pa.nulls(len(flat), pa.string())
    if id_column is not None:
        if id_column not in batch.schema.names:
            raise InputValueError(
                f"The batch has no column {id_column!r} of ids."
                f"{did_you_mean(id_column, batch.schema.names)}"
            )
        ids = pa.table(batch).column(id_column).combine_chunks().cast(pa.string()).take(flat)
    asked = np.repeat(np.arange(len(rows)), rows.shape[1])
    found = [pa.array(asked), pa.array(rows.ravel() + first_row), ids, pa.array(scores.ravel())]
    return _as_given(pa.Table.from_arrays(found, schema=TOP_K_SCHEMA), batch)


def merged_top_k(batches: Batch | Iterable[Batch], k: int = 10) -> pa.Table:
    """The k best of all that `top_k_batch` found, by query, best first.

    Parameters
    ----------
    batches : batches or tables
        Rows of ``TOP_K_SCHEMA``, each document once.
    k : int
        How many to keep; each batch must have been asked for as many.
    """
    check_count(k, "k")
    kept = TOP_K_SCHEMA.empty_table()
    order = [("query", "ascending"), ("score", "descending"), ("row", "ascending")]
    for batch in _each(batches):
        table = pa.concat_tables([kept, pa.table(batch).select(TOP_K_SCHEMA.names)])
        table = table.sort_by(order)
        asked = table["query"].to_numpy()
        starts = np.searchsorted(asked, asked, side="left")
        kept = table.filter(pa.array(np.arange(len(asked)) - starts < k))
    return kept.combine_chunks()


def _each(batches: Batch | Iterable[Batch]) -> Iterator[Batch]:
    if isinstance(batches, (pa.RecordBatch, pa.Table)):
        yield batches
        return
    for batch in batches:
        if not isinstance(batch, (pa.RecordBatch, pa.Table)):
            raise InputTypeError(
                f"Partial results must be Arrow batches or tables, got {type(batch).__name__}."
            )
        yield batch


def _moments_of_row(cells: dict[str, Any]) -> Moments:
    n = check_count(cells["n"], "the number of rows of moments")
    found: list[RowMoments | None] = []
    for prefix in ("", "unit_"):
        mean, scatter = cells[f"{prefix}mean"], cells[f"{prefix}scatter"]
        if mean is None:
            found.append(None)
            continue
        dim = len(mean)
        numbers = None if scatter is None else np.frombuffer(scatter, dtype="<f8").copy()
        if numbers is not None and numbers.size != dim:
            if numbers.size != dim * dim:
                raise InputValueError(
                    f"The scatter of {dim} columns must hold {dim * dim} numbers, got "
                    f"{numbers.size}."
                )
            numbers = numbers.reshape(dim, dim)
        found.append(RowMoments(n, np.asarray(mean, np.float64), numbers))
    given, unit = found
    if given is None:
        raise InputValueError("Rows of partial moments must have a mean, got a null.")
    return Moments(given, unit)


def _as_given(table: pa.Table, given: Batch) -> Batch:
    """The result as what the engine gave and wants back."""
    table = table.combine_chunks()
    if isinstance(given, pa.Table):
        return table
    if table.num_rows:
        return table.to_batches()[0]
    empty = [pa.array([], field.type) for field in table.schema]
    return pa.record_batch(empty, schema=table.schema)


def _keys(
    batch: Batch,
    rows: np.ndarray,
    correction: Correction,
    modality: str,
    role: Role,
    first_row: int | None,
) -> np.ndarray | None:
    """The keys of documents of a correction with hubs, from their ids, groups or row numbers."""
    hubs = correction.hubs
    if hubs is None or check_choice(role, "role", ("document", "query")) == "query":
        return None
    hubs.check_bank()
    if hubs.keyed_by in ("row", "own row") and first_row is None:
        warnings.warn(
            f"The bank goes by row numbers, and the number of the first {modality} row is not "
            "given, so queries that are a document's own are not left out of its hubness. Give "
            "first_row, unless these are rows that the correction was not fitted on.",
            OwnQueriesWarning,
            stacklevel=3,
        )
        return None
    table = pa.table(batch)
    known = {
        f"{name}s": table[name].to_numpy() for name in ("id", "group") if name in table.schema.names
    }
    own = Embeddings.from_array(rows, **known)
    return own_keys(correction, own, modality, first_row=first_row or 0)


def vector_column(batch: Any, column: str | None) -> str:
    """The column of the vectors: the one asked for, else the only one of lists."""
    if not isinstance(batch, (pa.RecordBatch, pa.Table)):
        raise InputTypeError(
            f"batch must be a RecordBatch or Table of pyarrow, got {type(batch).__name__}."
        )
    names = batch.schema.names
    if column is not None:
        if column not in names:
            raise InputValueError(
                f"The batch has no column {column!r}.{did_you_mean(column, names)} "
                f"It has {', '.join(map(repr, names)) or 'none'}."
            )
        return column
    found = [field.name for field in batch.schema if is_list(_stored(field.type))]
    if len(found) != 1:
        raise InputValueError(
            "Say which column holds the vectors with column: the batch has "
            f"{', '.join(map(repr, found)) or 'no column'} of lists."
        )
    return found[0]


def rows_of_column(batch: Batch, column: str, first_row: int, dim: int | None = None) -> np.ndarray:
    """The vectors of a column as a matrix; ``dim`` is the columns of a batch without rows."""
    field = batch.schema.field(column)
    kind = _stored(field.type)
    inner = numpy_dtype(kind.value_type) if is_list(kind) else np.dtype(object)
    if inner.name not in FLOATS:
        raise InputTypeError(
            f"Column {column!r} must hold lists of {', '.join(FLOATS)}, got {field.type}."
        )
    chunks = pa.table(batch).column(column).chunks
    arrays = [getattr(chunk, "storage", chunk) for chunk in chunks if len(chunk)]
    if not arrays:
        return np.empty((0, dim or 0), inner)
    found, row = [], first_row
    width = getattr(kind, "list_size", None)
    for array in arrays:
        if width is None:
            width = next((len(one) for one in array if one.is_valid), 0)
        if width == 0 and not array.null_count:
            raise InputValueError(f"The vectors of {column!r} must have numbers, got none.")
        found.append(list_numbers(array, width, column, _PLACE, row))
        row += len(array)
    return found[0] if len(found) == 1 else np.concatenate(found)


def _stored(kind: Any) -> Any:
    """What an extension type, such as a tensor of Ray's, is kept as."""
    return getattr(kind, "storage_type", kind)
