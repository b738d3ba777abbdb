"""Measure, try every correction on held-out rows, and say what to do."""

from modgap.diagnosis.evaluation import Evaluation, evaluate_correction
from modgap.diagnosis.path import GapPath, gap_paths
from modgap.diagnosis.run import DEFAULT_CORRECTORS, Diagnosis, diagnose
from modgap.diagnosis.verdict import Figure, Judgement, Trial

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
