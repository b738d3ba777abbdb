"""What the papers print for tasks, beside what is measured on other data."""

from __future__ import annotations

from modgap.evaluation.tasks import Published


def liang_zero_shot() -> tuple[Published, ...]:
    """Zero-shot accuracy at the gap that is best on the same images."""
    from modgap.reproduce.liang2022 import PAPER

    where = "Liang et al. 2022, table 1"
    return tuple(
        Published(
            float(after),
            f"{name} at its best gap, {direction} than the original, where it is {before:g}",
            where,
        )
        for name, (before, after, direction) in PAPER.table("table1").rows.items()
    )
