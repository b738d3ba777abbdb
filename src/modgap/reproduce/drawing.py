"""Pictures as a ``paper.toml`` declares them, and what data is made ready for them.

A panel names as its ``kind`` a function of ``modgap.plot``. The other keys are its arguments:

- Words are filled from the data by Python's format: ``title = "{name}: loss {loss:.2g}"``.
- Data is a path, ``edges = "norms/edges"``; a number, which is itself; or a table or list of these,
  ``ys = { loss = "losses/0" }``. ``"."`` is the data as a whole.
- ``log``, ``density``, ``lines`` and ``columns`` are passed on.

and some of its own:

- ``each = "tasks"``: a panel for every item of that part of the data. Paths and words are looked up
  in the item first, ``{name}`` is its key and ``"."`` the item.
- ``legend``: false for none, "first" for that of the first item alone.
- ``same_limits``: all items to one scale.
- ``xlim``, ``ylim``, ``xmargin``, ``ymargin``, ``aspect``: of the axes, as numbers or paths.
- ``xticks``: at most so many.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Keys of a panel by what is done with them; all others are data.
WORDS = ("title", "xlabel", "ylabel", "names")
OPTIONS = ("log", "density", "lines", "columns")
LIMITS = ("xlim", "ylim", "xmargin", "ymargin", "aspect")
OWN = ("kind", "each", "legend", "same_limits", "xticks")
ITSELF = "."


def draw_panels(
    panels: Sequence[Mapping[str, Any]],
    data: Mapping[str, Any],
    *,
    size: Sequence[float] = (4, 3),
    columns: int = 2,
    legend: str = "",
) -> Figure:
    """Draw declared panels.

    Parameters
    ----------
    panels
        What each shows, in the keys that are explained above.
    data
        What an outcome holds to be drawn.
    size
        Of one panel, in inches.
    columns
        Panels in a row.
    legend
        "below" for one legend under all panels, that of the panel with most names.
    """
    from modgap import plot

    scopes = [_scopes(panel, data) for panel in panels]
    kinds = [p["kind"] for p, found in zip(panels, scopes, strict=True) for _ in found]
    figure, axes = plot.panels(
        len(kinds),
        columns=columns,
        size=(size[0], size[1]),
        solid=[k for k, kind in enumerate(kinds) if kind == "sphere"],
    )
    left = list(axes)
    for panel, found in zip(panels, scopes, strict=True):
        mine, left = left[: len(found)], left[len(found) :]
        for ax, (item, scope) in zip(mine, found, strict=True):
            getattr(plot, panel["kind"])(**_arguments(panel, item, scope), ax=ax)
            ax.set(**{name: _data(panel[name], item, scope) for name in LIMITS if name in panel})
            if "xticks" in panel:
                ax.locator_params(axis="x", nbins=panel["xticks"])
        if panel.get("same_limits"):
            _share_limits(mine)
        without = {False: mine, "first": mine[1:]}.get(panel.get("legend", True), [])
        _drop_legends(without)
    if legend == "below":
        _one_legend(figure, axes)
    return figure


def _scopes(panel: Mapping[str, Any], data: Mapping[str, Any]) -> list[tuple[Any, Any]]:
    """For every panel that a declaration stands for, its item and where its keys are looked up."""
    if "each" not in panel:
        return [(data, data)]
    items = _find(panel["each"], data, data)
    named = items.items() if isinstance(items, Mapping) else enumerate(items)
    return [
        (item, {**data, **(item if isinstance(item, Mapping) else {}), "name": name})
        for name, item in named
    ]


def _arguments(panel: Mapping[str, Any], item: Any, scope: Mapping[str, Any]) -> dict[str, Any]:
    given = {}
    for name, value in panel.items():
        if name in WORDS:
            given[name] = _filled(value, scope)
        elif name in OPTIONS:
            given[name] = value
        elif name not in (*OWN, *LIMITS):
            given[name] = _data(value, item, scope)
    return given


def _filled(words: Any, scope: Mapping[str, Any]) -> Any:
    if isinstance(words, list):
        return [_filled(word, scope) for word in words]
    return words.format_map(scope)


def _data(value: Any, item: Any, scope: Mapping[str, Any]) -> Any:
    """A path's value; a number is itself; in tables and lists, each of their values."""
    if isinstance(value, str):
        return _find(value, item, scope)
    if isinstance(value, Mapping):
        return {label: _data(path, item, scope) for label, path in value.items()}
    if isinstance(value, list):
        return [_data(path, item, scope) for path in value]
    return value


def _find(path: str, item: Any, scope: Any) -> Any:
    if path == ITSELF:
        return item
    for step in path.split("/"):
        scope = scope[step] if isinstance(scope, Mapping) else scope[int(step)]
    return scope


def _share_limits(axes: list[Axes]) -> None:
    """All panels to one scale."""
    for edges, fix in (("get_xlim", "set_xlim"), ("get_ylim", "set_ylim")):
        ends = [getattr(ax, edges)() for ax in axes]
        for ax in axes:
            getattr(ax, fix)(min(low for low, _ in ends), max(high for _, high in ends))


def _one_legend(figure: Figure, axes: list[Axes]) -> None:
    """The legend of equal panels once, below them, where it hides no line."""
    named = [ax.get_legend_handles_labels() for ax in axes]
    figure.legend(
        *max(named, key=lambda found: len(found[0])),
        loc="outside lower center",
        ncols=5,
        frameon=False,
        fontsize=8,
    )
    _drop_legends(axes)


def _drop_legends(axes: list[Axes]) -> None:
    for ax in axes:
        if (legend := ax.get_legend()) is not None:
            legend.remove()


def some(rows: np.ndarray, count: int = 600) -> np.ndarray:
    """At most ``count`` rows, evenly spaced: as many as a picture can show."""
    if len(rows) <= count:
        return rows
    return rows[np.linspace(0, len(rows) - 1, count).round().astype(np.int64)]


def limits(points: Mapping[str, np.ndarray]) -> list[tuple[float, float]]:
    """From where to where each axis runs: a line drawn through x = 0 must not stretch it."""
    rows = np.concatenate(list(points.values()))
    low, high = rows.min(axis=0), rows.max(axis=0)
    room = 0.03 * (high - low)
    return list(zip((low - room).tolist(), (high + room).tolist(), strict=True))


def bin_counts(
    groups: Mapping[str, np.ndarray], bins: int | np.ndarray = 50, tail: float = 0.0
) -> dict[str, Any]:
    """Histograms of several groups over shared bins.

    Parameters
    ----------
    groups
        Label → values.
    bins
        How many from the least to the largest value of all, or their edges.
    tail
        Share of the largest values that is left out.
    """
    edges = bins
    if isinstance(bins, int):
        together = np.concatenate(list(groups.values()))
        edges = np.linspace(together.min(), np.quantile(together, 1 - tail), bins + 1)
    return {
        "edges": edges,
        "counts": {name: np.histogram(values, edges)[0] for name, values in groups.items()},
    }
