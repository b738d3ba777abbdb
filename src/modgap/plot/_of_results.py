"""Which figure a result has. Each is one of the plain kinds, given the numbers of the result."""

from __future__ import annotations

from functools import singledispatch
from typing import TYPE_CHECKING, Any

import numpy as np

from modgap.core.checks import InputTypeError, InputValueError
from modgap.core.drawing import Ranges
from modgap.diagnosis import Diagnosis, GapPath
from modgap.drift import DriftReport
from modgap.evaluation import Evaluation, MixedCurve, MixedRetrieval, Retrieval, Robustness
from modgap.evaluation.metric_names import metric_name
from modgap.measures import Measurement, OriginLandscape, Profile, Projection, ShiftLandscape
from modgap.plot._bars import histograms, ranges
from modgap.plot._curves import curves
from modgap.plot._points import scatter
from modgap.plot._style import panels
from modgap.search import Reliability
from modgap.tasks import TaskSweep

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Recall is drawn over so many places; beyond them a search is of no use.
_PLACES = 100
# Ways that a curve over the share of a move has no place for.
_HUBS = "hubs"


@singledispatch
def draw(result: Any, *, title: str = "", ax: Axes | None = None) -> Axes:
    """The figure of a result; ``result.plot()`` is the same.

    Parameters
    ----------
    result : a result with a figure
        A measurement, a diagnosis, an evaluation, retrieval, mixed retrieval and its curve, a task
        sweep, a path, a landscape, a projection, a profile, robustness, reliability or drift.
    title : str
        Above the drawing; without it, what is drawn where the axes do not say so.
    ax : Axes, optional
        Where to draw; a new figure when left out.
    """
    known = ", ".join(kind.__name__ for kind in draw.registry if kind is not object)
    raise InputTypeError(
        f"{type(result).__name__} has no figure. Those of {known} have; other numbers are drawn "
        "with the functions of modgap.plot."
    )


@draw.register(Measurement)
@draw.register(Diagnosis)
@draw.register(Evaluation)
@draw.register(MixedRetrieval)
@draw.register(DriftReport)
def _ranges(result: Any, *, title: str = "", ax: Axes | None = None) -> Axes:
    found: Ranges = result.ranges()
    return ranges(
        found.lines,
        reference=found.reference,
        span=found.span,
        title=title or found.title,
        ax=ax,
    )


@draw.register(Retrieval)
def _retrieval(result: Retrieval, *, title: str = "", ax: Axes | None = None) -> Axes:
    """Recall over the places that are looked at."""
    ways = result.ranks()
    most = min(_PLACES, max(len(r) for r in (result.ranks_x, result.ranks_y)))
    places = np.arange(1, most + 1)
    found = {
        way: np.searchsorted(np.sort(ranks), places) / len(ranks) for way, ranks in ways.items()
    }
    return curves(
        places, found, xlabel="k", ylabel="recall@k", log="x" if most > 20 else "", title=title,
        ax=ax,
    )  # fmt: skip


@draw.register(MixedCurve)
def _mixed_curve(result: MixedCurve, *, title: str = "", ax: Axes | None = None) -> Axes:
    asked = {f"{name} queries": ndcg for name, ndcg in result.ndcg.items()}
    label = f"share of {result.names[0]} in the index"
    return curves(result.x_shares, asked, xlabel=label, ylabel="NDCG@10", title=title, ax=ax)


@draw.register(TaskSweep)
def task_curve(sweep: TaskSweep, *, title: str = "", ax: Axes | None = None) -> Axes:
    """The mean outcome over the share of a move that is made; 0 is the rows as they are.

    One line for each way that moves rows, with the interval of the first around it.

    Parameters
    ----------
    sweep : TaskSweep
        What ``sweep_task`` found.
    title, ax
        Words above the drawing; where to draw, a new figure when left out.
    """
    lines = {way: sweep.of(way) for way in sweep.ways if not way.startswith(_HUBS)}
    moves = {way: points for way, points in lines.items() if len(points) > 1}
    x = {way: [point.amount for point in points] for way, points in moves.items()}
    ys = {way: [point.value.value for point in points] for way, points in moves.items()}
    first = next(iter(moves), None)
    values = [] if first is None else [point.value for point in moves[first]]
    bands = {} if first is None else {first: ([v.low for v in values], [v.high for v in values])}
    return curves(
        x,
        ys,
        xlabel="share of the move: 0 as they are, 1 all of it",
        ylabel=sweep.outcome,
        bands=bands,
        horizontal={"as they are": sweep.raw.value.value},
        title=title,
        ax=ax,
    )


def task_tests(sweep: TaskSweep, *, title: str = "", ax: Axes | None = None) -> Axes:
    """The change that each way makes, at the amount chosen on one half, on the other half.

    Parameters
    ----------
    sweep, title, ax
        As for ``task_curve``.
    """
    found = sweep.ranges()
    label = f"change of {sweep.outcome}"
    return ranges(found.lines, xlabel=label, reference=found.reference, title=title, ax=ax)


def task_figure(sweep: TaskSweep, *, title: str = "") -> Figure:
    """Both beside each other.

    Parameters
    ----------
    sweep : TaskSweep
        What ``sweep_task`` found.
    title : str
        Above the figure.
    """
    figure, (left, right) = panels(2, size=(5.2, 3.8))
    task_curve(sweep, title=f"all {sweep.n_items:,} items", ax=left)
    task_tests(sweep, title="chosen on one half, tested on the other", ax=right)
    if title:
        figure.suptitle(title, fontsize=11)
    return figure


@draw.register(GapPath)
def _gap_path(result: GapPath, *, title: str = "", ax: Axes | None = None) -> Axes:
    """Every metric over the share of the move."""
    found = {metric_name(key, ()): values for key, values in result.metrics.items()}
    label = f"share of {result.method}: 0 as they are, 1 all of it"
    return curves(result.steps, found, xlabel=label, ylabel="metric", title=title, ax=ax)


@draw.register(ShiftLandscape)
def _shift_landscape(result: ShiftLandscape, *, title: str = "", ax: Axes | None = None) -> Axes:
    """The loss over the remaining gap, its least marked, at each temperature."""
    order = np.argsort(result.gaps)
    heats = [f"temperature {t:g}" for t in result.temperatures]
    losses = {heat: row[order] for heat, row in zip(heats, result.losses, strict=True)}
    marks: dict[str, tuple[Any, Any]] = dict(zip(heats, result.best().values(), strict=True))
    now = float(result.gaps[int(np.argmin(np.abs(result.lambdas)))])
    ax = curves(
        result.gaps[order], losses, xlabel="remaining gap", ylabel="contrastive loss", log="y",
        marks=marks, vertical={"as they are": now}, title=title, ax=ax,
    )  # fmt: skip
    ax.yaxis.set_major_formatter("{x:g}")
    ax.yaxis.set_minor_formatter("{x:g}")
    return ax


@draw.register(OriginLandscape)
def _origin_landscape(result: OriginLandscape, *, title: str = "", ax: Axes | None = None) -> Axes:
    """The loss on the way to the origin: of all pairs, and of those that are found and not."""
    terms = {"all pairs": result.loss, "found": result.matched, "not found": result.mismatched}
    label = "share of the mean that is subtracted"
    best = int(np.argmin(result.loss))
    marks = {"all pairs": (result.alphas[best], result.loss[best])}
    return curves(
        result.alphas, terms, xlabel=label, ylabel=f"loss at temperature {result.temperature:g}",
        marks=marks, title=title, ax=ax,
    )  # fmt: skip


@draw.register(Projection)
def _projection(result: Projection, *, title: str = "", ax: Axes | None = None) -> Axes:
    """The first two dimensions; a colour and a marker for each modality."""
    points = {name: side[:, :2] for name, side in zip(result.names, result.sides, strict=True)}
    shares = ["", ""] if result.share is None else [f" ({s:.0%})" for s in result.share[:2]]
    names = [f"{result.method.upper()} {k + 1}{share}" for k, share in enumerate(shares)]
    return scatter(points, xlabel=names[0], ylabel=names[1], title=title, ax=ax)


@draw.register(Profile)
def _profile(result: Profile, *, title: str = "", ax: Axes | None = None) -> Axes:
    """Cosines within each modality, of matches and of non-matches."""
    cosines = result.cosines
    if cosines is None:
        raise InputValueError("Cosines need two different rows of each modality.")
    counts = {f"within {n}": c for n, c in zip(result.names, cosines.within, strict=True)}
    more = {"matches": cosines.matching, "non-matches": cosines.others}
    counts |= {label: found for label, found in more.items() if found is not None}
    return histograms(cosines.edges, counts, xlabel="cosine", title=title, ax=ax)


@draw.register(Robustness)
def _robustness(result: Robustness, *, title: str = "", ax: Axes | None = None) -> Axes:
    """The share of neighbours kept over the amounts, two standard errors around."""
    away = 2 * np.nan_to_num(result.standard_error)
    bands = {"kept": (result.share - away, result.share + away)}
    return curves(
        result.amounts, {"kept": result.share}, xlabel="amount",
        ylabel="nearest neighbours kept", bands=bands, title=title, ax=ax,
    )  # fmt: skip


@draw.register(Reliability)
def _reliability(result: Reliability, *, title: str = "", ax: Axes | None = None) -> Axes:
    """Observed against predicted; the diagonal is what can be trusted."""
    filled = result.counts > 0
    points = np.stack([result.predicted[filled], result.observed[filled]], axis=1)
    return scatter(
        {"hits": points}, xlabel="predicted probability", ylabel="share of matches",
        line=(1.0, 0.0), title=title or f"expected calibration error {result.ece:.3f}", ax=ax,
    )  # fmt: skip
