"""Losses that bring modalities together: true pairs aligned, items spread (Grassucci et al. 2026).

Both are added to a contrastive loss. They take rows of any number of modalities; row i of each is
of the same item.
"""

from __future__ import annotations

import math
from itertools import combinations

import torch
import torch.nn.functional as F
from torch import Tensor

from modgap.core.checks import InputValueError
from modgap.train.swap import check_features


def align_true_pairs(*modalities: Tensor) -> Tensor:
    """Mean ‖x_i − y_i‖² over the items; of more than two modalities the mean over their pairs.

    >>> X = torch.eye(2)
    >>> align_true_pairs(X, X).item(), align_true_pairs(X, -X).item(), align_true_pairs(X, X, -X)
    (0.0, 4.0, tensor(2.6667))
    """
    _check(modalities)
    apart = [((X - Y) ** 2).sum(dim=1).mean() for X, Y in combinations(modalities, 2)]
    return torch.stack(apart).mean()


def centroid_uniformity(*modalities: Tensor) -> Tensor:
    """Log mean exp(−2‖c_i − c_j‖²) over i < j: c_i the mean of item i over the modalities.

    Means are brought to unit length. 0 where all coincide, at least −8; 0 of a single item.

    >>> X = torch.eye(2)
    >>> centroid_uniformity(X, X).item()  # one pair of items, √2 apart
    -4.0
    """
    _check(modalities)
    if (n := len(modalities[0])) < 2:
        return 0.0 * sum(rows.sum() for rows in modalities)
    centroids = F.normalize(torch.stack(modalities).mean(dim=0), dim=1)
    # ‖c − e‖² = 2 − 2c·e at unit length.
    exponents = 4 * (centroids @ centroids.T) - 4
    first, second = torch.triu_indices(n, n, offset=1, device=centroids.device)
    return exponents[first, second].logsumexp(dim=0) - math.log(n * (n - 1) / 2)


def _check(modalities: tuple[Tensor, ...]) -> None:
    if len(modalities) < 2:
        raise InputValueError(
            f"Pass the rows of at least two modalities, got those of {len(modalities)}."
        )
    for place, other in enumerate(modalities[1:], start=2):
        check_features(modalities[0], other, ("modality 1", f"modality {place}"))
