"""Levi and Gilboa 2025, The Double-Ellipsoid Geometry of CLIP: its 24 figures."""

from pathlib import Path

from modgap.reproduce.paper import Paper

PAPER = Paper(Path(__file__).parent)

__all__ = ["PAPER"]
