"""NumPy and torch behind one namespace: dtypes, blocks of rows, norms and inner products."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import array_api_compat
import array_api_compat.numpy
import numpy as np

from modgap.core.checks import Array
from modgap.core.stopping import stop_here

# Scratch for one block of scores. Large enough for BLAS, small enough to stay near the cache.
BLOCK_BYTES = 16 * 2**20
# The same for a block that is gone over several times.
CACHE_BYTES = 2 * 2**20


def namespace(*arrays: Array) -> Any:
    """The array-API namespace that the arrays share."""
    for A in arrays:
        if type(A) is not np.ndarray:
            return array_api_compat.array_namespace(*arrays)
    return array_api_compat.numpy  # asked for so often that looking for it would take a while


def is_torch(A: Array) -> bool:
    """Whether ``A`` is a torch tensor; does not import torch."""
    return bool(array_api_compat.is_torch_array(A))


def to_numpy(A: Array) -> np.ndarray:
    """The array in the memory of NumPy, at least float32 where it holds floats."""
    if is_torch(A):
        A = A.detach().cpu()
        if A.dtype.is_floating_point:
            A = as_float(A)
        return np.asarray(A.numpy())
    return np.asarray(A)


def like(values: Any, A: Array, dtype: Any = None) -> Array:
    """Values as an array of the library and device of ``A``."""
    xp = namespace(A)
    return xp.asarray(values, device=array_api_compat.device(A), dtype=dtype)


def filled(value: float, count: int, A: Array, dtype: Any) -> Array:
    """So many equal numbers, of the library and device of ``A``."""
    return namespace(A).full((count,), value, dtype=dtype, device=array_api_compat.device(A))


def as_float(A: Array) -> Array:
    """The array in float32 or float64; half precision is widened, since its sums would overflow."""
    xp = namespace(A)
    return A if A.dtype in (xp.float32, xp.float64) else xp.astype(A, xp.float32)


def wide_dtype(A: Array) -> Any:
    """float64, or float32 on devices that have no float64 (Apple's MPS)."""
    xp = namespace(A)
    if is_torch(A) and A.device.type == "mps":
        return xp.float32
    return xp.float64


def widen(A: Array) -> Array:
    """The array in float64 where its device has it."""
    return namespace(A).astype(A, wide_dtype(A), copy=False)


def row_blocks(n: int, size: int) -> Iterator[slice]:
    """Slices that cut ``n`` rows into blocks of at most ``size``; work may be stopped at each."""
    for start in range(0, n, size):
        stop_here()
        yield slice(start, min(start + size, n))


def rows_per_block(width: int, itemsize: int = 8, budget: int = BLOCK_BYTES) -> int:
    """How many rows of ``width`` numbers fit the scratch budget, within sensible bounds."""
    return int(min(8192, max(16, budget // max(1, width * itemsize))))


def cached_blocks(A: Array, n: int | None = None) -> Iterator[slice]:
    """Slices of rows for work that goes over a block several times in wide precision.

    ``n`` is the number of rows, where it is not that of ``A``.
    """
    return row_blocks(A.shape[0] if n is None else n, rows_per_cached_block(A))


def rows_per_cached_block(A: Array) -> int:
    """How many rows such a block has.

    On a processor it stays in a core's cache; larger ones take four times as long.
    """
    on_cpu = not is_torch(A) or A.device.type == "cpu"
    return rows_per_block(A.shape[1], budget=CACHE_BYTES if on_cpu else BLOCK_BYTES)


def row_norms(A: Array) -> Array:
    """Euclidean norm of each row, in float64 where the device has it, in blocks."""
    xp = namespace(A)
    parts = []
    for rows in cached_blocks(A):
        parts.append(xp.linalg.vector_norm(widen(A[rows]), axis=1))
    return xp.concat(parts)


def largest_norm(A: Array) -> float:
    """Euclidean norm of the longest row, up to rounding."""
    xp = namespace(A)
    if not is_torch(A) and A.dtype == np.float32:
        with np.errstate(over="ignore"):
            largest = max(float(xp.linalg.vecdot(A[b], A[b]).max()) for b in cached_blocks(A))
        if 1e-30 < largest < 1e30:
            return math.sqrt(largest)
    return float(xp.max(row_norms(A)))


def unit(A: Array) -> Array:
    """Rows divided by their Euclidean norm; float32 stays float32, a row of zeros zero."""
    xp = namespace(A)
    out = xp.empty_like(A, dtype=as_float(A[:0]).dtype)
    for rows in cached_blocks(A):
        block = widen(A[rows])
        length = xp.linalg.vector_norm(block, axis=1, keepdims=True)
        length = xp.where(length == 0, xp.ones_like(length), length)
        out[rows] = xp.astype(block / length, out.dtype)
    return out


def is_unit(A: Array) -> bool:
    """Whether every row has length 1 up to the rounding of its own precision."""
    xp = namespace(A)
    return A.dtype in (xp.float32, xp.float64) and has_unit_lengths(A, row_norms(A))


def has_unit_lengths(A: Array, lengths: Array) -> bool:
    """``is_unit`` where the lengths of the rows are known; half precision is never unit."""
    xp = namespace(A)
    if A.dtype not in (xp.float32, xp.float64):
        return False
    slack = 2.5e-7 if A.dtype == xp.float32 else 1e-14
    return bool(xp.all(xp.abs(lengths - 1) <= slack))


def at_unit_length(A: Array) -> Array:
    """Rows at unit length: those given, where they are, else ``unit``."""
    return A if is_unit(A) else unit(A)


def paired_dots(A: Array, B: Array) -> Array:
    """Inner product of row i of ``A`` with row i of ``B``, in float64 where the device has it.

    The sum over columns does not depend on which rows stand beside it, so equal rows give equal
    results: what exact ties rely on.
    """
    xp = namespace(A, B)
    parts = []
    for rows in cached_blocks(A):
        parts.append(xp.linalg.vecdot(widen(A[rows]), widen(B[rows])))
    return xp.concat(parts)


def sum_squares(A: Array) -> Array:
    """Squared norm of each row, in float64 where the device has it."""
    return paired_dots(A, A)


def along(A: Array, vector: Array) -> Array:
    """Inner product of each row with one vector, in float64, without a float64 copy of ``A``."""
    xp = namespace(A)
    return paired_dots(A, xp.broadcast_to(vector[None, :], A.shape))
