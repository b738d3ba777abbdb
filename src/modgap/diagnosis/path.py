"""What happens on the way: the metrics as a correction is applied little by little."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from modgap._results import HasFigure, Progress, Result, silent
from modgap._validate import Array, InputError, check_choice, check_numbers
from modgap.corrections import (
    METRICS,
    Center,
    Correction,
    Corrector,
    Metric,
    OrthogonalShift,
    Shift,
    asking_or_text,
    row_length,
)
from modgap.corrections.partly import partly
from modgap.diagnosis.splits import split
from modgap.evaluation.metrics import correction_metrics, metric_descriptions, noise_for, whole
from modgap.evaluation.names import metric_name
from modgap.io import Embeddings, Modalities
from modgap.io.modalities import DEFAULT_NAMES
from modgap.measures import contrastive_loss

STEPS = tuple(round(0.1 * step, 1) for step in range(11))
TEMPERATURES = (0.01, 0.02, 0.1, 1.0)
# Corrections that only move a modality as a whole: half of one is a smaller move.
MOVES: tuple[Corrector, ...] = (Shift(0.5), Center(), OrthogonalShift("y", 0.95))
# Those of diagnose that tell most; storing in fewer bits and neighbours kept are left to it.
_LEFT_OUT = ("robust_to_int8", "robust_to_1bit", "neighbours_kept")


@dataclass(frozen=True, eq=False)
class GapPath(HasFigure, Result):
    """Metrics of held-out rows at each step of a move: 0 is the rows as they are, 1 all of it.

    ``offsets`` are what is added to the rows of each modality at step 1, in proportion before
    it; then rows are brought to unit length where ``renormalise`` says so. ``losses`` has one
    row per temperature, None without pairs.
    """

    method: str
    metric: str
    steps: np.ndarray
    metrics: Mapping[str, np.ndarray]
    temperatures: tuple[float, ...]
    losses: np.ndarray | None
    n_groups: int
    renormalise: bool
    offsets: tuple[np.ndarray, np.ndarray]

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
    moves: Sequence[Corrector] = MOVES,
    steps: Sequence[float] = STEPS,
    temperatures: Sequence[float] = TEMPERATURES,
    seed: int = 0,
    progress: Progress | None = None,
) -> tuple[tuple[GapPath, ...], dict[str, str]]:
    """The metrics of ``diagnose`` at each step of the moves, and why a move could not be made.

    Rows are split as ``diagnose`` splits them with the same seed: moves are fitted on the fit
    split and evaluated on the confirm split. At 0 and 1 the metrics are therefore those of
    ``diagnose`` for the rows as they are and for the correction.

    Parameters
    ----------
    X, Y, names, groups, paired
        The modalities, as for ``measure``.
    queries : str or several, optional
        The modalities that ask, as for ``diagnose``.
    metric : {"cosine", "inner_product", "euclidean"}
        How the rows as they are get ranked.
    moves : sequence of Corrector
        Corrections that only add an offset to each modality.
    steps : sequence of float
        Shares of the offset: 0 is the rows as they are, 1 all of it.
    temperatures : sequence of float
        Temperatures of the contrastive loss.
    seed : int
        Seed of the splits and the noise.
    progress : callable, optional
        Called as ``progress(step, done, total)``.
    """
    check_choice(metric, "metric", METRICS)
    wanted_steps = check_numbers(steps, "steps")
    say = progress or silent
    data = Modalities.of(X, Y, names, groups=groups, paired=paired)
    asking = asking_or_text(queries, data.names)
    splits, rows = split(data, seed), row_length(metric)
    moments = splits.fit.moments(unit=rows == "unit")
    confirm = splits.confirm.at_unit_length() if rows == "unit" else splits.confirm
    held = _Steps(confirm, asking, metric, tuple(temperatures), seed)
    paths: list[GapPath] = []
    failures: dict[str, str] = {}
    total = len(moves) * len(wanted_steps)
    for place, corrector in enumerate(moves):
        name = corrector.label
        done = place * len(wanted_steps)
        say(name, done, total)
        correction, reason = corrector.try_fit(splits.fit, rows=rows, moments=moments)
        if correction is None:
            failures[name] = reason
            continue
        try:
            found = []
            for number, step in enumerate(wanted_steps.tolist()):
                say(name, done + number, total)
                found.append(held.at(correction, step))
        except InputError as unusable:  # a row on the origin, for instance
            failures[name] = str(unusable)
            continue
        paths.append(_path(name, correction, wanted_steps, found, held, splits.n_confirm))
    return tuple(paths), failures


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
        self.wanted = [n for n in metric_descriptions(data.names, asking) if n not in _LEFT_OUT]
        self.noise = noise_for(data)
        self.identity = Correction.identity(data.dim, data.names, metric=metric)
        self._as_it_is: tuple[dict[str, float], list[float]] | None = None

    def at(self, correction: Correction, step: float) -> tuple[dict[str, float], list[float]]:
        """Metrics and losses of the held-out rows at one step."""
        if step != 0:
            return self._evaluate(partly(correction, step))
        if self._as_it_is is None:  # the same for every move
            self._as_it_is = self._evaluate(self.identity)
        return self._as_it_is

    def _evaluate(self, correction: Correction) -> tuple[dict[str, float], list[float]]:
        found = correction_metrics(
            self.data, correction, self.noise, self.seed, self.wanted, self.asking
        )
        losses: list[float] = []
        if self.data.paired:
            pairs = self.data.pairs()
            X, Y = correction.x(pairs.X), correction.y(pairs.Y)
            losses = [contrastive_loss(X, Y, t) for t in self.temperatures]
        return {name: whole(sample) for name, sample in found.items()}, losses


def _path(
    name: str,
    correction: Correction,
    steps: np.ndarray,
    found: Sequence[tuple[dict[str, float], list[float]]],
    held: _Steps,
    n_groups: int,
) -> GapPath:
    maps = [correction.affine(side) for side in held.data.names]
    first, second = (np.zeros(m.dim_in) if m.offset is None else m.offset for m in maps)
    return GapPath(
        method=name,
        metric=correction.metric,
        steps=steps,
        metrics={key: np.array([f[key] for f, _ in found]) for key in found[0][0]},
        temperatures=held.temperatures,
        losses=np.array([losses for _, losses in found]).T if held.data.paired else None,
        n_groups=n_groups,
        renormalise=any(m.renormalise for m in maps),
        offsets=(first, second),
    )
