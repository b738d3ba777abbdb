"""The loss of moved rows, at many moves from one matrix product."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from modgap.arrays import (
    LogSums,
    Scratch,
    Tile,
    as_float,
    cached_blocks,
    is_torch,
    namespace,
    passed,
    product_pass,
    row_norms,
    widen,
)
from modgap.core.checks import Array, InputValueError
from modgap.core.threads import in_threads
from modgap.measures.loss import (
    LossTerms,
    logits_of,
    numbered_batches,
    stack_terms,
    terms_of,
    terms_of_logits,
)


@dataclass(frozen=True)
class Move:
    """Cosines after a move: (S + a_i + b_j + c) / (norm_i · norm_j)."""

    a: Array
    b: Array
    c: float
    norm_x: Array
    norm_y: Array

    def cosines(self, products: Array, where: Callable[[Array, int], Array], out: Array) -> Array:
        """Moved cosines of some products, into ``out``.

        ``where`` picks and shapes what belongs to their rows (0) and columns (1).
        """
        xp = namespace(products)
        parts = (
            where(self.a, 0) + self.c, where(self.b, 1),
            1 / where(self.norm_x, 0), 1 / where(self.norm_y, 1),
        )  # fmt: skip
        a, b, x, y = (xp.astype(part, products.dtype) for part in parts)
        moved = xp.add(products, a, out=out)
        moved += b
        moved *= x
        moved *= y
        return moved


def moved_losses(
    X: Array,
    Y: Array,
    moves: Sequence[Move],
    temperatures: Sequence[float],
    batch_size: int | None,
) -> list[list[LossTerms]]:
    """Loss terms for each move (outer) and temperature (inner), from one product per block."""
    xp = namespace(X)
    n = X.shape[0]
    # Beside a row of length 1, products of rows this short leave the range of float32.
    if min(float(xp.min(row_norms(A))) for A in (X, Y)) < 1e-12:
        X, Y = widen(X), widen(Y)
    if batch_size is None or batch_size >= n:
        every = _MovedLosses(moves, [[logits_of(X, Y, t) for t in temperatures] for _ in moves])
        product_pass(X, Y, [every])
        return [[terms_of_logits(logits) for logits in row] for row in every.logits]
    parts: list[list[list[Any]]] = [[[] for _ in temperatures] for _ in moves]
    scratch = Scratch()

    def look(stack: tuple[slice, Array, Array]) -> tuple[int, list[list[Any]]]:
        rows, A, B = stack
        # With the batches last, every step runs along memory.
        products = xp.permute_dims(A @ xp.matrix_transpose(B), (1, 2, 0))
        products = xp.asarray(products, copy=True) if is_torch(X) else products.copy()

        def where(values: Array, side: int) -> Array:
            shaped = values[rows].reshape(A.shape[:2]).T
            return shaped[:, None, :] if side == 0 else shaped[None, :, :]

        out = scratch.shaped(products, 0)
        return rows.stop - rows.start, [
            stack_terms(move.cosines(products, where, out), temperatures) for move in moves
        ]

    stacks = numbered_batches(X, Y, batch_size)
    for count, found in in_threads(look, stacks, 1 if is_torch(X) else None):
        for lists, terms in zip(parts, found, strict=True):
            for held, part in zip(lists, terms, strict=True):
                held.append(part)
        passed(count / n)
    return [[_joined(found) for found in lists] for lists in parts]


class _MovedLosses:
    """The losses of every move, and for it of every temperature; a consumer of products."""

    def __init__(self, moves: Sequence[Move], logits: list[list[LogSums]]) -> None:
        self._moves, self.logits = moves, logits

    def look(self, tile: Tile) -> list[list[Any]]:
        def where(values: Array, side: int) -> Array:
            return values[tile.rows][:, None] if side == 0 else values[tile.columns][None, :]

        told = []
        for move, row in zip(self._moves, self.logits, strict=True):
            moved = tile.moved(move.cosines(tile.products, where, tile.scratch(1)))
            told.append([logits.look(moved) for logits in row])
        return told

    def add(self, told: list[list[Any]], tile: Tile) -> None:
        for row, found in zip(self.logits, told, strict=True):
            for logits, what in zip(row, found, strict=True):
                logits.add(what, tile)


def _joined(parts: Iterable[tuple[Array, ...]]) -> LossTerms:
    columns = [list(column) for column in zip(*parts, strict=True)]
    xp = namespace(columns[0][0])
    return terms_of(*(xp.concat([part.reshape(-1) for part in column]) for column in columns))


def moved_norms(squares: Array, mixed: Array, step_squares: float) -> Array:
    """Norms of moved rows from the terms of their squares; norms lost to rounding are refused."""
    xp = namespace(squares)
    moved = squares + mixed + step_squares
    if bool(xp.any(moved <= 1e-14 * (squares + step_squares))):
        raise InputValueError(
            "A step moves a row onto the origin, where it has no direction. "
            "Choose steps at which every moved row keeps a length."
        )
    return xp.sqrt(moved)


def scaled_rows(A: Array) -> Array:
    """The rows over their largest norm: no cosine changes, and no product overflows."""
    A = as_float(A)
    largest = float(namespace(A).max(row_norms(A)))
    out = namespace(A).empty_like(A)
    for rows in cached_blocks(A):
        out[rows] = namespace(A).astype(widen(A[rows]) / largest, A.dtype)
    return out
