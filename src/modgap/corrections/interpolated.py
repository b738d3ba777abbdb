"""A correction in part: what lies between the rows as they are and the corrected ones."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from modgap.core.checks import InputValueError, check_finite
from modgap.core.results import changed
from modgap.corrections.affine import Affine
from modgap.corrections.correction import Correction


def interpolated(correction: Correction, share: float) -> Correction:
    """The correction applied in part: by a share of it, of which 1 is all.

    A row v, at unit length where the correction takes it so, goes to
    (1 − share)·v + share·w, w being what the map of ``in_proportion(correction)`` makes of it.
    Where the correction then brings rows to unit length, or ranks rows of unit length by cosine,
    that is done in between too. Factors of blocks go from (1, 0, …) to their own. Hubs: the
    correction's bank says how much of a hub the row is at this share, and share·α of it is
    subtracted. Everything is ranked by the correction's metric.

    Of ``Shift``, ``Center`` and others that add an offset, it is that share of the offset, and the
    share may be any number: −1 moves the other way. Of ``Calibrate()`` every score is
    (1 − share)·raw + share·c·corrected, c one number.
    """
    if not (0 < check_finite(share, "share") <= 1 or _only_moves(correction)):
        raise InputValueError(
            f"share must be above 0 and at most 1, got {share}: "
            f"{correction.about.get('method', 'this correction')} does more than move rows."
        )
    if share == 1:
        return correction
    whole = in_proportion(correction)
    maps = {
        key: _between(affine, share, unit=affine.normalise and correction.metric == "cosine")
        for key, affine in whole.maps.items()
    }
    hubs = correction.hubs and changed(correction.hubs, weight=share * correction.hubs.weight)
    return changed(correction, maps=maps, hubs=hubs, about={"share": share})


def _only_moves(correction: Correction) -> bool:
    """Whether all that it does is to add an offset to the rows of each modality."""
    return correction.hubs is None and all(
        affine.matrix is None and affine.scale == 1 and affine.blocks is None
        for affine in correction.maps.values()
    )


def in_proportion(correction: Correction) -> Correction:
    """The same correction, its maps scaled so that they stretch rows by about 1.

    All documents are scaled by one factor and queries by their own, which changes no ranking by
    cosine or inner product. A correction for Euclidean distances is left as it is.
    """
    if correction.metric == "euclidean":
        return correction
    documents = [correction.affine(name) for name in correction.names]
    together = _mean(map(_stretch, documents)), _mean(map(_size, documents))

    def scaled(affine: Affine, role: str) -> Affine:
        if role == "document":
            return _divided(affine, *together)
        # A bank holds queries as the correction has them.
        return affine if correction.hubs else _divided(affine, _stretch(affine), _size(affine))

    return changed(correction, maps={key: scaled(m, key[1]) for key, m in correction.maps.items()})


def _between(affine: Affine, share: float, *, unit: bool) -> Affine:
    """The map that is ``share`` of the way from the identity to this one."""
    matrix, scale, blocks = affine.matrix, 1 + share * (affine.scale - 1), affine.blocks
    if matrix is not None:
        if matrix.shape[0] != matrix.shape[1]:
            raise InputValueError(
                "Only a correction that keeps the number of columns can be applied in part, "
                f"got a matrix of {matrix.shape[1]} to {matrix.shape[0]}."
            )
        matrix, scale = (1 - share) * np.eye(len(matrix)) + share * affine.scale * matrix, 1.0
    if blocks is not None:
        first = (1.0, *(0.0 for _ in blocks[1:]))
        blocks = tuple(a + share * (b - a) for a, b in zip(first, blocks, strict=True))
    return changed(
        affine,
        matrix=matrix,
        scale=scale,
        offset=None if affine.offset is None else share * affine.offset,
        blocks=blocks,
        renormalise=affine.renormalise or unit,
    )


def _stretch(affine: Affine) -> float:
    """How much longer the linear part makes a row, over all directions (root mean square)."""
    if affine.matrix is None:
        return abs(affine.scale)
    return abs(affine.scale) * float(np.linalg.norm(affine.matrix)) / len(affine.matrix) ** 0.5


def _size(affine: Affine) -> float:
    return float(np.linalg.norm(affine.blocks or (1.0,)))


def _mean(sizes: Iterable[float]) -> float:
    """The geometric mean; 1 where one of them is 0."""
    known = np.array(list(sizes))
    return float(np.exp(np.mean(np.log(known)))) if np.all(known > 0) else 1.0


def _divided(affine: Affine, stretch: float, size: float) -> Affine:
    """The map with its linear part and its offset divided by one number, its blocks by another."""
    stretch, size = stretch or 1.0, size or 1.0
    return changed(
        affine,
        scale=affine.scale / stretch,
        offset=None if affine.offset is None else affine.offset / stretch,
        blocks=None if affine.blocks is None else tuple(b / size for b in affine.blocks),
    )
