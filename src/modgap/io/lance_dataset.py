"""Lance datasets: one part for each fragment, read from the version that was opened.

https://lance.org: files of a version never change, so that whoever writes to a dataset meanwhile
disturbs nobody. ``add_columns`` backfills a corrected column beside the rows it was made from.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from modgap._validate import InputValueError, require
from modgap.io._arrow import column_values, is_list, list_numbers, list_width, numpy_dtype
from modgap.io._contents import Column, Contents, reading
from modgap.io._matrix import BATCH_ROWS, LOCAL_READERS, Matrix, StoredMatrix, join_files
from modgap.io._shards import Opening
from modgap.io.remote import RemotePath

SUFFIX = ".lance"
_VERSIONS = "_versions"
# Bytes that Lance itself reads ahead in a scan.
_BUFFER = 32 * 1024**2
_READERS = 4


def is_lance(folder: Any) -> bool:
    """Whether a folder is a Lance dataset."""
    return folder.suffix.lower() == SUFFIX or (folder / _VERSIONS).is_dir()


def open_lance(path: Any, opening: Opening | None = None) -> Contents:
    """The vector columns and the plain columns of a dataset, as it is now."""
    import pyarrow as pa

    opening = opening or Opening()
    lance = require("lance", "lance", f"Reading {path}", package="pylance")
    address = path.url if isinstance(path, RemotePath) else str(path)
    with _reading(path):
        dataset = lance.dataset(address)
        schema, fragments = dataset.schema, dataset.get_fragments()
    named = [_Named(path, fragment) for fragment in fragments]
    found = opening.open_each(
        named, partial(_Fragment, dataset), lambda one: one.n_rows, _look_through
    )
    parts = [part for part in found.values() if part.n_rows]
    opening.refuse_none(parts, path)
    if not parts:
        raise InputValueError(f"{path} must have at least one row, got none.")
    matrices: dict[str, Matrix] = {}
    columns: dict[str, Column] = {}
    for field in schema:
        if is_list(field.type):
            lists = {part.path: _Lists(part, field.name, field.type) for part in parts}
            matrices[field.name] = join_files(lists)
        elif not pa.types.is_nested(field.type):
            load = partial(_load, parts, field.name)
            n_rows = sum(part.n_rows for part in parts)
            columns[field.name] = Column(n_rows, str(field.type), load)
    return Contents(path, matrices, columns)


class _Named:
    """A fragment with the few things of a path that shards have."""

    def __init__(self, dataset: Any, fragment: Any) -> None:
        self.parent, self.fragment = dataset, fragment
        self.name = self.stem = f"fragment {fragment.fragment_id}"

    def __str__(self) -> str:
        return f"{self.name} of {self.parent}"


class _Fragment:
    """Some files of a dataset that hold the same rows."""

    def __init__(self, dataset: Any, path: _Named) -> None:
        self.dataset, self.path, self.fragment = dataset, path, path.fragment
        self.readers = _READERS if isinstance(path.parent, RemotePath) else LOCAL_READERS
        with _reading(path):
            self.n_rows: int = self.fragment.count_rows()

    def arrays(self, column: str, size: int) -> Iterator[Any]:
        """The column as Arrow arrays of at most ``size`` rows."""
        with _reading(self.path):
            scanner = self.dataset.scanner(
                columns=[column],
                fragments=[self.fragment],
                batch_size=size,
                batch_readahead=2,
                io_buffer_size=_BUFFER,
                scan_in_order=True,
            )
            for batch in scanner.to_batches():
                yield batch.column(column)


class _Lists(StoredMatrix):
    """One column of vectors of one fragment."""

    def __init__(self, part: _Fragment, column: str, kind: Any) -> None:
        self.part, self.column, self.readers = part, column, part.readers
        self.dtype = numpy_dtype(kind.value_type)
        self.shape = (part.n_rows, list_width(kind, part.arrays(column, 1), column, part.path))

    def blocks(self, size: int) -> Iterator[np.ndarray]:
        row = 0
        for array in self.part.arrays(self.column, size):
            # A copy: Lance's own memory ends with the scan.
            yield self._numbers(array, row).copy()
            row += len(array)

    def take(self, indices: np.ndarray) -> np.ndarray:
        wanted, places = np.unique(indices, return_inverse=True)
        taken = np.empty((len(wanted), self.shape[1]), self.dtype)
        for start in range(0, len(wanted), BATCH_ROWS):
            some = wanted[start : start + BATCH_ROWS]
            with _reading(self.part.path):
                found = self.part.fragment.take(some.tolist(), columns=[self.column])
                array = found.column(self.column).combine_chunks()
                array = array.chunk(0) if hasattr(array, "chunk") else array
            taken[start : start + len(some)] = self._numbers(array, int(some[0]))
        return taken[places]

    def _numbers(self, array: Any, row: int) -> np.ndarray:
        return list_numbers(array, self.shape[1], self.column, self.part.path, row)


def _load(parts: Sequence[_Fragment], column: str) -> np.ndarray:
    import pyarrow as pa

    return column_values(
        pa.chunked_array([a for part in parts for a in part.arrays(column, BATCH_ROWS)])
    )


def _look_through(part: _Fragment) -> None:
    for name in part.dataset.schema.names:
        for _ in part.arrays(name, BATCH_ROWS):
            pass


def _reading(path: Any) -> Any:
    return reading(path, "a Lance dataset", Exception)
