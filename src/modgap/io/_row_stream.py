"""Checks and converts rows batch by batch while they are written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

import array_api_compat
import numpy as np

from modgap.core.checks import InputTypeError, InputValueError
from modgap.core.door import as_numpy, check_matrix
from modgap.core.threads import ahead
from modgap.io._contents import listed
from modgap.io._matrices import BATCH_ROWS
from modgap.io.embeddings import Embeddings
from modgap.io.formats.tables import is_opened

FLOATS = ("float16", "float32", "float64")
# One keeps up with the threads that map; more would hold more batches.
_CONVERTERS = 1


class RowStream:
    """Batches of rows to be written once, checked and converted on the way.

    ``rows`` is a matrix, `Embeddings`, a path or a table, or an iterable of batches; ``dtype`` is
    that of the first batch unless it is given.
    """

    def __init__(self, rows: Any, name: str, dtype: Any = None) -> None:
        self.name = name
        batches = _iterate(rows, name)
        first = next(batches, None)
        if first is None:
            raise InputValueError(f"{name} must have at least one row, got no batches.")
        self._batches, self._given = chain([first], batches), first.dtype
        self.dim = int(first.shape[1])
        self.dtype = check_float_dtype(first.dtype if dtype is None else dtype)
        self.n_written = 0

    def batches(self) -> Iterator[np.ndarray]:
        """The rows in order; what cannot be written as asked is refused.

        Rows that must be converted are so in a thread: half precision takes as long as the map.
        """

        def convert(given: tuple[np.ndarray, int]) -> np.ndarray:
            return converted(given[0], self.dtype, self.name, first_row=given[1])

        same, given = self._given == self.dtype, self._numbered()
        for batch in map(convert, given) if same else ahead(convert, given, _CONVERTERS):
            self.n_written += len(batch)
            yield batch

    def _numbered(self) -> Iterator[tuple[np.ndarray, int]]:
        """Each batch, and the number of its first row."""
        first_row = 0
        for batch in self._batches:
            if batch.shape[1] != self.dim:
                raise InputValueError(
                    f"Every batch of {self.name} must have the same number of columns, "
                    f"got {self.dim} and from row {first_row} {batch.shape[1]}."
                )
            yield batch, first_row
            first_row += len(batch)
            del batch  # before the next one is made

    def collect(self) -> np.ndarray:
        """All rows in memory, for formats that are written in one piece."""
        return np.concatenate(list(self.batches()))


def converted(
    batch: np.ndarray,
    dtype: np.dtype,
    name: str,
    *,
    first_row: int = 0,
    out: np.ndarray | None = None,
) -> np.ndarray:
    """Rows in another precision, in ``out`` where that is given.

    Refuses rows that would become zero in it, and numbers that would become infinite.
    """
    # Rows of which a number may become infinite, or all of them zero.
    unsure = np.zeros(0, dtype=np.intp)
    with np.errstate(over="ignore"):
        if dtype.itemsize < batch.dtype.itemsize:
            largest = np.maximum(batch.max(axis=1, initial=0), -batch.min(axis=1, initial=0))
            range_ = np.finfo(dtype)
            odd_rows = (largest <= range_.smallest_normal) | (largest >= range_.max)
            unsure = np.flatnonzero(odd_rows)
        found = np.ascontiguousarray(batch, dtype=dtype) if out is None else out
        if out is not None:
            out[...] = batch
    if len(unsure):
        _check_kept(batch[unsure], found[unsure], dtype, name, first_row + unsure)
    return found


def _check_kept(
    batch: np.ndarray, found: np.ndarray, dtype: np.dtype, name: str, numbers: np.ndarray
) -> None:
    gone = np.any(batch != 0, axis=1) & ~np.any(found != 0, axis=1)
    if gone.any():
        row = int(np.argmax(gone))
        raise InputValueError(
            f"{name} must fit into {dtype}, but row {numbers[row]} is "
            f"all below {np.finfo(dtype).smallest_subnormal:g}, and would be zero. "
            "Write a wider dtype, or scale the rows."
        )
    lost = np.isinf(found) & np.isfinite(batch)
    if lost.any():
        row, column = np.argwhere(lost)[0]
        raise InputValueError(
            f"{name} must fit into {dtype}, which ends at "
            f"{np.finfo(dtype).max:g}, but row {numbers[row]} holds "
            f"{batch[row, column]:g}. Write a wider dtype, or scale the rows."
        )


def check_float_dtype(dtype: Any) -> np.dtype:
    """One of float16, float32 and float64.

    >>> check_float_dtype("float16")
    dtype('float16')
    """
    try:
        checked = np.dtype(dtype).newbyteorder("=")
    except TypeError:
        checked = np.dtype(object)
    if checked.name not in FLOATS:
        raise InputTypeError(f"dtype must be one of {', '.join(FLOATS)}, got {dtype}.")
    return checked


def check_columns(columns: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """The given columns as arrays with one string or number per row; those not given are left out.

    >>> check_columns({"id": [7, 8], "caption": None})
    {'id': array([7, 8])}
    """
    checked = {}
    for name, values in columns.items():
        if values is None:
            continue
        array = np.asarray(values)
        if array.ndim != 1:
            raise InputValueError(f"{name} must have one entry per row, got shape {array.shape}.")
        is_text = array.dtype == object and all(v is None or isinstance(v, str) for v in array)
        if array.dtype.kind not in "iufbU" and not is_text:
            raise InputTypeError(f"{name} must hold strings or numbers, got {array.dtype}.")
        # Contiguous, because safetensors and torch do not read arrays with strides.
        checked[name] = np.ascontiguousarray(array)
    return checked


def check_lengths(
    streams: Iterable[RowStream], columns: Mapping[str, np.ndarray], owners: Mapping[str, int]
) -> None:
    """After the rows are out: each column must have an entry for every one of them.

    ``owners`` says whose rows a column describes; a column it leaves out describes all streams.
    """
    for side, stream in enumerate(streams):
        for name, values in columns.items():
            if owners.get(name, side) == side and len(values) != stream.n_written:
                raise InputValueError(
                    f"{name} must have one entry per row of {stream.name}: "
                    f"{stream.n_written} rows, got {len(values)}."
                )


def refuse_columns(columns: Mapping[str, np.ndarray], why: str) -> None:
    """For formats that cannot hold the given columns."""
    if columns:
        raise InputValueError(
            f"{why}, so {listed(list(columns))} cannot be kept. Write a .parquet or .npz file."
        )


def is_text(values: np.ndarray) -> bool:
    """Whether a column holds strings."""
    return values.dtype.kind in "UO"


def _iterate(rows: Any, name: str) -> Iterator[np.ndarray]:
    if isinstance(rows, Embeddings) or is_opened(rows):
        yield from Embeddings.of(rows, name).batches()
    elif array_api_compat.is_array_api_obj(rows):
        array = as_numpy(check_matrix(rows, name))
        for start in range(0, len(array), BATCH_ROWS):
            yield array[start : start + BATCH_ROWS]
    elif isinstance(rows, Iterable) and not isinstance(rows, (str, bytes, Mapping)):
        for batch in rows:
            if not array_api_compat.is_array_api_obj(batch) or batch.ndim != 2:
                raise InputTypeError(
                    f"{name} must be a matrix or batches of rows, each an array of two "
                    f"dimensions, got a batch of {_what(batch)}."
                )
            if len(batch):
                yield as_numpy(check_matrix(batch, name))
    else:
        raise InputTypeError(f"{name} must be a matrix or batches of rows, got {_what(rows)}.")


def _what(value: Any) -> str:
    shape = getattr(value, "shape", None)
    return f"shape {tuple(shape)}" if shape is not None else type(value).__name__
