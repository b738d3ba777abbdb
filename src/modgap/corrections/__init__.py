"""Fix the gap: every method fits a ``Correction``, a small file of affine maps."""

from modgap.corrections.affine import Affine
from modgap.corrections.base import Corrector, NotFitted, NothingMovesWarning
from modgap.corrections.calibrate import Calibrate
from modgap.corrections.check import check_corrector
from modgap.corrections.correction import METRICS, Correction, Metric, Role
from modgap.corrections.orthogonal import OrthogonalShift
from modgap.corrections.procrustes import Procrustes
from modgap.corrections.registry import CORRECTORS, METHODS, Method, make_corrector
from modgap.corrections.shift import Center, OriginShift, Shift
from modgap.corrections.whiten import Whiten

__all__ = [
    "CORRECTORS",
    "METHODS",
    "METRICS",
    "Affine",
    "Calibrate",
    "Center",
    "Correction",
    "Corrector",
    "Method",
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
    "make_corrector",
]
