"""Levi and Gilboa 2025, The Double-Ellipsoid Geometry of CLIP: its 24 figures."""

from modgap.reproduce.levi2025 import (
    conformities,
    ellipsoids,
    interpolation,
    landscape,
    pictures,
)
from modgap.reproduce.levi2025.rows import PAPER

# Entries are written by theme, and read in the paper's order.
PAPER.entries = dict(
    sorted(PAPER.entries.items(), key=lambda item: int(item[0].rpartition("fig")[2]))
)

__all__ = ["PAPER", "conformities", "ellipsoids", "interpolation", "landscape", "pictures"]
