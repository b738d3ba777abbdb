"""Yaras et al. 2024: seven figures and five tables."""

from pathlib import Path

from modgap.reproduce.paper import Paper

PAPER = Paper(Path(__file__).parent)

__all__ = ["PAPER"]
