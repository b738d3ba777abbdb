"""One affine map of rows: what every correction comes down to for a modality and a role."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import array_api_compat
import numpy as np

from modgap.arrays import (
    as_float,
    is_torch,
    like,
    namespace,
    row_blocks,
    rows_per_block,
    wide_dtype,
)
from modgap.core.checks import Array, InputValueError, check_all_finite, check_finite, check_values
from modgap.core.results import unchecked
from modgap.corrections.row_map import RowMap, out_of_range

# Scratch of one block in wide precision: it is gone over several times, so it stays in the cache.
_BLOCK_BYTES = 4 * 2**20
# Squares of entries between these do not leave the range of floats, on a device without float64
# either.
_SHORT, _LONG = 1e-12, 1e12
# What rounding leaves of an offset that is taken off again, in units of its precision.
_ROUNDING = 450


@dataclass(frozen=True, eq=False)
class Affine(RowMap):
    """v ↦ scale · matrix v + offset.

    ``normalise`` brings v to unit length first, so that rows of any length come out alike;
    ``renormalise`` brings the result to unit length. ``blocks`` repeats that side by side, once
    for each factor and multiplied by it. ``matrix`` is (d_out, d_in) or None for the identity,
    ``offset`` (d_out,) or None for zero.
    Held in float64 NumPy arrays; rows keep their own library, device and precision.

    >>> shift = Affine(dim_in=2, offset=np.array([1.0, 0.0]))
    >>> shift(np.array([[0.0, 1.0]])).tolist()
    [[1.0, 1.0]]
    """

    dim_in: int
    matrix: np.ndarray | None = None
    scale: float = 1.0
    offset: np.ndarray | None = None
    renormalise: bool = False
    blocks: tuple[float, ...] | None = None
    normalise: bool = False

    def steps(self) -> list[str]:
        """What is done to a row, in order, in a few letters each; none where it is left alone."""
        found = ["unit length"] if self.normalise else []
        if self.matrix is not None:
            found.append(f"× matrix {self.matrix.shape[0]} × {self.matrix.shape[1]}")
        if self.scale != 1.0:
            found.append(f"× {self.scale:.4g}")
        if self.offset is not None:
            found.append(f"+ vector of length {float(np.linalg.norm(self.offset)):.3g}")
        if self.renormalise:
            found.append("unit length")
        if self.blocks is not None:
            factors = ", ".join(f"{factor:.3g}" for factor in self.blocks)
            found.append(f"{len(self.blocks)} times, × {factors}")
        return found

    def __post_init__(self) -> None:
        if self.blocks is not None:
            object.__setattr__(self, "blocks", tuple(float(factor) for factor in self.blocks))
            if not self.blocks:
                raise InputValueError("blocks must hold at least one factor, got none.")
        for name in ("matrix", "offset"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, np.asarray(value, dtype=np.float64))
        check_finite(self.scale, "The scale of a map")
        if self.matrix is not None and self.matrix.shape[1:] != (self.dim_in,):
            raise InputValueError(
                f"The matrix of a map of {self.dim_in} columns must be (d_out, {self.dim_in}), "
                f"got shape {self.matrix.shape}."
            )
        if self.offset is not None and self.offset.shape != (self._dim_mapped,):
            raise InputValueError(
                f"The offset of a map to {self._dim_mapped} columns must be "
                f"({self._dim_mapped},), got shape {self.offset.shape}."
            )
        check_maps([self])

    @classmethod
    def fitted(
        cls,
        dim_in: int,
        matrix: np.ndarray | None = None,
        scale: float = 1.0,
        offset: np.ndarray | None = None,
        **more: Any,
    ) -> Affine:
        """A map that a corrector of ours made; `check_maps` looks at those of a correction."""
        numbers = {
            name: None if value is None else np.asarray(value, dtype=np.float64)
            for name, value in (("matrix", matrix), ("offset", offset))
        }
        return unchecked(cls, dim_in=dim_in, scale=scale, **numbers, **more)

    @property
    def _dim_mapped(self) -> int:
        """Number of columns before they are repeated in blocks."""
        return self.dim_in if self.matrix is None else int(self.matrix.shape[0])

    @property
    def dim_out(self) -> int:
        """Number of columns of what comes out."""
        return self._dim_mapped * (1 if self.blocks is None else len(self.blocks))

    @property
    def is_identity(self) -> bool:
        """Whether rows come out as they went in."""
        plain = self.matrix is None and self.offset is None and self.blocks is None
        return plain and self.scale == 1.0 and not (self.normalise or self.renormalise)

    @property
    def keeps_directions(self) -> bool:
        """Whether a row comes out at most longer or shorter."""
        plain = self.matrix is None and not self._moves and self.blocks is None
        return plain and self.scale > 0

    @property
    def gives_unit_rows(self) -> bool:
        """Whether every row comes out at unit length."""
        if self.blocks is not None:
            return False
        return self.renormalise or (self.normalise and not self._moves and self._keeps_norms())

    @property
    def ends_at_unit_length(self) -> bool:
        """Whether dividing rows by their lengths is the last step, which refuses bad ones."""
        plain = self.matrix is None and self.offset is None and self.scale == 1.0
        return self.blocks is None and (self.renormalise or (self.normalise and plain))

    @property
    def _moves(self) -> bool:
        return self.offset is not None and bool(np.any(self.offset))

    @np.errstate(over="ignore", invalid="ignore")  # what leaves the range is refused after it
    def map_checked(
        self,
        rows: Array,
        name: str = "rows",
        *,
        first_row: int = 0,
        keys: np.ndarray | None = None,
    ) -> Array:
        """The mapped rows; ``keys`` do not matter."""
        if self.is_identity:
            return as_float(rows)
        xp, device, dtype = namespace(rows), array_api_compat.device(rows), wide_dtype(rows)
        if not is_torch(rows) and rows.dtype == np.float16:
            dtype = np.dtype(np.float32)  # which is far finer than the rows
        matrix, offset = (
            None if part is None else like(part, rows, dtype) for part in (self.matrix, self.offset)
        )
        # A row that the offset brings to the origin is off it by what rounding left.
        rounding = 0.0
        if self.offset is not None:
            rounding = _ROUNDING * float(xp.finfo(dtype).eps) * float(np.max(np.abs(self.offset)))
        size = rows_per_block(max(self.dim_in, self.dim_out), budget=_BLOCK_BYTES)
        shape = (rows.shape[0], self.dim_out)
        out = xp.empty(shape, dtype=as_float(rows[:1]).dtype, device=device)
        # Blocks of NumPy have one room: new memory for each would take as long as the map.
        room = None if is_torch(rows) else np.empty((min(size, len(rows)), self.dim_in), dtype)
        for block in row_blocks(rows.shape[0], size):
            if room is None:
                mapped = xp.astype(rows[block], dtype, copy=True)
            else:
                mapped = room[: block.stop - block.start]
                mapped[...] = rows[block]
            if self.normalise:
                _to_unit(mapped, first_row + block.start, name, "has length zero")
            if matrix is not None:
                mapped = mapped @ matrix.T
            if self.scale != 1.0:
                mapped *= self.scale
            if offset is not None:
                mapped += offset
            if self.renormalise:
                _to_unit(mapped, first_row + block.start, name, "lands on the origin", rounding)
            if self.blocks is not None:
                mapped = xp.concat([mapped * factor for factor in self.blocks], axis=1)
            out[block] = mapped
        return out

    def dense(self) -> Affine:
        """The same map with its scale and blocks written out in the matrix and the offset."""
        if self.blocks is None and self.scale == 1.0:
            return self
        if self.renormalise and self.blocks is not None:
            raise InputValueError("A map that renormalises its blocks has no dense form.")
        factors = self.blocks or (1.0,)
        matrix = np.eye(self.dim_in) if self.matrix is None else self.matrix
        offset = None
        if self.offset is not None:
            offset = np.concatenate([factor * self.offset for factor in factors])
        stacked = np.vstack([factor * self.scale * matrix for factor in factors])
        return Affine(
            self.dim_in, stacked, offset=offset, renormalise=self.renormalise,
            normalise=self.normalise,
        )  # fmt: skip

    def then(self, second: Affine) -> Affine:
        """The map that applies this one first and ``second`` after it.

        A map that renormalises can only be followed by one without offset that renormalises too or
        is orthogonal: everything else is not affine any more. One that normalises first can only
        follow a map that gives unit rows, or one that turns and scales them.
        """
        if second.dim_in != self.dim_out:
            raise InputValueError(
                f"Maps can follow each other when their dimensions meet: the first gives "
                f"{self.dim_out} columns, the second takes {second.dim_in}."
            )
        if second.normalise:
            return self._then_normalised(second)
        if second.blocks is not None:
            return replace(self.then(replace(second, blocks=None)), blocks=second.blocks)
        if self.blocks is not None:
            return self.dense().then(second)
        if self.renormalise and not second.is_identity:
            keeps_unit_length = second.renormalise or second._keeps_norms()
            if second._moves or second.scale == 0 or not keeps_unit_length:
                raise InputValueError(
                    "A map that renormalises can be followed only by one without offset that "
                    "renormalises too or keeps every length. Apply the two one after the other."
                )
        matrix = second.matrix
        if self.matrix is not None:
            matrix = self.matrix if matrix is None else matrix @ self.matrix
        offset = self.offset
        if offset is not None:
            if second.matrix is not None:
                offset = second.matrix @ offset
            offset = offset * second.scale
        if second.offset is not None and not self.renormalise:
            offset = second.offset if offset is None else offset + second.offset
        return Affine(
            dim_in=self.dim_in,
            matrix=matrix,
            scale=self.scale * second.scale,
            offset=offset,
            renormalise=self.renormalise or second.renormalise,
            normalise=self.normalise,
        )

    def _then_normalised(self, second: Affine) -> Affine:
        """This map first, where ``second`` begins by bringing its rows to unit length."""
        after = replace(second, normalise=False)
        if self.gives_unit_rows:
            return self.then(after)
        # The unit row of ±c R v, R a rotation and c > 0, is ±R times that of v.
        turned = Affine(self.dim_in, self.matrix, float(np.sign(self.scale)), normalise=True)
        if self.blocks is None and not self._moves and turned.gives_unit_rows:
            return turned.then(after)
        raise InputValueError(
            "A map that brings rows to unit length first can follow only one that gives unit rows "
            "or turns and scales them. Apply the two one after the other."
        )

    def _keeps_norms(self) -> bool:
        if self.matrix is None:
            return abs(self.scale) == 1.0
        gram = self.scale**2 * self.matrix.T @ self.matrix
        return bool(np.allclose(gram, np.eye(self.dim_in), atol=1e-9))

    def inverse(self) -> Affine:
        """The map that takes rows back, where there is one.

        Rows that this map brings to unit length first come back at unit length.
        """
        if self.renormalise:
            raise InputValueError(
                "A correction that brings rows to unit length has no inverse: lengths are lost. "
                "Keep the original rows to undo it."
            )
        if self.blocks is not None:
            raise InputValueError("A map that repeats its columns in blocks has no inverse.")
        if self.scale == 0:
            raise InputValueError("A map of scale 0 has no inverse.")
        if self.matrix is None:
            offset = None if self.offset is None else -self.offset / self.scale
            return Affine(self.dim_in, None, 1 / self.scale, offset)
        if self.dim_out != self.dim_in or np.linalg.cond(self.matrix) > 1e12:
            raise InputValueError(
                f"A map of {self.dim_in} to {self.dim_out} columns has an inverse only when its "
                "matrix is square and of full rank."
            )
        back = np.linalg.inv(self.matrix)
        offset = None if self.offset is None else -(back @ self.offset) / self.scale
        return Affine(self.dim_in, back, 1 / self.scale, offset)


def check_maps(documents: Iterable[Affine], queries: Iterable[Affine] = ()) -> None:
    """Refuse maps of numbers that are not finite, and those of different dimensions.

    Those of ``queries`` may take rows of a dimension of their own: those of a newer model.
    """
    takes = [*documents], [*queries]
    every = [*takes[0], *takes[1]]
    for affine in every:
        for name in ("scale", "matrix", "offset", "blocks"):
            value = getattr(affine, name)
            if value is not None and not np.all(np.isfinite(value)):
                check_all_finite(np.asarray(value), f"The {name} of a map")
    for maps in takes:
        if len({affine.dim_in for affine in maps}) > 1:
            raise InputValueError("All maps of a correction must take rows of one dimension.")
    if len({affine.dim_out for affine in every}) > 1:
        raise InputValueError("All maps of a correction must give rows of one dimension.")


def _to_unit(rows: Array, first_row: int, name: str, what: str, rounding: float = 0.0) -> None:
    """Bring rows to unit length where they lie.

    One whose largest entry is at most ``rounding`` has no direction.
    """
    xp = namespace(rows)
    squares = xp.linalg.vecdot(rows, rows)[:, None]
    # Within these no square has left the range of floats, and some entry is above the rounding.
    least = max(_SHORT**2, rows.shape[1] * rounding**2)
    if not bool(xp.all((squares > least) & (squares < _LONG**2))):
        if not bool(xp.all(xp.isfinite(rows))):
            advice = out_of_range(rows)
            check_values(rows, f"corrected {name}", first_row=first_row, advice=advice)
        _refuse_no_direction(rows, first_row, name, what, rounding)
        largest = _largest(rows)
        if bool(xp.any((largest < _SHORT) | (largest > _LONG))):
            rows /= largest
        squares = xp.linalg.vecdot(rows, rows)[:, None]
    rows /= xp.sqrt(squares)


def _largest(rows: Array) -> Array:
    """The largest entry of each row, (n, 1)."""
    xp = namespace(rows)
    return xp.maximum(xp.max(rows, axis=1), -xp.min(rows, axis=1))[:, None]


def _refuse_no_direction(
    rows: Array, first_row: int, name: str, what: str, rounding: float
) -> None:
    xp, largest = namespace(rows), _largest(rows)
    if bool(xp.any(largest <= rounding)):
        row = first_row + int(xp.argmin(largest[:, 0]))
        raise InputValueError(
            f"Row {row} of {name} {what} and cannot be brought to unit length. "
            "Drop it, or use a correction that does not bring rows to unit length."
        )


def without_last(affine: Affine) -> Affine:
    """The map of rows that have one column more, which is dropped."""
    matrix = np.eye(affine.dim_in) if affine.matrix is None else affine.matrix
    wider = np.pad(matrix, ((0, 0), (0, 1)))
    return replace(affine, dim_in=affine.dim_in + 1, matrix=wider)


def slope(stored: Affine, asked: Affine) -> float | None:
    """a > 0 where the product of the mapped rows is a · (q · v) + b(q); else None."""
    if stored.renormalise or asked.renormalise or stored.normalise != asked.normalise:
        return None
    if stored.dim_in != asked.dim_in:
        return None
    if stored.matrix is None and asked.matrix is None and asked.offset is None:
        factors = zip(stored.blocks or (1.0,), asked.blocks or (1.0,), strict=True)
        found = stored.scale * asked.scale * sum(a * b for a, b in factors)
        return found if found > 0 else None
    stored, asked = stored.dense(), asked.dense()
    matrices = [np.eye(m.dim_in) if m.matrix is None else m.matrix for m in (stored, asked)]
    product = matrices[0].T @ matrices[1]
    found = float(np.trace(product)) / len(product)
    off = float(np.abs(product - found * np.eye(len(product))).max())
    # An offset of the query would favour the documents that lie along it.
    favoured = 0.0 if asked.offset is None else float(np.abs(matrices[0].T @ asked.offset).max())
    return found if found > 0 and max(off, favoured) <= 1e-9 * found else None
