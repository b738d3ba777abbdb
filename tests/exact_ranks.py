"""What tests of exact kernels share: ranks by brute force, small blocks, both libraries."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import strategies as st

import reference
from modgap.arrays import base, ranks, search

seeds = st.integers(0, 2**32 - 1)
kinds = pytest.mark.parametrize("kind", ["numpy", "torch"])


def of_kind(kind: str, *arrays):
    if kind == "numpy":
        return arrays
    torch = pytest.importorskip("torch")
    return tuple(torch.from_numpy(A) for A in arrays)


def brute_ranks(X, Y, groups, bias):
    scores = X.astype(np.float64) @ Y.astype(np.float64).T + (0 if bias is None else bias)
    gx, gy = groups
    return [
        reference.match_rank(row, set(np.flatnonzero(gy == g)))
        for row, g in zip(scores, gx, strict=True)
    ]


def small_blocks(monkeypatch, side: int) -> None:
    monkeypatch.setattr(ranks, "BLOCK_BYTES", 8 * side**2)
    for module in (ranks, search, base):
        monkeypatch.setattr(module, "rows_per_block", lambda *_, **__: side)
    monkeypatch.setattr(search, "_FEW_QUERIES", 1)
