"""NumPy's normal numbers, drawn on a GPU: the same ones, but for the last bit of a few far out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

_MULTIPLIER = 0x2360ED051FC65DA44385DF649FCCF645  # of PCG64
_MASK = 2**128 - 1
# Numbers of 64 bits that one program makes, and places that one looks at.
_MADE, _LOOKED_AT = 1024, 1024
# Places used for one number: on average, and their standard deviation; twelve of these are more
# than ever needed.
_MEAN_USED, _SPREAD_USED = 1.0221, 0.187
# Beyond the last layer, pairs that are tried; one in 10¹³ numbers needs more.
_PAIRS = 8
# Where a number begins depends on those it overlaps, and they on others: in one place of 10¹³ on
# more than these.
_ROUNDS = 7
# Where the last layer ends (Marsaglia and Tsang 2000, 256 layers).
_EDGE = 3.6541528853610088
# Places of one go, and the bytes that one takes.
_PLACES, _PLACE_BYTES = 2**23, 20


def draws_in_one_go(n_numbers: int) -> int:
    """How many draws of so many numbers fit into a go."""
    return max(1, _PLACES // max(1, n_numbers))


def can_draw(device: Any, n_numbers: int) -> bool:
    """Whether a draw fits into the memory of a device, and is that of NumPy there."""
    import torch

    free, _ = torch.cuda.mem_get_info(device)
    return _PLACE_BYTES * n_numbers < free // 4 and card_normals(device).agrees


class CardNormals:
    """Draws on one device."""

    def __init__(self, device: Any) -> None:
        import torch

        self.device = device
        limits, widths, heights = (torch.from_numpy(table).to(device) for table in _layers())
        self._tables = limits, widths, heights
        self._near = torch.from_numpy(_jumps(1, _MADE)).to(device)
        self.agrees = self._check()

    def draw(
        self, generators: Sequence[np.random.Generator], n_numbers: int, scale: float = 1.0
    ) -> tuple[Any, Any]:
        """``scale`` times standard normal numbers in float32, (generators, n_numbers).

        The generators must be as ``default_rng`` makes them, and are left as they are. The second
        is a tensor that says whether all numbers are there; nothing is read from the device.
        """
        import torch

        from modgap._arrays.cuda.normal_kernels import (
            as_if_begun,
            count_drawn,
            put_in_order,
            raw_bits,
            settle,
        )

        n, device = len(generators), self.device
        n_bits = math.ceil(_MEAN_USED * n_numbers + 12 * _SPREAD_USED * math.sqrt(n_numbers)) + 64
        states = np.array([_state(generator) for generator in generators], dtype=np.uint64)
        far = torch.from_numpy(_far_jumps(-(-n_bits // (2 * _MADE)))).to(device, non_blocking=True)
        held = torch.from_numpy(states.view(np.int64)).to(device, non_blocking=True)
        with torch.cuda.device(device):
            bits, values = (
                torch.empty((n, n_bits), dtype=kind, device=device)
                for kind in (torch.int32, torch.float32)
            )
            used = torch.empty((n, n_bits), dtype=torch.int8, device=device)
            raw_bits[(len(far), n)](held, far, self._near, bits, n_bits, COUNT=_MADE)
            grid = (-(-n_bits // _LOOKED_AT), n)
            # Rounded as NumPy does, without a product and a sum in one step.
            as_if_begun[grid](
                bits, *self._tables, values, used, n_bits, _EDGE, 1 / _EDGE,
                PAIRS=_PAIRS, COUNT=_LOOKED_AT, enable_fp_fusion=False,
            )  # fmt: skip
            # All begin, to start with.
            begun, other = used, torch.empty_like(used)
            changed = torch.zeros(_ROUNDS, dtype=torch.int32, device=device)
            for number in range(_ROUNDS):
                settle[grid](
                    used, begun, other, changed[number:], n_bits,
                    REACH=2 * _PAIRS + 1, COUNT=_LOOKED_AT,
                )  # fmt: skip
                begun, other = other, torch.empty_like(used) if number == 0 else begun
            counts = torch.empty((n, grid[0]), dtype=torch.int32, device=device)
            count_drawn[grid](begun, counts, n_bits, COUNT=_LOOKED_AT)
            counts = torch.cumsum(counts, dim=1, dtype=torch.int32)
            out = torch.empty((n, n_numbers), dtype=torch.float32, device=device)
            put_in_order[grid](
                values, begun, counts, out, n_bits, n_numbers, scale,
                COUNT=_LOOKED_AT, enable_fp_fusion=False,
            )  # fmt: skip
        there = torch.all(counts[:, -1] >= n_numbers) & (changed[-1] == 0)
        return out, there & ~torch.any(begun == 127)

    def _check(self) -> bool:
        """Whether this NumPy draws the same numbers: another one may draw others."""
        rngs = [np.random.default_rng(seed) for seed in (0, 1)]
        found, there = self.draw(rngs, 50_000)
        expected = np.stack([rng.standard_normal(50_000, dtype=np.float32) for rng in rngs])
        return bool(there) and np.allclose(found.cpu().numpy(), expected, rtol=1e-6, atol=0)


@cache
def card_normals(device: Any) -> CardNormals:
    """What draws on a device; made once."""
    return CardNormals(device)


def _state(generator: np.random.Generator) -> list[int]:
    """State and increment of PCG64, 64 bits each time, the upper ones first."""
    held = generator.bit_generator.state["state"]
    return [part for name in ("state", "inc") for part in _halves(held[name])]


def _halves(number: int) -> tuple[int, int]:
    return number >> 64, number & (2**64 - 1)


def _jumps(step: int, count: int) -> np.ndarray:
    """a and c of jumps by 1, 2 … ``count`` times ``step``: a state becomes a · state + c · inc."""
    a_step, c_step = 1, 0
    for _ in range(step):
        a_step, c_step = a_step * _MULTIPLIER & _MASK, (c_step * _MULTIPLIER + 1) & _MASK
    found, a, c = np.empty((count, 4), dtype=np.uint64), 1, 0
    for number in range(count):
        a, c = a * a_step & _MASK, (c * a_step + c_step) & _MASK
        found[number] = *_halves(a), *_halves(c)
    return found.view(np.int64)


@cache
def _far_jumps(count: int) -> np.ndarray:
    """Jumps by 0, 1 … times what a program makes."""
    nowhere = np.array([[0, 1, 0, 0]], dtype=np.int64)
    return np.concatenate([nowhere, _jumps(_MADE, count - 1)])


@cache
def _layers() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of each layer of the ziggurat: what is surely below the curve, its width, its height."""

    def curve(x: float) -> float:
        return math.exp(-0.5 * x * x)

    area = _EDGE * curve(_EDGE) + math.sqrt(math.pi / 2) * math.erfc(_EDGE / math.sqrt(2))
    ends = [_EDGE]
    for _ in range(254):
        ends.append(math.sqrt(-2 * math.log(area / ends[-1] + curve(ends[-1]))))
    base = area / curve(_EDGE)
    x = np.array([base, *reversed(ends)])
    inner = np.array([_EDGE, 0.0, *x[1:-1]])
    limits = np.round(inner / x * 2**23).astype(np.int32)
    heights = np.array([1.0, *map(curve, x[1:])], dtype=np.float32)
    return limits, (x / 2**23).astype(np.float32), heights
