"""One pass over the products of two sets of rows, or over half of those of one with itself.

How it works. `measure` needs many things of the same n × m products: maxima, histograms, sums of
exponentials. All products together do not fit into memory, and computing them takes longest.

1. They are computed once, in tiles. A tile is one BLAS call and fits a core's cache; on a GPU it is
   large, and nothing in the loop waits for the device.
2. Each consumer reduces a tile to a few numbers while it is in the cache (`look`). That runs in
   threads and changes nothing.
3. The caller's thread takes these numbers in, tile by tile in order (`add`), so the number of
   threads changes no result.
4. `product_pass` goes over all tiles of X Yᵀ; `half_product_pass` over those of U Uᵀ on and above
   the diagonal, so that every two different rows meet once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property
from typing import Any, Generic, Protocol, TypeVar

import array_api_compat
import numpy as np

from modgap.arrays.base import is_torch, namespace, row_blocks
from modgap.arrays.cuda import full_precision
from modgap.core.checks import Array
from modgap.core.threads import in_threads

# Rows and columns of a tile, and the side of one of a half product: smaller ones leave BLAS with
# little to do at a time, and larger ones on the diagonal are computed in vain by half.
NUMPY_TILE, TORCH_TILE, CUDA_TILE = (2048, 512), (1024, 2048), (8192, 8192)
NUMPY_SIDE = 768

Told = TypeVar("Told")
# Called with the share of a pass that a block was.
Listener = Callable[[float], None]
_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


class Tile:
    """Products of some rows of the left side with some of the right, and where they stand."""

    def __init__(self, products: Array, rows: slice, columns: slice, scratch: Scratch) -> None:
        self.products, self.rows, self.columns = products, rows, columns
        self._scratch = scratch

    def scratch(self, place: int = 0) -> Array:
        """Room of the same shape, valid until someone else asks for the same place."""
        return self._scratch.shaped(self.products, place)

    def moved(self, products: Array) -> Tile:
        """Other numbers at the same place."""
        return Tile(products, self.rows, self.columns, self._scratch)

    @cached_property
    def row_tops(self) -> Array:
        """The largest of each row."""
        return namespace(self.products).max(self.products, axis=1)

    @cached_property
    def column_tops(self) -> Array:
        """The largest of each column."""
        return namespace(self.products).max(self.products, axis=0)

    @cached_property
    def diagonal(self) -> tuple[slice, Array, Array] | None:
        """Which pairs i = i stand here, and their rows and columns in the tile; None without."""
        start = max(self.rows.start, self.columns.start)
        stop = min(self.rows.stop, self.columns.stop)
        if start >= stop:
            return None
        device = array_api_compat.device(self.products)
        place = namespace(self.products).arange(start, stop, device=device)
        return slice(start, stop), place - self.rows.start, place - self.columns.start


class Consumer(Protocol, Generic[Told]):
    """What is gathered from all tiles."""

    def look(self, tile: Tile) -> Told:
        """What one tile tells. May run in a thread: it leaves the consumer and the tile alone."""

    def add(self, told: Told, tile: Tile) -> None:
        """Take that in; tiles come one by one, in order."""


class HalfConsumer(Protocol, Generic[Told]):
    """What is gathered from the products of all pairs of different rows."""

    def look(self, values: Array, scratch: Array) -> Told:
        """What these products, a vector, tell. May run in a thread."""

    def add(self, told: Told) -> None:
        """Take that in."""


class Scratch:
    """Room for tiles, one set for each thread; tensors get theirs from torch."""

    def __init__(self) -> None:
        self._local = threading.local()

    def shaped(self, wanted: Array, place: int) -> Array:
        """Room of the shape and kind of an array."""
        if is_torch(wanted):
            return namespace(wanted).empty_like(wanted)
        return self.room(wanted.shape, wanted.dtype, place)

    def room(self, shape: tuple[int, ...], dtype: Any, place: int) -> np.ndarray:
        """Room of a shape."""
        held = self._local.__dict__.setdefault("held", {})
        size = int(np.prod(shape))
        if place not in held or held[place].size < size or held[place].dtype != dtype:
            held[place] = np.empty(size, dtype=dtype)
        return np.asarray(held[place][:size].reshape(shape))

    def product(self, left: Array, right: Array) -> Array:
        """left · rightᵀ, valid until this thread computes the next one."""
        if is_torch(left):
            with full_precision(left):
                return left @ right.T
        out = self.room((left.shape[0], right.shape[0]), left.dtype, -1)
        return np.matmul(left, right.T, out=out)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Within the block, kernels that are quadratic in the rows call ``listener`` as they go."""
    before = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(before)


def passed(share: float) -> None:
    """Report that this share of a pass is done."""
    listener = _listener.get()
    if listener is not None:
        listener(share)


def product_pass(X: Array, Y: Array, consumers: Sequence[Consumer[Any]]) -> None:
    """Show the products of every row of X with every row of Y to all consumers."""
    n, m = X.shape[0], Y.shape[0]
    height, width = _tile_shape(X)
    scratch = Scratch()

    def look(span: tuple[slice, slice]) -> tuple[Tile, list[Any]]:
        rows, columns = span
        tile = Tile(scratch.product(X[rows], Y[columns]), rows, columns, scratch)
        return tile, [consumer.look(tile) for consumer in consumers]

    spans = ((rows, columns) for rows in row_blocks(n, height) for columns in row_blocks(m, width))
    for tile, told in in_threads(look, spans, 1 if is_torch(X) else None):
        for consumer, what in zip(consumers, told, strict=True):
            consumer.add(what, tile)
        passed(_size(tile.rows) * _size(tile.columns) / (n * m))


def half_product_pass(U: Array, consumers: Sequence[HalfConsumer[Any]]) -> None:
    """Show the product of every two different rows, each two once, to all consumers."""
    n = U.shape[0]
    side = max(_tile_shape(U)) if is_torch(U) else NUMPY_SIDE
    scratch, upper = Scratch(), _upper_triangle(U)

    def look(span: tuple[slice, slice]) -> tuple[int, list[Any]]:
        rows, columns = span
        products = scratch.product(U[rows], U[columns])
        values = products.reshape(-1)
        if rows == columns:
            values = products[upper(products.shape[0])]
        room = scratch.shaped(values, 0)
        return values.shape[0], [consumer.look(values, room) for consumer in consumers]

    spans = (
        (rows, columns)
        for rows in row_blocks(n, side)
        for columns in row_blocks(n, side)
        if columns.start > rows.start or (columns == rows and _size(rows) > 1)
    )
    for count, told in in_threads(look, spans, 1 if is_torch(U) else None):
        for consumer, what in zip(consumers, told, strict=True):
            consumer.add(what)
        passed(count / (n * (n - 1) / 2))


def _upper_triangle(U: Array) -> Callable[[int], tuple[Array, Array]]:
    """Where the upper triangle of a square stands; remembered, since all but the last are alike."""
    known: dict[int, tuple[Array, Array]] = {}

    def places(size: int) -> tuple[Array, Array]:
        if size not in known:
            known[size] = (
                tuple(namespace(U).triu_indices(size, size, 1, device=U.device))
                if is_torch(U)
                else np.triu_indices(size, k=1)
            )
        return known[size]

    return places


def _tile_shape(A: Array) -> tuple[int, int]:
    if not is_torch(A):
        return NUMPY_TILE
    return TORCH_TILE if array_api_compat.device(A).type == "cpu" else CUDA_TILE


def _size(span: slice) -> int:
    return int(span.stop - span.start)
