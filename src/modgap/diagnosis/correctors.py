"""What a diagnosis tries where it is not told."""

from __future__ import annotations

from collections.abc import Sequence

from modgap.corrections import (
    Calibrate,
    Center,
    Corrector,
    OriginShift,
    OrthogonalShift,
    Procrustes,
    Shift,
    Whiten,
)

DEFAULT_CORRECTORS: tuple[Corrector, ...] = (
    Shift(0.25),
    Shift(0.5),
    OriginShift(0.5),
    OriginShift(0.75),
    Center(),
    Whiten(0.1),
    Whiten(0.5),
    Procrustes(),
    OrthogonalShift("y", 1.0),
    OrthogonalShift("y", 0.95),
    OrthogonalShift("x", 0.95),
    Calibrate("keep"),
    Calibrate("mixed"),
)


def correctors_for(asking: Sequence[str], names: Sequence[str]) -> tuple[Corrector, ...]:
    """What is tried by default: several kinds of query need the form of Calibrate for them all.

    Beyond two modalities, only what works on any number of them.
    """
    found = DEFAULT_CORRECTORS
    if len(names) > 2:
        found = tuple(one for one in found if one.takes_many)
    if len(asking) == 1:
        return found
    return tuple(
        Calibrate(one.mode, form="blocks") if isinstance(one, Calibrate) else one for one in found
    )
