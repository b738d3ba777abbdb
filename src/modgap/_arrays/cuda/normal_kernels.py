"""Kernels in Triton that draw the normal numbers of NumPy's default generator on a GPU.

NumPy draws them one after the other: a number of 32 bits of PCG64 is one normal number in 98.5 of
100 cases (Marsaglia and Tsang's ziggurat, 2000), and in the others more of them are used up. Here
all bits are made at once, every place is looked at as if a normal number began there, and places
that were used up by one before them are passed over.
"""
# mypy: disable-error-code="no-untyped-def,index"

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _times(a_high, a_low, b_high, b_low):
    """The product of two numbers of 128 bits, its lower 128 bits."""
    return tl.umulhi(a_low, b_low) + a_low * b_high + a_high * b_low, a_low * b_low


@triton.jit
def _jump(high, low, inc_high, inc_low, jumps, where):
    """The state of PCG64 after a jump, which is a · state + c · increment."""
    a_high = tl.load(jumps + 4 * where).to(tl.uint64, bitcast=True)
    a_low = tl.load(jumps + 4 * where + 1).to(tl.uint64, bitcast=True)
    c_high = tl.load(jumps + 4 * where + 2).to(tl.uint64, bitcast=True)
    c_low = tl.load(jumps + 4 * where + 3).to(tl.uint64, bitcast=True)
    first_high, first_low = _times(a_high, a_low, high, low)
    second_high, second_low = _times(c_high, c_low, inc_high, inc_low)
    found = first_low + second_low
    carried = (found < first_low).to(tl.uint64)
    return first_high + second_high + carried, found


@triton.jit
def raw_bits(states, far, near, bits, n_bits, COUNT: tl.constexpr):
    """The stream of 32 bits of every generator; each program makes COUNT numbers of 64."""
    part, own = tl.program_id(0), tl.program_id(1)
    held = states + 4 * own
    high = tl.load(held).to(tl.uint64, bitcast=True)
    low = tl.load(held + 1).to(tl.uint64, bitcast=True)
    inc_high = tl.load(held + 2).to(tl.uint64, bitcast=True)
    inc_low = tl.load(held + 3).to(tl.uint64, bitcast=True)
    high, low = _jump(high, low, inc_high, inc_low, far, part)
    i = tl.arange(0, COUNT)
    high, low = _jump(high, low, inc_high, inc_low, near, i)
    mixed, turn = high ^ low, high >> 58
    found = (mixed >> turn) | (mixed << ((64 - turn) & 63))
    place = 2 * (part * COUNT + i)
    line = bits + own.to(tl.int64) * n_bits + place
    tl.store(line, (found & 0xFFFFFFFF).to(tl.uint32).to(tl.int32, bitcast=True), place < n_bits)
    second = (found >> 32).to(tl.uint32).to(tl.int32, bitcast=True)
    tl.store(line + 1, second, place + 1 < n_bits)


@triton.jit
def _share(bits, place, mask):
    """The bits at a place as a number from 0 to 1, as NumPy makes a float32 of them."""
    drawn = tl.load(bits + place, mask=mask, other=0).to(tl.uint32, bitcast=True)
    return (drawn >> 8).to(tl.float32) * 5.9604644775390625e-08


@triton.jit
def as_if_begun(
    bits, limits, widths, heights, values, used, n_bits, edge, inverse_edge,
    PAIRS: tl.constexpr, COUNT: tl.constexpr,
):  # fmt: skip
    """For every place: the normal number that would begin there, and how many places it uses.

    ``used`` is that, below zero where nothing comes of them and NumPy starts anew. What would use
    more than 1 + 2 · PAIRS places is 127.
    """
    line = tl.program_id(1).to(tl.int64) * n_bits
    place = tl.program_id(0) * COUNT + tl.arange(0, COUNT)
    inside = place < n_bits
    bits += line
    drawn = tl.load(bits + place, mask=inside, other=0).to(tl.uint32, bitcast=True)
    layer = (drawn & 0xFF).to(tl.int32)
    size = ((drawn >> 9) & 0x7FFFFF).to(tl.int32)
    value = size.to(tl.float32) * tl.load(widths + layer)
    value = tl.where(((drawn >> 8) & 1) == 1, -value, value)
    count = tl.full([COUNT], 1, dtype=tl.int32)
    rare = inside & (size >= tl.load(limits + layer))
    if tl.sum(rare.to(tl.int32)) > 0:
        # Between two layers, where the curve itself decides.
        wedge = rare & (layer > 0)
        share = _share(bits, place + 1, wedge & (place + 1 < n_bits))
        below = tl.load(heights + layer)
        above = tl.load(heights + tl.maximum(layer - 1, 0))
        wide = value.to(tl.float64)
        under = ((above - below) * share + below).to(tl.float64) < tl.exp(-0.5 * wide * wide)
        count = tl.where(wedge, tl.where(under, 2, -2), count)
        # Beyond the last layer.
        tail = rare & (layer == 0)
        if tl.sum(tail.to(tl.int32)) > 0:
            count = tl.where(tail, 127, count)
            open_still = tail
            for pair in range(PAIRS):
                at = place + 1 + 2 * pair
                wanted = open_still & (at + 1 < n_bits)
                first = 1.0 - _share(bits, at, wanted).to(tl.float64)
                second = 1.0 - _share(bits, at + 1, wanted).to(tl.float64)
                x = -inverse_edge * tl.log(first).to(tl.float32)
                y = -tl.log(second).to(tl.float32)
                done = wanted & (y + y > x * x)
                far = edge + x
                value = tl.where(done, tl.where(((size >> 8) & 1) == 1, -far, far), value)
                count = tl.where(done, 3 + 2 * pair, count)
                open_still = open_still & (done == 0)
    tl.store(values + line + place, value, mask=inside)
    tl.store(used + line + place, count.to(tl.int8), mask=inside)


@triton.jit
def settle(used, before, after, changed, n_bits, REACH: tl.constexpr, COUNT: tl.constexpr):
    """What is used from each place on, 0 where no number begins; given what was thought before.

    ``changed`` counts the places that are not as before.
    """
    line = tl.program_id(1).to(tl.int64) * n_bits
    place = tl.program_id(0) * COUNT + tl.arange(0, COUNT)
    inside = place < n_bits
    taken = tl.zeros([COUNT], dtype=tl.int32)
    for back in range(1, REACH):
        there = inside & (place >= back)
        count = tl.load(before + line + place - back, mask=there, other=0).to(tl.int32)
        taken += (tl.abs(count) > back).to(tl.int32)
    own = tl.load(used + line + place, mask=inside, other=0)
    own = tl.where(taken == 0, own, tl.zeros_like(own))
    was = tl.load(before + line + place, mask=inside, other=0)
    tl.store(after + line + place, own, mask=inside)
    differ = tl.sum((own != was).to(tl.int32))
    tl.atomic_add(changed, differ, mask=differ > 0, sem="relaxed")


@triton.jit
def count_drawn(begun, counts, n_bits, COUNT: tl.constexpr):
    """How many numbers are drawn in each part of the places."""
    part, own = tl.program_id(0), tl.program_id(1)
    place = part * COUNT + tl.arange(0, COUNT)
    used = tl.load(begun + own.to(tl.int64) * n_bits + place, mask=place < n_bits, other=0)
    tl.store(counts + own * tl.num_programs(0) + part, tl.sum((used > 0).to(tl.int32)))


@triton.jit
def put_in_order(
    values, begun, before, out, n_bits, n_wanted, scale, COUNT: tl.constexpr
):  # fmt: skip
    """The numbers that are drawn, times a scale, one after the other.

    ``before`` counts those of each part and of all parts in front of it.
    """
    part, own = tl.program_id(0), tl.program_id(1)
    place = part * COUNT + tl.arange(0, COUNT)
    at = own.to(tl.int64) * n_bits + place
    drawn = tl.load(begun + at, mask=place < n_bits, other=0) > 0
    counts = drawn.to(tl.int32)
    first = tl.load(before + own * tl.num_programs(0) + part) - tl.sum(counts)
    rank = first + tl.cumsum(counts, axis=0) - 1
    value = tl.load(values + at, mask=drawn, other=0.0) * scale
    tl.store(out + own.to(tl.int64) * n_wanted + rank, value, mask=drawn & (rank < n_wanted))
