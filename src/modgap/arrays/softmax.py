"""Log-sum-exp and softmax over the rows and columns of logits whose products come in tiles.

How it works. Of each row and column, the largest logit so far and Σ exp relative to it are held.
A tile gives both of its own; where its largest is larger, what was held is lowered to it.
Numbers that are added to whole rows or columns (`Offsets`) are weights of the exponentials where
they hardly differ; else they are added to the products before these are compared. A second pass
over the same products (`SoftmaxSums`) sums the shares, which need the sums of the first.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from modgap.arrays.base import filled, namespace, wide_dtype, widen
from modgap.arrays.product import Tile
from modgap.core.checks import Array


@dataclass(frozen=True)
class Offsets:
    """One number for each row or column of logits: scale · added + log(weights) + a constant.

    ``added`` goes to the products in their precision, None where the numbers hardly differ; what
    that rounds away, or all of it, is in the weights of the exponentials.
    """

    added: Array | None
    weights: Array

    @classmethod
    def of(cls, values: Array | None, count: int, scale: float, products_of: Array) -> Offsets:
        """Of wide ``values``; None is 0 for all ``count``. Products are those of such rows."""
        xp, dtype = namespace(products_of), products_of.dtype
        if values is None:
            return cls(None, filled(1.0, count, products_of, dtype))
        low, high = float(xp.min(values)), float(xp.max(values))
        if high - low <= 1:
            return cls(None, xp.astype(xp.exp(values - low), dtype))
        added = xp.astype(values / scale, dtype)
        lost = xp.clip(values - scale * widen(added), -1.0, 1.0)
        return cls(added, xp.astype(xp.exp(lost), dtype))


class LogSums:
    """log Σ exp over each row and each column of the logits scale · P_ij + a_i + b_j.

    A consumer of the products P of the rows of X and Y.
    """

    def __init__(
        self, X: Array, Y: Array, scale: float, a: Array | None = None, b: Array | None = None
    ) -> None:
        n, m = X.shape[0], Y.shape[0]
        self.scale, self.a, self.b = scale, a, b
        self.rows, self.columns = Offsets.of(a, n, scale, X), Offsets.of(b, m, scale, Y)
        # Of rows, and of columns: the largest product with its offset, and Σ exp relative to it.
        self.tops = [filled(-math.inf, count, X, X.dtype) for count in (n, m)]
        self.sums = [filled(0.0, count, X, wide_dtype(X)) for count in (n, m)]
        self.diagonal = filled(-math.inf, min(n, m), X, X.dtype)

    def look(self, tile: Tile) -> list[Any]:
        """Largest and sum of the exponentials in each row and column, and the diagonal."""
        own = None
        if tile.diagonal is not None:
            _, i, j = tile.diagonal
            own = tile.products[i, j]
        return [self._look(tile, 0), self._look(tile, 1), own]

    def _look(self, tile: Tile, axis: int) -> tuple[Array, Array]:
        xp = namespace(tile.products)
        values, weights = self.moved(tile, axis)
        if values is tile.products:
            tops = tile.column_tops if axis == 0 else tile.row_tops
        else:
            tops = xp.max(values, axis=axis)
        return tops, weighted_exp(tile, values, tops, axis, self.scale, weights)

    def moved(self, tile: Tile, axis: int) -> tuple[Array, Array]:
        """Products plus the offsets that vary along an axis, and the weights that go with them."""
        side, span = (self.rows, tile.rows) if axis == 0 else (self.columns, tile.columns)
        if side.added is None:
            return tile.products, side.weights[span]
        added = side.added[span][:, None] if axis == 0 else side.added[span][None, :]
        room = tile.scratch()
        return namespace(room).add(tile.products, added, out=room), side.weights[span]

    def add(self, told: list[Any], tile: Tile) -> None:
        """Take in what a tile told."""
        xp = namespace(self.diagonal)
        # Sums over axis 0 are of the columns.
        for place, span, (tops, sums) in ((1, tile.columns, told[0]), (0, tile.rows, told[1])):
            before, held = self.tops[place][span], self.sums[place][span]
            top = xp.maximum(before, tops)
            sums = held * self.lowered(before - top) + widen(sums) * self.lowered(tops - top)
            self.tops[place][span], self.sums[place][span] = top, sums
        if tile.diagonal is not None:
            self.diagonal[tile.diagonal[0]] = told[2]

    def lowered(self, difference: Array) -> Array:
        """exp(scale · difference), in wide precision."""
        return namespace(difference).exp(widen(difference) * self.scale)

    def own(self) -> Array:
        """The logit of each pair i = i."""
        own = widen(self.diagonal) * self.scale
        for offset in (self.a, self.b):
            own = own if offset is None else own + offset
        return own

    def losses(self) -> tuple[Array, Array]:
        """The log-sum-exp of each row, and of each column, less the logit of its own pair.

        As a difference of nearby numbers, however large the logits are.
        """
        xp = namespace(self.diagonal)
        found = []
        for place, side in ((0, self.columns), (1, self.rows)):
            below = widen(self.tops[place] - self._own_moved(side)) * self.scale
            found.append(below + xp.log(self.sums[place]) - xp.log(widen(side.weights)))
        return found[0], found[1]

    def hits(self) -> tuple[Array, Array]:
        """Whether each pair's own logit is the largest of its row, and of its column."""
        return (
            self._own_moved(self.columns) >= self.tops[0],
            self._own_moved(self.rows) >= self.tops[1],
        )

    def _own_moved(self, side: Offsets) -> Array:
        return self.diagonal if side.added is None else self.diagonal + side.added


class SoftmaxSums:
    """Sums of the softmax of logits: over rows of that along columns, and the other way round.

    A consumer of the same products as the ``LogSums`` that it starts from.
    """

    def __init__(self, logits: LogSums) -> None:
        self._logits = logits
        xp, dtype = namespace(logits.diagonal), logits.diagonal.dtype
        self._weights = [xp.astype(1 / sums, dtype) for sums in logits.sums]
        self._totals = [namespace(sums).zeros_like(sums) for sums in logits.sums]

    def look(self, tile: Tile) -> list[Array]:
        """The sums of each column and of each row."""
        return [self._look(tile, 0), self._look(tile, 1)]

    def _look(self, tile: Tile, axis: int) -> Array:
        # Shares of a row are summed down each column, so what is summed over varies along axis 0.
        logits = self._logits
        values, side_weights = logits.moved(tile, 1 - axis)
        span = tile.rows if axis == 0 else tile.columns
        tops, weights = logits.tops[axis][span], self._weights[axis][span]
        sums = weighted_exp(tile, values, tops, 1 - axis, logits.scale, weights, over=axis)
        return sums * side_weights

    def add(self, told: list[Array], tile: Tile) -> None:
        """Take in what a tile told."""
        for place, span, sums in ((1, tile.columns, told[0]), (0, tile.rows, told[1])):
            self._totals[place][span] += widen(sums)

    def row_totals(self) -> Array:
        """For each row the sum of its shares of every column."""
        return self._totals[0]

    def column_totals(self) -> Array:
        """For each column the sum of its shares of every row."""
        return self._totals[1]


def weighted_exp(
    tile: Tile,
    values: Array,
    shifts: Array,
    axis: int,
    scale: float,
    weights: Array,
    over: int | None = None,
) -> Array:
    """Σ w exp(scale · (values − shifts)), the shifts being one for each line across an axis.

    Summed over that axis, or over another.
    """
    xp = namespace(values)
    shifts = shifts[None, :] if axis == 0 else shifts[:, None]
    room = xp.subtract(values, shifts, out=tile.scratch())
    room *= scale
    xp.exp(room, out=room)
    over = axis if over is None else over
    return weights @ room if over == 0 else room @ weights
