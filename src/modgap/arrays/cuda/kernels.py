"""Kernels in Triton: each reads a block of scores once."""
# mypy: disable-error-code="no-untyped-def,index"

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def count_above_kernel(
    scores, n_rows, n_columns, first_row, first_column, total_columns,
    upper_x, lower_x, bias_x, above_x, near_x,
    upper_y, lower_y, bias_y, above_y, near_y,
    n_near, capacity,
    BIASED: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, STEPS: tl.constexpr,
):  # fmt: skip
    """Count, for every row and every column of a block, the scores above its upper bound.

    Those between the bounds are listed in ``near_x`` and ``near_y`` as row · total_columns +
    column, as far as the capacity reaches; ``n_near`` counts them all.
    """
    own = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    in_rows = own < n_rows
    i = first_row + own
    upper_i = tl.load(upper_x + i, mask=in_rows, other=float("inf"))
    lower_i = tl.load(lower_x + i, mask=in_rows, other=float("inf"))
    bias_i = tl.load(bias_x + i, mask=in_rows, other=0.0) if BIASED else 0.0
    count_i = tl.zeros([ROWS], dtype=tl.int32)
    for step in range(STEPS):
        other = (tl.program_id(1) * STEPS + step) * COLUMNS + tl.arange(0, COLUMNS)
        in_columns = other < n_columns
        j = first_column + other
        upper_j = tl.load(upper_y + j, mask=in_columns, other=float("inf"))
        lower_j = tl.load(lower_y + j, mask=in_columns, other=float("inf"))
        inside = in_rows[:, None] & in_columns[None, :]
        place = own[:, None] * n_columns + other[None, :]
        block = tl.load(scores + place, mask=inside, other=-float("inf"))
        asked_by_x, asked_by_y = block, block
        if BIASED:
            bias_j = tl.load(bias_y + j, mask=in_columns, other=0.0)
            asked_by_x = block + bias_j[None, :]
            asked_by_y = block + bias_i[:, None]
        above_i = asked_by_x > upper_i[:, None]
        above_j = asked_by_y > upper_j[None, :]
        count_i += tl.sum(above_i.to(tl.int32), axis=1)
        count_j = tl.sum(above_j.to(tl.int32), axis=0)
        tl.atomic_add(above_y + j, count_j, mask=in_columns & (count_j > 0), sem="relaxed")
        near_i = (asked_by_x >= lower_i[:, None]) & (above_i == 0) & inside
        near_j = (asked_by_y >= lower_j[None, :]) & (above_j == 0) & inside
        if tl.sum((near_i | near_j).to(tl.int32)) > 0:
            pair = i[:, None].to(tl.int64) * total_columns + j[None, :]
            one = tl.full([ROWS, COLUMNS], 1, dtype=tl.int64)
            counter = n_near + tl.zeros([ROWS, COLUMNS], dtype=tl.int32)
            slot = tl.atomic_add(counter, one, mask=near_i, sem="relaxed")
            tl.store(near_x + slot, pair, mask=near_i & (slot < capacity))
            slot = tl.atomic_add(counter + 1, one, mask=near_j, sem="relaxed")
            tl.store(near_y + slot, pair, mask=near_j & (slot < capacity))
    tl.atomic_add(above_x + i, count_i, mask=in_rows & (count_i > 0), sem="relaxed")


@triton.jit
def best_of_moved(
    scores, biases, found, n_rows, n_columns, stride, first_row, total_rows, n_amounts,
    WHOLE: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """The column of the largest score + bias in each row, for each draw and each amount.

    The columns of one draw stand after those of the one before, ``stride`` in all. Of equal ones
    the first. ``WHOLE`` says that a tile holds all columns of a draw: every score is then read
    once, whatever the number of amounts.
    """
    draw = tl.program_id(1)
    own = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    in_rows = own < n_rows
    lines = scores + own[:, None].to(tl.int64) * stride + draw * n_columns
    i = tl.arange(0, COLUMNS)
    inside = in_rows[:, None] & (i < n_columns)[None, :]
    first_tile = tl.load(lines + i[None, :], mask=inside, other=-float("inf"))
    for amount in range(n_amounts):
        line = draw * n_amounts + amount
        bias = tl.load(biases + line * n_columns + i, mask=i < n_columns, other=0.0)
        best = first_tile + bias[None, :]
        where = i[None, :] + tl.zeros([ROWS, COLUMNS], dtype=tl.int32)
        if not WHOLE:
            for start in range(COLUMNS, n_columns, COLUMNS):
                j = start + i
                in_columns = j < n_columns
                bias = tl.load(biases + line * n_columns + j, mask=in_columns, other=0.0)
                inside = in_rows[:, None] & in_columns[None, :]
                tile = tl.load(lines + j[None, :], mask=inside, other=-float("inf"))
                moved = tile + bias[None, :]
                better = moved > best
                best = tl.where(better, moved, best)
                where = tl.where(better, j[None, :], where)
        top = tl.max(best, axis=1)
        first = tl.min(tl.where(best == top[:, None], where, n_columns), axis=1)
        tl.store(found + line * total_rows + first_row + own, first.to(tl.int64), mask=in_rows)


@triton.jit
def extremes_and_below(
    cosines, size, n_columns, diagonal, limit, lows, highs, below,
    VALUES: tl.constexpr, STEPS: tl.constexpr,
):  # fmt: skip
    """Least and largest of a part of a block, and how many are below a limit.

    Of a block on the diagonal, only what is right of it counts.
    """
    low = tl.full([VALUES], float("inf"), dtype=cosines.dtype.element_ty)
    high = tl.full([VALUES], -float("inf"), dtype=cosines.dtype.element_ty)
    count = tl.zeros([VALUES], dtype=tl.int32)
    part = tl.program_id(0)
    for step in range(STEPS):
        place = (part * STEPS + step) * VALUES + tl.arange(0, VALUES)
        inside = place < size
        values = tl.load(cosines + place, mask=inside, other=0.0)
        if diagonal:
            inside = inside & (place % n_columns > place // n_columns)
        low = tl.minimum(low, tl.where(inside, values, float("inf")))
        high = tl.maximum(high, tl.where(inside, values, -float("inf")))
        count += (inside & (values < limit)).to(tl.int32)
    tl.store(lows + part, tl.min(low, axis=0))
    tl.store(highs + part, tl.max(high, axis=0))
    tl.store(below + part, tl.sum(count, axis=0))
