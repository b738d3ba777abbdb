"""What the figures about nearest neighbours share: tasks, and sweeps of the gap on them."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from modgap.arrays import unit
from modgap.corrections import NothingMovesWarning, OrthogonalShift
from modgap.corrections.correctors import Threshold
from modgap.evaluation import Robustness, robustness
from modgap.evaluation.noise import Gaussian, Noise, Quantiser
from modgap.evaluation.robustness import nearest
from modgap.evaluation.significance import GroupBootstrap
from modgap.reproduce.chowers2026 import PAPER
from modgap.reproduce.setting import YOUR_CLASSES, YOUR_ROWS, NotAtHand, Setting
from modgap.reproduce.sources import DIGITS, ClassedRows, Pairs, digit_pairs, pairs, zero_shots
from modgap.reproduce.statistics import LEVEL, Interval
from modgap.reproduce.threads import one_thread

# −1 doubles the gap, 0 leaves it, 1 closes what the direction can close.
AMOUNTS = tuple(np.linspace(-1, 1, 9).tolist())
WIDENED, AS_TRAINED, CLOSED = 0, AMOUNTS.index(0.0), -1
# Candidates that a direction can be orthogonal to: as many classes as CIFAR100 has, and fewer pairs
# than CLIP has dimensions.
CLASSES, PAIRS = 100, 500
RESAMPLES = 400


@dataclass(frozen=True, eq=False)
class NeighbourTask:
    """Queries that look for their nearest candidate; ``truth`` is the right one of each.

    Intervals are from resampling whole ``groups`` of queries. ``other`` are the candidates in
    another wording. Where a task is not ``judged`` it is only shown beside others.
    """

    name: str
    queries: np.ndarray
    candidates: np.ndarray
    truth: np.ndarray
    groups: np.ndarray
    other: np.ndarray | None = None
    judged: bool = True

    def direction(
        self, explained_variance: float = 1.0, threshold: Threshold = "cumulative"
    ) -> tuple[np.ndarray, float]:
        """The vector that closes the gap (eq. 11, algorithm 1), and what share of it closes."""
        shift = OrthogonalShift("y", explained_variance, threshold=threshold)
        with one_thread(), warnings.catch_warnings():
            # The share that closes says so.
            warnings.simplefilter("ignore", NothingMovesWarning)
            # The paper moves rows as they are.
            shift.fit(self.queries, self.candidates, rows="given")
        step = np.asarray(shift.correction_.y(np.zeros_like(self.candidates[:1])))[0]
        return step, float(shift.closed_)

    def hits(
        self,
        amounts: Sequence[float],
        direction: np.ndarray,
        candidates: np.ndarray | None = None,
    ) -> np.ndarray:
        """Which queries are answered right as the candidates move, (amounts, queries)."""
        rows = self.candidates if candidates is None else candidates
        with one_thread():
            found = nearest(self.queries, rows, "euclidean", np.asarray(amounts, float), direction)
        return np.asarray(found == self.truth)

    def accuracy(self, amounts: Sequence[float], direction: np.ndarray) -> np.ndarray:
        """Share of right answers as the candidates move; of pairs this is recall@1."""
        return np.asarray(self.hits(amounts, direction).mean(axis=1))

    def sweeps(
        self,
        noises: Mapping[str, Noise | Quantiser],
        draws: int,
        direction: np.ndarray,
        seed: int = 0,
        amounts: Sequence[float] = AMOUNTS,
    ) -> dict[str, Robustness]:
        """Share of unchanged neighbours under each noise as the candidates move (eq. 12)."""
        rows = self.queries, self.candidates
        return {
            name: robustness(*rows, noise, draws, amounts, direction=direction, seed=seed)
            for name, noise in noises.items()
        }

    def mean(self, values: np.ndarray, level: float = LEVEL) -> Interval:
        """The mean of one number a query, or of the change of one, with its interval."""
        boot = self._resamples
        return boot.interval(*boot.ratios(np.asarray(values, float), self.groups), level)

    def of(self, kept: np.ndarray) -> NeighbourTask:
        """The same with some of the queries, by their places."""
        rows = {name: getattr(self, name)[kept] for name in ("queries", "truth", "groups")}
        return replace(self, **rows)

    @cached_property
    def _resamples(self) -> GroupBootstrap:
        return GroupBootstrap(self.groups, RESAMPLES)

    @property
    def gap(self) -> np.ndarray:
        """From the candidates' mean to the queries'."""
        return np.asarray(self.queries.mean(axis=0) - self.candidates.mean(axis=0))


def drawn(n: int, most: int, seed: int) -> np.ndarray:
    """Places of all of n rows, or of as many as are allowed, drawn and in order."""
    return np.sort(np.random.default_rng(seed).permutation(n)[:most])


def class_task(found: ClassedRows, classes: int | None = None, seed: int = 0) -> NeighbourTask:
    """Zero-shot classification by unit rows, of all classes or of some that are drawn."""
    name = found.name if found.name != YOUR_ROWS else YOUR_CLASSES
    X, texts = unit_float32(found.X), unit_float32(found.texts)
    other = None if found.other_texts is None else unit_float32(found.other_texts)
    truth = np.asarray(found.labels)
    # Fewer than dimensions, or no direction would be orthogonal to all.
    most = len(texts) if classes is None else min(classes, X.shape[1] - 1)
    if len(texts) > most:
        kept = drawn(len(texts), most, seed)
        asked = np.isin(truth, kept)
        X, truth, texts = X[asked], np.searchsorted(kept, truth[asked]), texts[kept]
        other = None if other is None else other[kept]
    return NeighbourTask(name, X, texts, truth, truth, other)


def pair_task(found: Pairs, most: int | None = None, seed: int = 0) -> NeighbourTask:
    """Images finding their texts, by unit rows, of all pairs or of some that are drawn."""
    name = found.name if found.name != YOUR_ROWS else "your pairs"
    X, Y = unit_float32(found.X), unit_float32(found.Y)
    most = len(X) if most is None else min(most, X.shape[1] - 1)
    if len(X) > most:
        kept = drawn(len(X), most, seed)
        X, Y = X[kept], Y[kept]
    order = np.arange(len(X))
    return NeighbourTask(name, X, Y, order, order)


def class_tasks(setting: Setting, classes: int | None = None) -> tuple[NeighbourTask, ...]:
    """Every zero-shot task at hand; the digits are judged where they are alone."""
    return _judged([class_task(found, classes, setting.seed) for found in zero_shots(setting)])


def pair_tasks(setting: Setting, most: int | None = None) -> tuple[NeighbourTask, ...]:
    """CLIP, Unsplash, or your own pairs; those of the digits where nothing else is at hand."""
    found = [each for each in pairs(setting) if each.name not in ("VideoCLIP", DIGITS)]
    return tuple(pair_task(each, most, setting.seed) for each in found or [digit_pairs(setting)])


def tasks(
    setting: Setting, classes: int | None = None, most: int | None = None
) -> list[NeighbourTask]:
    """Zero-shot tasks and pairs at hand, of all candidates or of some; the digits come last."""
    try:
        zero_shot = list(class_tasks(setting, classes))
    except NotAtHand:  # your own rows need not have classes
        zero_shot = []
    try:
        paired = [task for task in pair_tasks(setting, most) if task.name != DIGITS]
    except NotAtHand:  # nor need classes have pairs
        if not zero_shot:
            raise
        paired = []
    found = _judged([*zero_shot, *paired])
    return sorted(found, key=lambda task: task.name == DIGITS)


def each_task(
    setting: Setting, found: Sequence[NeighbourTask], step: str
) -> Iterator[NeighbourTask]:
    """The tasks one after the other; progress names the task and the step."""
    for done, task in enumerate(found):
        setting.say(f"{task.name}: {step}", done, len(found))
        yield task


def on(found: Sequence[NeighbourTask | Pairs]) -> str:
    """What the data at hand is, in words."""
    return "; ".join(_words(each) for each in found)


def _words(found: NeighbourTask | Pairs) -> str:
    what = PAPER.rows_words(found.name)
    if isinstance(found, Pairs) or len(found.queries) == len(found.candidates):
        n = len(found.X) if isinstance(found, Pairs) else len(found.queries)
        return f"{what} ({n:,} pairs)"
    return f"{what} ({len(found.queries):,} rows, {len(found.candidates):,} classes)"


def gaussians(*stds: float) -> dict[str, Noise]:
    """Gaussian noises by their standard deviations."""
    return {f"σ {std:g}": Gaussian(std) for std in stds}


def shares(sweeps: Mapping[str, Robustness]) -> dict[str, np.ndarray]:
    """A line of a picture for every sweep."""
    return {f"robustness, {name}": sweep.share for name, sweep in sweeps.items()}


def least(intervals: Sequence[Interval]) -> Interval:
    """The one that reaches lowest: what holds of it holds of all."""
    return min(intervals, key=lambda each: each.low)


def _judged(found: Sequence[NeighbourTask]) -> tuple[NeighbourTask, ...]:
    """Real data is judged where there is some, the digits only where there is none."""
    real = any(task.name != DIGITS for task in found)
    return tuple(replace(task, judged=task.name != DIGITS or not real) for task in found)


def unit_float32(rows: np.ndarray) -> np.ndarray:
    """Rows at unit length, as the paper has them, in float32."""
    return np.asarray(unit(np.asarray(rows, dtype=np.float32)))
