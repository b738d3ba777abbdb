"""Yaras et al. 2024: seven figures and five tables."""

from modgap.reproduce.yaras2024 import pairs, tables, theory, trained  # noqa: F401  they register
from modgap.reproduce.yaras2024.published import PAPER

# Registered theme by theme; listed as in the paper.
PAPER.entries = dict(sorted(PAPER.entries.items()))

__all__ = ["PAPER"]
