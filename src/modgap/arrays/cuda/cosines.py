"""Extremes of all cosines, and a histogram of those near some quantiles."""

from __future__ import annotations

from typing import Any

import numpy as np

from modgap.arrays.base import row_blocks
from modgap.arrays.cuda import block_side, full_precision
from modgap.arrays.product import passed
from modgap.core.checks import Array

# histc counts in float32, which is exact up to this.
_COUNTED = 2**24
# What one group of threads looks at.
_VALUES, _STEPS = 1024, 64


def extremes_and_counts(U: Array, bins: slice, n_bins: int) -> tuple[float, float, np.ndarray]:
    """Least and largest cosine over pairs i < j of unit rows, and the counts of some bins.

    ``bins`` is a range of the ``n_bins`` equal bins over [-1, 1]; what is below or above it is
    counted in the bin before and after, which must exist. Nothing is read from the card before all
    blocks are done.
    """
    import torch

    n, side = U.shape[0], min(block_side(U), U.shape[0])
    scratch = torch.empty(side * side, dtype=U.dtype, device=U.device)
    left_of_diagonal = torch.ones((side, side), dtype=torch.bool, device=U.device).tril()
    width = 2.0 / n_bins
    looked_at = _LookedAt(bins.start * width - 1.0, bins.stop * width - 1.0, bins.stop - bins.start)
    with full_precision(U), torch.cuda.device(U.device):
        for a in row_blocks(n, side):
            for b in row_blocks(n, side):
                if b.start < a.start:
                    continue
                shape = (a.stop - a.start, b.stop - b.start)
                cosines = scratch[: shape[0] * shape[1]].view(shape)
                torch.mm(U[a], U[b].T, out=cosines)
                diagonal = a.start == b.start
                looked_at.look(cosines, diagonal=diagonal)
                if diagonal:  # each pair once
                    cosines.masked_fill_(left_of_diagonal[: shape[0], : shape[1]], -2.0)
                looked_at.count(cosines)
                passed(shape[0] * shape[1] / (n * (n - 1) / 2))
    return looked_at.found(bins, n_bins, n * (n - 1) // 2)


class _LookedAt:
    """Gathers extremes and counts block by block, on the card."""

    def __init__(self, low: float, high: float, n_bins: int) -> None:
        self.low, self.high, self.n_bins = low, high, n_bins
        self.lows: list[Any] = []
        self.highs: list[Any] = []
        self.below: list[Any] = []
        self.counts: Any = 0

    def look(self, cosines: Any, *, diagonal: bool) -> None:
        """Extremes of a block, and how many are below all bins."""
        import torch

        from modgap.arrays.cuda.kernels import extremes_and_below

        size = cosines.numel()
        parts = -(-size // (_VALUES * _STEPS))
        lows, highs = (
            torch.empty(parts, dtype=cosines.dtype, device=cosines.device) for _ in range(2)
        )
        below = torch.empty(parts, dtype=torch.int32, device=cosines.device)
        extremes_and_below[(parts,)](
            cosines, size, cosines.shape[1], diagonal, self.low, lows, highs, below,
            VALUES=_VALUES, STEPS=_STEPS,
        )  # fmt: skip
        self.lows.append(lows.amin())
        self.highs.append(highs.amax())
        self.below.append(below.sum(dtype=torch.int64))

    def count(self, cosines: Any) -> None:
        """Those in each bin; others are passed over."""
        import torch

        for piece in cosines.view(-1).split(_COUNTED):
            found = torch.histc(piece, self.n_bins, min=self.low, max=self.high)
            self.counts = self.counts + found.to(torch.int64)

    def found(self, bins: slice, n_bins: int, total: int) -> tuple[float, float, np.ndarray]:
        """Least, largest, and all bins, with what is beside the counted ones next to them."""
        import torch

        counts = np.zeros(n_bins, dtype=np.int64)
        counts[bins] = self.counts.cpu().numpy()
        counts[bins.start - 1] = int(torch.stack(self.below).sum())
        counts[bins.stop] = total - counts.sum()
        lowest = float(torch.stack(self.lows).amin())
        return lowest, float(torch.stack(self.highs).amax()), counts
