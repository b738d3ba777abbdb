"""What happens on the way: the figures as a correction is applied little by little."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from modgap._results import Result
from modgap._validate import (
    Array,
    InputError,
    InputValueError,
    check_choice,
    check_groups,
    check_matrix,
    check_names,
    check_numbers,
)
from modgap.corrections import (
    METRICS,
    Affine,
    Center,
    Correction,
    Corrector,
    Metric,
    NothingMovesWarning,
    OrthogonalShift,
    Shift,
)
from modgap.diagnosis.figures import (
    figure_names,
    noise_for,
    paired_figures,
    unpaired_figures,
    whole,
)
from modgap.diagnosis.parts import Part, split, split_unpaired
from modgap.diagnosis.run import Progress, corrector_name
from modgap.io import Embeddings
from modgap.measures import contrastive_loss
from modgap.moments import PairMoments

STEPS = tuple(round(0.1 * step, 1) for step in range(11))
TEMPERATURES = (0.01, 0.02, 0.1, 1.0)
# Corrections that only move a modality as a whole: half of one is a smaller move.
MOVES: tuple[Corrector, ...] = (Shift(0.5), Center(), OrthogonalShift("y", 0.95))
# Those of diagnose that tell most; storing in fewer bits and neighbours kept are left to it.
_LEFT_OUT = ("robust_to_int8", "robust_to_1bit", "neighbours_kept")


@dataclass(frozen=True, eq=False)
class GapPath(Result):
    """Figures of held-out rows at each step of a move: 0 is the rows as they are, 1 all of it.

    ``offsets`` are what is added to the rows of each modality at step 1, in proportion before
    it; then rows are brought to unit length where ``renormalise`` says so. ``losses`` has one
    row per temperature, None without pairs.
    """

    method: str
    metric: str
    steps: np.ndarray
    figures: Mapping[str, np.ndarray]
    temperatures: tuple[float, ...]
    losses: np.ndarray | None
    n_groups: int
    renormalise: bool
    offsets: tuple[np.ndarray, np.ndarray]


def gap_paths(
    X: Array | Embeddings,
    Y: Array | Embeddings,
    names: Sequence[str] = ("image", "text"),
    *,
    groups: tuple[Any, Any] | None = None,
    paired: bool | None = None,
    metric: Metric = "cosine",
    moves: Sequence[Corrector] = MOVES,
    steps: Sequence[float] = STEPS,
    temperatures: Sequence[float] = TEMPERATURES,
    seed: int = 0,
    progress: Progress | None = None,
) -> tuple[tuple[GapPath, ...], dict[str, str]]:
    """The figures of ``diagnose`` at each step of the moves, and why a move could not be made.

    Rows are split as ``diagnose`` splits them with the same seed: moves are fitted on the fit
    part and judged on the confirm part. At 0 and 1 the figures are therefore those of
    ``diagnose`` for the rows as they are and for the correction.
    """
    first, second = check_names(names)
    check_choice(metric, "metric", METRICS)
    wanted_steps = check_numbers(steps, "steps")
    say = progress or (lambda step, done, total: None)
    X, Y = (
        rows if isinstance(rows, Embeddings) else check_matrix(rows, name)
        for rows, name in ((X, first), (Y, second))
    )
    if paired is None:
        paired = groups is not None or X.shape[0] == Y.shape[0]
    if paired:
        fit, _, part = split(X, Y, check_groups(groups, X.shape[0], Y.shape[0]), seed)
    else:
        fit, part = split_unpaired(X, Y, seed)
    moments = PairMoments.from_batch(fit.X, fit.Y, unit=False)
    judge = _Steps(part, (first, second), paired, metric, tuple(temperatures), seed)
    paths: list[GapPath] = []
    failures: dict[str, str] = {}
    total = len(moves) * len(wanted_steps)
    for place, corrector in enumerate(moves):
        name = corrector_name(corrector)
        done = place * len(wanted_steps)
        say(name, done, total)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", NothingMovesWarning)
                fitted = clone(corrector).fit(fit.X, fit.Y, names=(first, second), moments=moments)
            found = []
            for number, step in enumerate(wanted_steps.tolist()):
                say(name, done + number, total)
                found.append(judge.at(fitted.correction_, step))
        except (InputError, NothingMovesWarning) as reason:
            failures[name] = str(reason)
            continue
        paths.append(_path(name, fitted.correction_, wanted_steps, found, judge))
    return tuple(paths), failures


def partly(correction: Correction, share: float) -> Correction:
    """A correction of offsets alone, applied in part: each offset times ``share``."""
    maps = {}
    for key, affine in correction.maps.items():
        if affine.matrix is not None or affine.scale != 1 or affine.blocks is not None:
            raise InputValueError(
                "Only a correction that moves rows by an offset can be applied in part; "
                f"{correction.about.get('method', 'this one')} does more."
            )
        offset = None if affine.offset is None else share * affine.offset
        maps[key] = Affine(affine.dim_in, offset=offset, renormalise=affine.renormalise)
    return Correction(correction.names, maps, correction.metric, {"share": share})


class _Steps:
    """Judges one step at a time on the same rows and the same noise."""

    def __init__(
        self,
        part: Part,
        names: tuple[str, str],
        paired: bool,
        metric: Metric,
        temperatures: tuple[float, ...],
        seed: int,
    ) -> None:
        self.part, self.names, self.seed = part, names, seed
        self.temperatures = temperatures
        self.paired = paired
        self.figures = paired_figures if paired else unpaired_figures
        self.wanted = [name for name in figure_names(names) if name not in _LEFT_OUT]
        self.noise = noise_for(part)
        self.identity = Correction.identity(part.X.shape[1], names, metric=metric)
        self._as_it_is: tuple[dict[str, float], list[float]] | None = None

    def at(self, correction: Correction, step: float) -> tuple[dict[str, float], list[float]]:
        """Figures and losses of the held-out rows at one step."""
        if step != 0:
            return self._judge(partly(correction, step))
        if self._as_it_is is None:  # the same for every move
            self._as_it_is = self._judge(self.identity)
        return self._as_it_is

    def _judge(self, correction: Correction) -> tuple[dict[str, float], list[float]]:
        found = self.figures(self.part, correction, self.noise, self.seed, self.wanted)
        losses: list[float] = []
        if self.paired:
            X, Y, _ = self.part.pairs()
            X, Y = correction.x(X), correction.y(Y)
            losses = [contrastive_loss(X, Y, t) for t in self.temperatures]
        return {name: whole(sample) for name, sample in found.items()}, losses


def _path(
    name: str,
    correction: Correction,
    steps: np.ndarray,
    found: Sequence[tuple[dict[str, float], list[float]]],
    judge: _Steps,
) -> GapPath:
    maps = [correction.map(side) for side in judge.names]
    return GapPath(
        method=name,
        metric=correction.metric,
        steps=steps,
        figures={key: np.array([f[key] for f, _ in found]) for key in found[0][0]},
        temperatures=judge.temperatures,
        losses=np.array([losses for _, losses in found]).T if judge.paired else None,
        n_groups=judge.part.n_groups if judge.paired else len(judge.part.gx),
        renormalise=any(m.renormalise for m in maps),
        offsets=tuple(  # type: ignore[arg-type]
            np.zeros(m.dim_in) if m.offset is None else np.asarray(m.offset) for m in maps
        ),
    )
