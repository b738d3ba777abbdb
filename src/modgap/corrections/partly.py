"""A move in part: half of an offset is a smaller move."""

from __future__ import annotations

from dataclasses import replace

from modgap._validate import InputValueError
from modgap.corrections.correction import Correction


def partly(correction: Correction, share: float) -> Correction:
    """A correction of offsets alone, applied in part: each offset times ``share``."""
    maps = {}
    for key, affine in correction.maps.items():
        if affine.matrix is not None or affine.scale != 1 or affine.blocks is not None:
            raise InputValueError(
                "Only a correction that moves rows by an offset can be applied in part; "
                f"{correction.about.get('method', 'this one')} does more."
            )
        offset = None if affine.offset is None else share * affine.offset
        maps[key] = replace(affine, offset=offset)
    return replace(correction, maps=maps, about={"share": share})
