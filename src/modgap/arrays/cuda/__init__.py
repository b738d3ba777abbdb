"""Kernels for NVIDIA GPUs: large blocks, and scores that are read once.

The kernels are written in Triton, which torch installs for such GPUs. Without it, tensors are
computed as on any other device.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec

from modgap.arrays.base import BLOCK_BYTES, is_torch
from modgap.core.checks import Array

# A block of scores that keeps the multiplication busy; smaller where little memory is free.
_BLOCK_BYTES = 2**30


def on_card(A: Array) -> bool:
    """Whether the rows are on an NVIDIA GPU."""
    return is_torch(A) and A.device.type == "cuda"


def has_kernels(A: Array) -> bool:
    """Whether the kernels can run on these rows."""
    return on_card(A) and _has_triton()


@cache
def _has_triton() -> bool:
    import torch

    # Triton knows AMD's GPUs too, which torch also calls "cuda"; these kernels were not run there.
    return torch.version.cuda is not None and find_spec("triton") is not None


def block_side(A: Array) -> int:
    """Side of a square block of scores that suits the card."""
    import torch

    free, _ = torch.cuda.mem_get_info(A.device)
    return max(256, math.isqrt(min(_BLOCK_BYTES, free // 8) // A.dtype.itemsize) // 256 * 256)


def scratch_bytes(A: Array) -> int:
    """Bytes of a block of scores of these rows."""
    return block_side(A) ** 2 * A.dtype.itemsize if on_card(A) else BLOCK_BYTES


@contextmanager
def full_precision(A: Array) -> Iterator[None]:
    """Products of float32 in float32 in here, not in TF32: ties are told apart by its rounding."""
    if not is_torch(A):
        yield
        return
    import torch

    before = torch.get_float32_matmul_precision()
    if before == "highest":
        yield
        return
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
