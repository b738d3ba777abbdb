"""Ranges of rows: what a matrix is cut into so that workers can share it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from modgap.io._file_matrices import FileMatrix
from modgap.io._matrices import ArrayMatrix, Matrix, PickedRows, Shards

# A shard of more bytes is several tasks, where any of its rows can be read by itself.
PIECE_BYTES = 256 * 1024**2


def pieces(matrix: Matrix) -> list[tuple[Matrix, int]]:
    """The shards of a matrix in order, large ones cut into ranges, empty ones left out.

    With each comes the number of its first row.
    """
    found: list[tuple[Matrix, int]] = []
    first = 0
    for part in matrix.shards():
        n_rows, row_bytes = part.shape[0], part.shape[1] * np.dtype(part.dtype).itemsize
        step = max(1, PIECE_BYTES // max(1, row_bytes)) if part.is_seekable else max(1, n_rows)
        for start in range(0, n_rows, step):
            stop = min(start + step, n_rows)
            piece = part if stop - start == n_rows else _range(part, start, stop)
            found.append((piece, first + start))
        first += n_rows
    return found


def range_of(parts: Sequence[Matrix], start: int, stop: int) -> Matrix:
    """The rows ``start`` to ``stop`` of parts that follow each other."""
    found: list[Matrix] = []
    first = 0
    for part in parts:
        low, high = max(start - first, 0), min(stop - first, part.shape[0])
        if low < high:
            found.append(part if high - low == part.shape[0] else _range(part, low, high))
        first += part.shape[0]
    return found[0] if len(found) == 1 else Shards(found)


def _range(part: Matrix, start: int, stop: int) -> Matrix:
    if isinstance(part, FileMatrix | ArrayMatrix):
        return part.between(start, stop)
    return PickedRows(part, np.arange(start, stop))
