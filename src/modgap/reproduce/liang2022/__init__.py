"""Liang et al. 2022, Mind the Gap: sixteen figures, five tables and section 4.4."""

from pathlib import Path

from modgap.reproduce.paper import Paper

PAPER = Paper(Path(__file__).parent)

__all__ = ["PAPER"]
