"""Chowers et al. 2026, Is the Modality Gap a Bug or a Feature?: its 19 figures."""

from modgap.reproduce.chowers2026 import (
    balance,
    descent,
    gap,
    quantisation,
    rephrasing,
    robustness,
    temperature,
    threshold,
)
from modgap.reproduce.chowers2026.tasks import PAPER

# Entries are written by theme, and read in the paper's order.
PAPER.entries = dict(
    sorted(PAPER.entries.items(), key=lambda item: int(item[0].rpartition("fig")[2]))
)

__all__ = [
    "PAPER",
    "balance",
    "descent",
    "gap",
    "quantisation",
    "rephrasing",
    "robustness",
    "temperature",
    "threshold",
]
