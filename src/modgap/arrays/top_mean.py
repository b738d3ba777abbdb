"""The mean of the largest few products of each row with the rows of a bank."""

from __future__ import annotations

import numpy as np

from modgap.arrays.base import as_float, is_torch, like, namespace, row_blocks, rows_per_block
from modgap.core.checks import Array


def top_mean(
    rows: Array,
    bank: Array,
    k: int,
    keys: np.ndarray | None = None,
    bank_keys: np.ndarray | None = None,
) -> Array:
    """For each row the mean of its k largest inner products with the rows of the bank.

    Where both have keys, a row of the bank is left out for rows of the same key. Where fewer than
    k are left, the mean is over those; 0 where none is.
    """
    rows = as_float(rows)
    xp = namespace(rows)
    bank = xp.astype(bank, rows.dtype, copy=False)
    own = None
    if keys is not None and bank_keys is not None:
        own = np.isin(keys, bank_keys)
    means = []
    for block in row_blocks(rows.shape[0], rows_per_block(bank.shape[0], rows.dtype.itemsize)):
        scores = rows[block] @ bank.T
        if own is None or not own[block].any():
            means.append(_mean_of_largest(scores, k))
            continue
        assert keys is not None
        assert bank_keys is not None
        mine = np.flatnonzero(own[block])
        same = keys[block][mine, None] == bank_keys[None, :]
        i, j = np.nonzero(same)
        scores[like(mine[i], scores), like(j, scores)] = -float("inf")
        if same.sum(axis=1).max() + k <= bank.shape[0]:
            means.append(_mean_of_largest(scores, k))
        else:
            means.append(_mean_of_finite(scores, k))
    return xp.concat(means)


def _mean_of_largest(scores: Array, k: int) -> Array:
    if is_torch(scores):
        return scores.topk(k, dim=1).values.mean(dim=1)
    return np.asarray(np.partition(scores, -k, axis=1)[:, -k:].mean(axis=1))


def _mean_of_finite(scores: Array, k: int) -> Array:
    """The same where some rows have fewer than k scores left."""
    xp = namespace(scores)
    best = xp.flip(xp.sort(scores, axis=1), axis=1)[:, :k]
    left = best > -float("inf")
    counts = xp.sum(xp.astype(left, scores.dtype), axis=1)
    sums = xp.sum(xp.where(left, best, xp.zeros_like(best)), axis=1)
    return sums / xp.where(counts > 0, counts, xp.ones_like(counts))
