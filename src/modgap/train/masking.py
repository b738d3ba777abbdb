"""Captions that occur twice in a batch: the contrastive loss without their false negatives."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from modgap.train.gather import average_gradient, gather_rows, share_of
from modgap.train.loss import ContrastiveLoss


def identical(tokens: Tensor) -> Tensor:
    """Which captions of a batch (n, length) are the same word for word, beside themselves.

    >>> identical(torch.tensor([[1, 2], [3, 0], [1, 2]])).int().tolist()
    [[0, 0, 1], [0, 0, 0], [1, 0, 0]]
    """
    _, kind = torch.unique(tokens, dim=0, return_inverse=True)
    same = kind[:, None] == kind
    return same.fill_diagonal_(False)


class DistinctContrastiveLoss(ContrastiveLoss):
    """The contrastive loss in which two images with the same caption are no negatives.

    ``same`` (N, N) says which captions of the whole batch, over all processes, are identical;
    their logits become −∞. Everything else is as in `ContrastiveLoss`, but never lean.
    """

    def masked(self, X: Tensor, Y: Tensor, logit_scale: Tensor, same: Tensor, step: int) -> Tensor:
        """The loss of the whole batch; X and Y are this process's rows."""
        if self.normalise:
            X, Y = F.normalize(X, dim=1), F.normalize(Y, dim=1)
        share = None if self.gather is None else share_of(X)
        first, total = (0, None) if share is None else (share.first_row, share.total_rows)
        if self.swap is not None:
            X, Y = self.swap(X, Y, step, first_row=first, total_rows=total)
        if share is not None:
            # Every process computes the whole loss; the gather sums their gradients and DDP
            # divides by their number, which leaves that of one process.
            X, Y = gather_rows(X, share), gather_rows(Y, share)
            logit_scale = average_gradient(logit_scale, share)
        logits = ((X * logit_scale) @ Y.T).masked_fill(same, -torch.inf)
        own = torch.arange(len(logits), device=logits.device)
        return (F.cross_entropy(logits, own) + F.cross_entropy(logits.T, own)) / 2
