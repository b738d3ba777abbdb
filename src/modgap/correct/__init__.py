"""Fix the gap: every method fits a ``Correction``, a small file of affine maps."""

from modgap.correct.affine import Affine
from modgap.correct.base import Corrector, NotFitted
from modgap.correct.calibrate import Calibrate
from modgap.correct.check import check_corrector
from modgap.correct.correction import METRICS, Correction, Metric, Role
from modgap.correct.hits import Hits
from modgap.correct.merge import Found, merge_hits
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
    Calibrate,
)

__all__ = [
    "CORRECTORS",
    "METRICS",
    "Affine",
    "Calibrate",
    "Center",
    "Correction",
    "Corrector",
    "Found",
    "Hits",
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
    "merge_hits",
]
