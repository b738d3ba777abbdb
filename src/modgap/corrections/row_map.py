"""What maps rows: an affine map, or one with a column of hubs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

import numpy as np

from modgap.arrays import is_torch, row_blocks, rows_per_block
from modgap.core.checks import Array, InputError, InputValueError, check_values
from modgap.core.door import check_matrix
from modgap.core.results import Brief
from modgap.core.threads import in_threads, workers_for
from modgap.io._row_stream import converted
from modgap.moments.rows import counted

# What mapping one block takes besides.
_SCRATCH_BYTES = 12 * 10**6
# Rows that are mapped, checked and converted before the next.
_PIECE_BYTES = 2**21


class RowMap(Brief, ABC):
    """Maps rows of ``dim_in`` columns, a batch or a stream of them.

    ``name`` and ``first_row`` say in errors what the rows are and where in a stream they are.
    ``keys`` of documents leave bank rows of their group out, where the map has hubs.
    """

    dim_in: int

    def _brief(self) -> str:
        return ", ".join([f"{self.dim_in} → {self.dim_out} columns", *self.steps()])

    @abstractmethod
    def steps(self) -> list[str]:
        """What is done to a row, in order, in a few letters each; none where it is left alone."""

    @property
    @abstractmethod
    def dim_out(self) -> int:
        """Number of columns of what comes out."""

    @property
    @abstractmethod
    def is_identity(self) -> bool:
        """Whether rows come out as they went in."""

    @abstractmethod
    def map_checked(
        self,
        rows: Array,
        name: str = "rows",
        *,
        first_row: int = 0,
        keys: np.ndarray | None = None,
    ) -> Array:
        """The mapped rows of a matrix of finite floats with ``dim_in`` columns, unchecked.

        Whoever calls it checks what comes out, in the precision that is kept: `check_mapped`. Only
        a map that ``ends_at_unit_length`` has looked at its rows itself.
        """

    @property
    def ends_at_unit_length(self) -> bool:
        """Whether dividing rows by their lengths is the last step, which refuses bad ones."""
        return False

    def __call__(
        self,
        rows: Array,
        name: str = "rows",
        *,
        first_row: int = 0,
        keys: np.ndarray | None = None,
        nonzero: bool = False,
    ) -> Array:
        """The mapped rows, in the precision of the given ones (half precision becomes float32)."""
        rows = check_matrix(rows, name)
        check_values(rows, name, first_row=first_row, nonzero=nonzero and self.is_identity)
        self.check_columns(rows)
        return self.mapped(rows, name, first_row=first_row, keys=keys, nonzero=nonzero)

    def check_columns(self, rows: Array) -> None:
        """Refuse rows that do not have the columns of the rows that the map takes."""
        if rows.shape[1] != self.dim_in:
            raise InputValueError(
                f"The correction is for rows of {self.dim_in} columns, got {rows.shape[1]}. "
                "It must be fitted on embeddings of the same model."
            )

    def mapped(
        self,
        rows: Array,
        name: str = "rows",
        *,
        first_row: int = 0,
        keys: np.ndarray | None = None,
        nonzero: bool = False,
    ) -> Array:
        """What a call gives, of rows that are checked already: a matrix of ``dim_in`` columns.

        The mapped rows are new numbers, so they are checked here; ``nonzero`` refuses those without
        a direction too.
        """
        mapped = self.map_checked(rows, name, first_row=first_row, keys=keys)
        if not (self.is_identity or self.ends_at_unit_length):
            check_values(
                mapped,
                f"corrected {name}",
                nonzero=nonzero,
                first_row=first_row,
                advice=out_of_range(mapped),
            )
        return mapped

    def over(
        self,
        batches: Iterable[Array],
        name: str = "rows",
        keys: np.ndarray | None = None,
        *,
        first_row: int = 0,
        dtype: Any = None,
    ) -> Iterator[Array]:
        """The batches mapped, in order; ``keys`` has those of all rows of the stream.

        Several are mapped at once, in threads, so none may be written over once it was given out.
        Those of NumPy come out in ``dtype``; where it is left out, as from a call.
        """

        def mapped(one: tuple[Array, int]) -> Array:
            batch, row = one
            first = row - first_row
            own = None if keys is None else keys[first : first + batch.shape[0]]
            if is_torch(batch):
                return self(batch, name, first_row=row, keys=own)
            return self._in_pieces(batch, name, row, own, dtype)

        left = counted(batches, first_row)
        start = next(left, None)
        if start is None:
            return
        # A batch and what becomes of it wait for each thread, in single precision at most.
        held = 2 * 4 * start[0].shape[0] * max(start[0].shape[1], self.dim_out) + _SCRATCH_BYTES
        workers = 1 if is_torch(start[0]) else workers_for(held)
        yield from in_threads(mapped, chain([start], left), workers)

    def _in_pieces(
        self, batch: np.ndarray, name: str, first_row: int, keys: np.ndarray | None, dtype: Any
    ) -> np.ndarray:
        """A batch mapped and converted, a few rows at a time, which stay in the cache meanwhile."""
        single = np.dtype(np.float32 if batch.dtype == np.float16 else batch.dtype)
        kind = single if dtype is None else np.dtype(dtype)
        width = max(self.dim_in, self.dim_out)
        out = np.empty((len(batch), self.dim_out), dtype=kind)

        def write(rows: slice) -> None:
            own, first = None if keys is None else keys[rows], first_row + rows.start
            found = self(batch[rows], name, first_row=first, keys=own)
            converted(found, kind, f"corrected {name}", first_row=first, out=out[rows])

        try:
            for rows in row_blocks(len(batch), rows_per_block(width, 4, _PIECE_BYTES)):
                write(rows)
        except InputError:
            write(slice(0, len(batch)))  # which says how many rows of all are like that
            raise
        return out


def check_mapped(mapped: Array, name: str, *, first_row: int = 0, nonzero: bool = False) -> None:
    """Refuse rows that the map took out of the range of their precision.

    ``name`` says what the rows are, ``nonzero`` refuses those without a direction too.
    """
    advice = out_of_range(mapped)
    check_values(mapped, f"corrected {name}", nonzero=nonzero, first_row=first_row, advice=advice)


def out_of_range(mapped: Array) -> str:
    """What to do about mapped rows that are not finite."""
    kind = str(mapped.dtype).removeprefix("torch.")
    return (
        f"The correction takes them out of the range of {kind}: scale the rows, or fit it on rows "
        "like these."
    )
