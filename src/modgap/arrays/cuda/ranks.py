"""How many scores are above the bounds of each row and of each column, from one product."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from modgap.arrays.base import row_blocks
from modgap.arrays.cuda import block_side, full_precision
from modgap.core.checks import Array

# A tile of scores that one group of threads holds, and how many of them it takes in a row.
_ROWS, _COLUMNS, _STEPS = 64, 128, 8


@dataclass(frozen=True, eq=False)
class Counts:
    """Of one side's queries: documents clearly above the bounds, and pairs that are near them."""

    above: np.ndarray
    near: tuple[np.ndarray, np.ndarray]


def count_both_ways(
    X: Array,
    Y: Array,
    bounds_x: tuple[Array, Array],
    bounds_y: tuple[Array, Array],
    bias_x: Array | None,
    bias_y: Array | None,
) -> tuple[Counts, Counts] | None:
    """Counts of rows of X that ask among Y, and of Y among X; None where too many are near.

    The bounds are upper and lower ones of each query. Nothing is read from the card before all
    blocks are done.
    """
    import torch

    from modgap.arrays.cuda.kernels import count_above_kernel

    n, m, device = X.shape[0], Y.shape[0], X.device
    above = [torch.zeros(size, dtype=torch.int32, device=device) for size in (n, m)]
    capacity = 4 * (n + m) + 2**20
    near = [torch.empty(capacity, dtype=torch.int64, device=device) for _ in range(2)]
    n_near = torch.zeros(2, dtype=torch.int64, device=device)
    biased = bias_x is not None or bias_y is not None
    biases = [
        torch.zeros(size, dtype=X.dtype, device=device) if bias is None else bias.to(X.dtype)
        for bias, size in ((bias_x, n), (bias_y, m))
    ]
    side = block_side(X)
    scratch = torch.empty(min(side, n) * min(side, m), dtype=X.dtype, device=device)
    with full_precision(X), torch.cuda.device(device):
        for a in row_blocks(n, side):
            for b in row_blocks(m, side):
                shape = (a.stop - a.start, b.stop - b.start)
                scores = scratch[: shape[0] * shape[1]].view(shape)
                torch.mm(X[a], Y[b].T, out=scores)
                grid = (-(-shape[0] // _ROWS), -(-shape[1] // (_COLUMNS * _STEPS)))
                count_above_kernel[grid](
                    scores, *shape, a.start, b.start, m,
                    *bounds_x, biases[0], above[0], near[0],
                    *bounds_y, biases[1], above[1], near[1],
                    n_near, capacity,
                    BIASED=biased, ROWS=_ROWS, COLUMNS=_COLUMNS, STEPS=_STEPS,
                )  # fmt: skip
    found: list[int] = n_near.tolist()
    if max(found) > capacity:
        return None
    counts = [np.asarray(count.cpu().numpy(), dtype=np.int64) for count in above]
    x, y = (
        np.divmod(listed[:size].cpu().numpy(), m) for listed, size in zip(near, found, strict=True)
    )
    return Counts(counts[0], x), Counts(counts[1], y[::-1])
