"""Liang et al. 2022, Mind the Gap: sixteen figures and five tables."""

from modgap.reproduce.liang2022 import (  # noqa: F401  # importing a theme registers its entries
    cone,
    fairness,
    gap,
    initialisations,
    landscape,
    zero_shot,
)
from modgap.reproduce.liang2022._paper import PAPER

__all__ = ["PAPER"]


def _place(key: str) -> tuple[bool, int]:
    """Figures before tables, each by number."""
    name = key.partition("/")[2]
    return name.startswith("table"), int(name.removeprefix("fig").removeprefix("table"))


# The themes register theirs together; the paper has its own order.
PAPER.entries = {key: PAPER.entries[key] for key in sorted(PAPER.entries, key=_place)}
