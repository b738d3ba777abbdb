"""Measure, try every correction on held-out rows, and say what to do."""

from modgap._callable import make_callable
from modgap.diagnose.run import DEFAULT_CORRECTORS, Diagnosis, diagnose
from modgap.diagnose.verdict import Figure, Judgement, Trial

__all__ = ["DEFAULT_CORRECTORS", "Diagnosis", "Figure", "Judgement", "Trial", "diagnose"]

make_callable(__name__)
