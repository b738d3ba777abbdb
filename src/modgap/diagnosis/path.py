"""What happens on the way: the metrics as a correction is applied little by little."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from modgap.core.checks import Array, InputError, InputValueError, check_choice, check_numbers
from modgap.core.results import NOT_IN_JSON, HasFigure, Progress, Result, silent
from modgap.corrections import (
    METRICS,
    Center,
    Correction,
    Corrector,
    Metric,
    OrthogonalShift,
    Shift,
    query_modalities,
    row_length,
)
from modgap.corrections.interpolated import in_proportion, interpolated
from modgap.diagnosis.diagnosis import Diagnosis
from modgap.diagnosis.splits import split
from modgap.evaluation.metric_names import metric_descriptions, metric_name
from modgap.evaluation.metrics import AsTheyAre, correction_metrics, whole
from modgap.io import Embeddings, Modalities
from modgap.io.modalities import DEFAULT_NAMES
from modgap.measures.loss import terms_of_pairs

STEPS = tuple(round(0.1 * step, 1) for step in range(11))
TEMPERATURES = (0.01, 0.02, 0.1, 1.0)
# What the papers do: they move a modality as a whole.
MOVES: tuple[Corrector, ...] = (Shift(0.5), Center(), OrthogonalShift("y", 0.95))
# Those of diagnose that tell most; storing in fewer bits and neighbours kept are left to it.
_LEFT_OUT = ("robust_to_int8", "robust_to_1bit", "neighbours_kept")


@dataclass(frozen=True, eq=False)
class GapPath(HasFigure, Result):
    """Metrics of held-out rows at each step of a correction: 0 is none of it, 1 all of it.

    ``losses`` has one row per temperature: contrastive losses of ``n_pairs`` held-out pairs as
    documents, without a column of hubs. None without pairs, and where each modality has columns of
    its own. ``correction`` is the one at step 1, in proportion to the rows as they are; what a step
    between them is, ``modgap.corrections.interpolated`` says.
    """

    method: str
    metric: str
    steps: np.ndarray
    metrics: Mapping[str, np.ndarray]
    temperatures: tuple[float, ...]
    losses: np.ndarray | None
    n_groups: int
    n_pairs: int
    correction: Correction = field(repr=False, metadata=NOT_IN_JSON)

    @property
    def renormalise(self) -> bool:
        """Whether rows are brought to unit length on the way."""
        maps = [self.correction.affine(name) for name in self.correction.names]
        return any(m.renormalise or (m.normalise and self.metric == "cosine") for m in maps)

    def _brief(self) -> str:
        found = ", ".join(
            f"{metric_name(key, ())} {values[0]:.3f} → {values[-1]:.3f}"
            for key, values in self.metrics.items()
        )
        return f"{self.method}, {len(self.steps)} steps, {self.n_groups:,} groups, {found}"


def gap_paths(
    X: Array | Embeddings | Modalities,
    Y: Array | Embeddings | None = None,
    names: Sequence[str] = DEFAULT_NAMES,
    *,
    groups: tuple[Any, Any] | None = None,
    paired: bool | None = None,
    queries: str | Sequence[str] | None = None,
    metric: Metric = "cosine",
    diagnosis: Diagnosis | None = None,
    moves: Sequence[Corrector] = MOVES,
    steps: Sequence[float] = STEPS,
    move_steps: Sequence[float] | None = None,
    temperatures: Sequence[float] = TEMPERATURES,
    seed: int = 0,
    progress: Progress | None = None,
) -> tuple[tuple[GapPath, ...], dict[str, str]]:
    """The metrics of ``diagnose`` at each step of corrections, and why one could not be followed.

    Rows are split as ``diagnose`` splits them with the same seed: corrections are fitted on the fit
    split and evaluated on the confirm split. At 0 and 1 the metrics are therefore those of
    ``diagnose`` for the rows as they are and for the correction.

    Parameters
    ----------
    X, Y, names, groups, paired
        The modalities, as for ``measure``.
    queries : str or several, optional
        The query modalities, as for ``diagnose``.
    metric : {"cosine", "inner_product", "euclidean"}
        The metric that ranks the raw rows.
    diagnosis : Diagnosis, optional
        That of the same rows, queries, metric and seed: the correction that it recommends or offers
        comes first, or the best fixed one where that moves no row.
    moves : sequence of Corrector
        Corrections to follow besides, those of the papers by default.
    steps : sequence of float
        Shares of the correction from 0, the rows as they are, to 1, all of it.
    move_steps : sequence of float, optional
        Those of ``moves``, where they are to be others.
    temperatures : sequence of float
        Temperatures of the contrastive loss.
    seed : int
        Seed of the splits and the noise.
    progress : callable, optional
        Called as ``progress(step, done, total)``.
    """
    check_choice(metric, "metric", METRICS)
    all_steps = _check_steps(steps)
    few_steps = all_steps if move_steps is None else _check_steps(move_steps)
    say = progress or silent
    data = Modalities.of(X, Y, names, groups=groups, paired=paired)
    if diagnosis is None or diagnosis.duplicates is not None:  # as they were split there
        data = data.with_duplicates_grouped()
    asking = query_modalities(queries, data.names)
    splits, rows = split(data, seed), row_length(metric)
    moments = splits.fit.moments(unit=rows == "unit")
    confirm = splits.confirm.check(nonzero=rows == "unit")
    confirm = confirm.at_unit_length() if rows == "unit" else confirm
    heats = tuple(check_numbers(temperatures, "temperatures", positive=True).tolist())
    held = _Steps(confirm, asking, metric, heats, seed)
    known = dict(diagnosis.corrections) if diagnosis else {}
    correctors = {one.label: one for one in moves}
    ways = {name: all_steps for name in known if diagnosis and name == diagnosis.moving}
    ways |= {name: few_steps for name in correctors if name not in ways}
    paths: list[GapPath] = []
    failures: dict[str, str] = {}
    done, total = 0, sum(map(len, ways.values()))
    for name, shares in ways.items():
        done, start = done + len(shares), done
        say(name, start, total)
        correction, reason = known.get(name), ""
        if correction is None:
            correction, reason = correctors[name].try_fit(splits.fit, rows=rows, moments=moments)
        if correction is None:
            failures[name] = reason
            continue
        try:
            found = []
            for number, step in enumerate(shares.tolist()):
                say(name, start + number, total)
                found.append(held.at(correction, step))
        except InputError as unusable:  # a row on the origin, for instance
            failures[name] = str(unusable)
            continue
        losses = [of_step for _, of_step in found]
        paths.append(
            GapPath(
                method=name,
                metric=correction.metric,
                steps=shares,
                metrics={key: np.array([f[key] for f, _ in found]) for key in found[0][0]},
                temperatures=heats,
                losses=np.array(losses).T if all(losses) else None,
                n_groups=splits.n_confirm,
                n_pairs=held.n_pairs,
                correction=in_proportion(correction),
            )
        )
    return tuple(paths), failures


def _check_steps(steps: Sequence[float]) -> np.ndarray:
    found = check_numbers(steps, "steps")
    if np.any((found < 0) | (found > 1)):
        raise InputValueError(f"steps must be between 0 and 1, got {list(steps)}.")
    return found


class _Steps:
    """Evaluates one step at a time on the same rows and the same noise."""

    def __init__(
        self,
        data: Modalities,
        asking: tuple[str, ...],
        metric: Metric,
        temperatures: tuple[float, ...],
        seed: int,
    ) -> None:
        self.data, self.temperatures, self.seed = data, temperatures, seed
        self.asking = asking
        self.pairs = data.pairs() if data.paired else data
        self.n_pairs = self.pairs.two()[0].n_rows if data.paired else 0
        self.wanted = [n for n in metric_descriptions(data.names, asking) if n not in _LEFT_OUT]
        self.as_they_are = AsTheyAre(data, seed)
        self.identity = Correction.identity(data.dim, data.names, metric=metric)
        self._as_it_is: tuple[dict[str, float], list[float]] | None = None

    def at(self, correction: Correction, step: float) -> tuple[dict[str, float], list[float]]:
        """Metrics and losses of the held-out rows at one step."""
        if step != 0:
            return self._evaluate(interpolated(correction, step))
        if self._as_it_is is None:  # the same for every move
            self._as_it_is = self._evaluate(self.identity)
        return self._as_it_is

    def _evaluate(self, correction: Correction) -> tuple[dict[str, float], list[float]]:
        found = correction_metrics(self.as_they_are, correction, self.asking, self.wanted)
        return {name: whole(sample) for name, sample in found.items()}, self._losses(correction)

    def _losses(self, correction: Correction) -> list[float]:
        """Of the documents of pairs: a column of hubs is no place in the space."""
        maps = [correction.affine(name) for name in self.data.names]
        if not self.data.paired or any(len(m.blocks or ()) > 1 for m in maps):
            return []
        first, second = (
            affine.mapped(side.rows(), name, nonzero=True)
            for affine, (name, side) in zip(maps, self.pairs.sides.items(), strict=True)
        )
        return [terms_of_pairs(first, second, t).loss for t in self.temperatures]
