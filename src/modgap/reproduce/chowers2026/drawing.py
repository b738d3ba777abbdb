"""What several pictures share: one legend for all panels, one scale for all steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from modgap import plot

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NAMES = ("X", "Y")


def one_legend(figure: Figure, axes: list[Axes], columns: int = 5) -> None:
    """The legend of equal panels once, below them, where it hides no line."""
    figure.legend(
        *axes[0].get_legend_handles_labels(),
        loc="outside lower center",
        ncols=columns,
        frameon=False,
        fontsize=8,
    )
    for ax in axes:
        drop_legend(ax)


def drop_legend(ax: Axes) -> None:
    """Axes without their own legend."""
    legend = ax.get_legend()
    if legend is not None:
        legend.remove()


def draw_shots(shots: list[dict[str, Any]], axes: list[Axes], title: str = "step") -> None:
    """Each kept step of a descent in its own axes, all to one scale."""
    for shot, ax in zip(shots, axes, strict=True):
        plot.projection_pairs(
            shot["X"], shot["Y"], names=NAMES, title=f"{title} {shot['step']:,}", ax=ax
        )
        drop_legend(ax)
    for edges, fix in (("get_xlim", "set_xlim"), ("get_ylim", "set_ylim")):
        ends = [getattr(ax, edges)() for ax in axes]
        for ax in axes:
            getattr(ax, fix)(min(low for low, _ in ends), max(high for _, high in ends))
