"""What a GPU draws normal numbers with, followed by hand on the processor."""

from __future__ import annotations

import math

import numpy as np
import pytest

from modgap._arrays.cuda import normals


def one_by_one(seed: int, count: int) -> tuple[list[float], int]:
    """The normal numbers of a generator, step by step, and how many numbers of 32 bits it took."""
    limits, widths, heights = normals._layers()
    raw = np.random.default_rng(seed).bit_generator.random_raw(count + 100)
    bits = iter(raw.view(np.uint32).tolist())
    edge, used, found = np.float32(normals._EDGE), 0, []

    def draw() -> int:
        nonlocal used
        used += 1
        return next(bits)

    def share() -> np.float32:
        return np.float32(draw() >> 8) * np.float32(2**-24)

    while len(found) < count:
        drawn = draw()
        layer, size = drawn & 0xFF, (drawn >> 9) & 0x7FFFFF
        value = np.float32(size) * widths[layer] * (-1 if drawn >> 8 & 1 else 1)
        if size < limits[layer]:
            found.append(float(value))
        elif layer > 0:
            below = heights[layer]
            under = (heights[layer - 1] - below) * share() + below
            if float(under) < math.exp(-0.5 * float(value) ** 2):
                found.append(float(value))
        else:
            x, y = np.float32(1.0), np.float32(0.0)
            while not y + y > x * x:
                x = -np.float32(1 / normals._EDGE) * np.float32(math.log1p(-float(share())))
                y = -np.float32(math.log1p(-float(share())))
            found.append(float(-(edge + x) if size >> 8 & 1 else edge + x))
    return found, used


@pytest.mark.parametrize("seed", range(4))
def test_the_layers_are_those_of_numpy(seed):
    count = 30_000
    found, used = one_by_one(seed, count)
    expected = np.random.default_rng(seed).standard_normal(count, dtype=np.float32)
    np.testing.assert_allclose(found, expected, rtol=3e-7, atol=0)
    room = normals._MEAN_USED * count + 12 * normals._SPREAD_USED * math.sqrt(count)
    assert count < used < room


@pytest.mark.parametrize("step", [1, 7, normals._MADE])
def test_a_jump_takes_a_generator_as_far_as_its_steps(step):
    generator = np.random.default_rng(5)
    high, low, inc_high, inc_low = normals._state(generator)
    state, inc = (high << 64) + low, (inc_high << 64) + inc_low
    for line in normals._jumps(step, 4).view(np.uint64).tolist():
        generator.bit_generator.advance(step)
        a, c = (line[0] << 64) + line[1], (line[2] << 64) + line[3]
        there = generator.bit_generator.state["state"]["state"]
        assert (a * state + c * inc) % 2**128 == there
    assert normals._far_jumps(3).shape == (3, 4)
    assert normals._far_jumps(3)[0].tolist() == [0, 1, 0, 0]
