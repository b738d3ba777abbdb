"""Measure, try every correction on held-out rows, and say what to do."""

from modgap._callable import make_callable
from modgap.diagnose.evaluation import Evaluation, evaluate_correction
from modgap.diagnose.path import GapPath, gap_paths
from modgap.diagnose.run import DEFAULT_CORRECTORS, Diagnosis, diagnose
from modgap.diagnose.verdict import Figure, Judgement, Trial

__all__ = [
    "DEFAULT_CORRECTORS",
    "Diagnosis",
    "Evaluation",
    "Figure",
    "GapPath",
    "Judgement",
    "Trial",
    "diagnose",
    "evaluate_correction",
    "gap_paths",
]

make_callable(__name__)
