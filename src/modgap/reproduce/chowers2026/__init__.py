"""Chowers et al. 2026, Is the Modality Gap a Bug or a Feature?: its 19 figures."""

from pathlib import Path

from modgap.reproduce.paper import Paper

PAPER = Paper(Path(__file__).parent)

__all__ = ["PAPER"]
