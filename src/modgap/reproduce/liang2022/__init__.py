"""Liang et al. 2022, Mind the Gap: sixteen figures, five tables and section 4.4."""

from modgap.reproduce.liang2022 import (  # noqa: F401  # importing a theme registers its entries
    cone,
    fairness,
    gap,
    initialisations,
    landscape,
    training,
    zero_shot,
)
from modgap.reproduce.liang2022._paper import PAPER

__all__ = ["PAPER"]


_KINDS = ("fig", "table", "section")


def _place(key: str) -> tuple[int, str]:
    """Figures, then tables, then what is neither, each by number."""
    name = key.partition("/")[2]
    kind = next(k for k, kind in enumerate(_KINDS) if name.startswith(kind))
    return kind, name.removeprefix(_KINDS[kind]).zfill(3)


# The themes register theirs together; the paper has its own order.
PAPER.entries = {key: PAPER.entries[key] for key in sorted(PAPER.entries, key=_place)}
