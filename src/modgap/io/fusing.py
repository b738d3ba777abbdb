"""One row for a document of two parts, an image and its text for instance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from modgap.arrays import unit
from modgap.core.checks import Array, InputValueError, check_finite
from modgap.core.door import check_two, opened_two
from modgap.io._contents import EMBEDDING, Contents
from modgap.io._file_matrices import ReadMatrix
from modgap.io._matrices import Matrix
from modgap.io.column_roles import column_roles


def fuse(X: Array, Y: Array | None = None, weight: float = 0.5) -> Array:
    """The rows of documents that have both parts: weight · x + (1 − weight) · y, at unit length.

    x and y are unit rows. Fused documents lie between the modalities, so they are a modality of
    their own, with their own mean and spread: fit ``Calibrate`` on ``{"image": …, "text": …,
    "fused": …}`` and index them as ``"fused"``.

    Parameters
    ----------
    X, Y : (n, d) arrays
        The parts, row i of both of document i, of any length.
    weight : float
        Share of X, between 0 and 1.

    >>> fuse([[2.0, 0.0]], [[0.0, 1.0]]).round(4).tolist()
    [[0.7071, 0.7071]]
    """
    X, Y = opened_two(X, Y, ("X", "Y"), matched=True)
    X, Y = check_two(X, Y, nonzero=True)
    if X.shape[0] != Y.shape[0]:
        raise InputValueError(
            f"X and Y must hold the two parts of the same documents, got {X.shape[0]} and "
            f"{Y.shape[0]} rows."
        )
    if not 0 <= check_finite(weight, "weight") <= 1:
        raise InputValueError(f"weight must be between 0 and 1, got {weight}.")
    return unit(weight * unit(X) + (1 - weight) * unit(Y))


def _fused_blocks(parts: Sequence[Matrix], dtype: np.dtype, size: int) -> Iterator[np.ndarray]:
    for x, y in zip(*(part.batches(size) for part in parts), strict=True):
        yield fuse(x, y).astype(dtype, copy=False)


def open_fused(path: Path, first: Contents, second: Contents) -> Contents:
    """The documents whose parts are in two files, row by row; ids and captions are of the first."""
    parts = [contents.matrix(contents.only_embedding()) for contents in (first, second)]
    if parts[0].shape != parts[1].shape:
        raise InputValueError(
            f"{first.path} and {second.path} must hold the two parts of the same documents, row by "
            f"row, got shapes {parts[0].shape} and {parts[1].shape}."
        )
    ids = [
        column_roles(contents.columns, part.shape[0])[0].get("ids")
        for contents, part in zip((first, second), parts, strict=True)
    ]
    known = [one.load() for one in ids if one is not None]
    if len(known) == len(parts) and not np.array_equal(known[0], known[1]):
        raise InputValueError(
            f"{first.path} and {second.path} must hold the two parts of the same documents, row by "
            "row, but their ids differ."
        )
    dtype = np.result_type(*(part.dtype for part in parts), np.float32)
    fused = ReadMatrix(parts[0].shape, dtype, partial(_fused_blocks, parts, dtype))
    return Contents(path, {EMBEDDING: fused}, first.columns)
