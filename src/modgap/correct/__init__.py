"""Fix the gap: every method fits a ``Correction``, a small file of affine maps."""

from modgap.correct.affine import Affine
from modgap.correct.base import Corrector, NotFitted
from modgap.correct.check import check_corrector
from modgap.correct.correction import METRICS, Correction, Metric, Role
from modgap.correct.orthogonal import NothingMovesWarning, OrthogonalShift
from modgap.correct.procrustes import Procrustes
from modgap.correct.shift import Center, OriginShift, Shift
from modgap.correct.whiten import Whiten

CORRECTORS: tuple[type[Corrector], ...] = (
    Shift,
    OrthogonalShift,
    OriginShift,
    Center,
    Whiten,
    Procrustes,
)

__all__ = [
    "CORRECTORS",
    "METRICS",
    "Affine",
    "Center",
    "Correction",
    "Corrector",
    "Metric",
    "NotFitted",
    "NothingMovesWarning",
    "OriginShift",
    "OrthogonalShift",
    "Procrustes",
    "Role",
    "Shift",
    "Whiten",
    "check_corrector",
]
