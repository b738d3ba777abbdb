"""What maps rows: an affine map, or one with a column of hubs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from itertools import chain

import numpy as np

from modgap._ahead import in_threads, workers_for
from modgap._arrays import is_torch
from modgap._results import Brief
from modgap._validate import Array, InputValueError, check_matrix, check_values
from modgap.moments.blocks import counted

# What mapping one block takes besides.
_SCRATCH_BYTES = 12 * 10**6


class RowMap(Brief, ABC):
    """Maps rows of ``dim_in`` columns, a batch or a stream of them.

    ``name`` and ``first_row`` say in errors what the rows are and where in a stream they are.
    ``keys`` of documents leave bank rows of their group out, where the map has hubs.
    """

    dim_in: int

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

        Whoever calls it checks what comes out, in the precision that is kept: `check_mapped`.
        """

    def __call__(
        self,
        rows: Array,
        name: str = "rows",
        *,
        first_row: int = 0,
        keys: np.ndarray | None = None,
    ) -> Array:
        """The mapped rows, in the precision of the given ones (half precision becomes float32)."""
        rows = check_matrix(rows, name)
        check_values(rows, name, first_row=first_row)
        if rows.shape[1] != self.dim_in:
            raise InputValueError(
                f"The correction is for rows of {self.dim_in} columns, got {rows.shape[1]}. "
                "It must be fitted on embeddings of the same model."
            )
        mapped = self.map_checked(rows, name, first_row=first_row, keys=keys)
        if not self.is_identity:
            check_mapped(mapped, name, first_row=first_row)
        return mapped

    def over(
        self,
        batches: Iterable[Array],
        name: str = "rows",
        keys: np.ndarray | None = None,
        *,
        first_row: int = 0,
    ) -> Iterator[Array]:
        """The batches mapped, in order; ``keys`` has those of all rows of the stream.

        Several are mapped at once, in threads, so none may be written over once it was given out.
        """

        def mapped(one: tuple[Array, int]) -> Array:
            batch, row = one
            first = row - first_row
            own = None if keys is None else keys[first : first + batch.shape[0]]
            return self(batch, name, first_row=row, keys=own)

        left = counted(batches, first_row)
        start = next(left, None)
        if start is None:
            return
        # A batch and what becomes of it wait for each thread, in single precision at most.
        held = 2 * 4 * start[0].shape[0] * max(start[0].shape[1], self.dim_out) + _SCRATCH_BYTES
        workers = 1 if is_torch(start[0]) else workers_for(held)
        yield from in_threads(mapped, chain([start], left), workers)


def check_mapped(mapped: Array, name: str, *, first_row: int = 0, nonzero: bool = False) -> None:
    """Refuse rows that the map took out of the range of their precision.

    ``name`` says what the rows are, ``nonzero`` refuses those without a direction too.
    """
    kind = str(mapped.dtype).removeprefix("torch.")
    check_values(
        mapped,
        f"corrected {name}",
        nonzero=nonzero,
        first_row=first_row,
        advice=f"The correction takes them out of the range of {kind}: scale the rows, or "
        "fit it on rows like these.",
    )
