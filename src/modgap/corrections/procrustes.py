"""Procrustes: rotate one modality onto the other."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from modgap._arrays import to_numpy
from modgap._validate import InputValueError
from modgap.corrections.affine import Affine
from modgap.corrections.base import Corrector
from modgap.moments import PairMoments


class Procrustes(Corrector):
    """The orthogonal map of Y nearest to X over pairs, in least squares (Liang et al., sec. 4.4).

    Row i of X must belong to row i of Y. Rows keep their lengths.
    """

    needs_pairs = True

    def _maps(self, moments: PairMoments) -> Mapping[tuple[str, str], Affine]:
        if moments.cross is None:
            raise InputValueError(self._pairs_needed())
        x, y = moments.x.given, moments.y.given
        # Σ x yᵀ, uncentred: the map is to fit the rows themselves, not their deviations.
        products = to_numpy(moments.cross.given) + x.n * np.outer(
            to_numpy(x.mean), to_numpy(y.mean)
        )
        return {
            ("x", "document"): Affine.fitted(moments.x.dim),
            ("y", "document"): Affine.fitted(moments.x.dim, _nearest_rotation(products)),
        }


def _nearest_rotation(products: np.ndarray) -> np.ndarray:
    """The orthogonal matrix R of largest trace(Rᵀ products), and of those the nearest to identity.

    With fewer pairs than dimensions the pairs say nothing of some directions. Left to the SVD,
    those would be rotated by rounding; here they turn as little as they can.
    """
    left, sizes, right = np.linalg.svd(products)
    rank = int(np.sum(sizes > len(sizes) * np.finfo(np.float64).eps * sizes[0]))
    rotation = left[:, :rank] @ right[:rank]
    if rank < len(sizes):
        free_left, free_right = left[:, rank:], right[rank:].T
        turn, _, back = np.linalg.svd(free_left.T @ free_right)
        rotation = rotation + free_left @ turn @ back @ free_right.T
    return rotation
