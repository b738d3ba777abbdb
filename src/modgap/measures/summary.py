"""``measure``: every quantity at once, as one frozen result that prints as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np

from modgap._arrays import namespace, to_numpy
from modgap._results import Progress, silent
from modgap._validate import (
    Array,
    InputValueError,
    already_checked,
    check_count,
    check_same_space,
    check_temperature,
)
from modgap.io import Embeddings, Modalities
from modgap.io.modalities import DEFAULT_NAMES
from modgap.measures.cone import cone
from modgap.measures.conformity import (
    conformity,
    conformity_difference,
    conformity_divergence,
    estimated_conformity,
)
from modgap.measures.ellipsoid import feature_divergence, shell
from modgap.measures.gap import gap_orthogonality, linear_separability, margin, norms
from modgap.measures.landscape import origin_landscape, shift_landscape
from modgap.measures.loss import loss_terms, soft_assignments
from modgap.measures.measurement import (
    MAX_LANDSCAPE,
    Between,
    Measurement,
    ModalitySummary,
    PairSummary,
)
from modgap.measures.pairing import MAX_SAMPLE as MAX_SIGNAL
from modgap.measures.pairing import signal_of_rows, warn_if_unpaired
from modgap.measures.uniformity import uniformity
from modgap.moments import Moments, PairMoments, gap_matrix, stacked_uniformity

# What is quadratic in the rows uses a seeded sample of at most this many.
MAX_SAMPLE = 20_000


def measure(
    X: Array | Embeddings | Modalities | Mapping[str, Array | Embeddings],
    Y: Array | Embeddings | None = None,
    names: Sequence[str] = DEFAULT_NAMES,
    *,
    groups: tuple[Any, Any] | Mapping[str, Any] | None = None,
    paired: bool | None = None,
    temperature: float = 0.01,
    sample: int = MAX_SAMPLE,
    seed: int = 0,
    progress: Progress | None = None,
) -> Measurement:
    """Every measure of modgap on two modalities or more; without pairs, those that need none.

    Of more than two, each is measured once, and every two of them together.

    Moment statistics use every row. What is quadratic in the rows uses a seeded sample, and the
    landscape over the origin the first 2,000 pairs of it; the result says how many. Warns where
    pairs do not look like pairs; see ``pairing_signal``.

    Parameters
    ----------
    X, Y : (n, d) and (m, d) arrays, tensors, Embeddings, paths or tables
        The rows of the two modalities. ``X`` alone may be a path or table that holds both, one
        ``Modalities``, or a mapping of names to rows with any number of them; see docs/inputs.md.
    names : pair of str
        What the modalities are called.
    groups : (gx, gy), optional
        One label per row; rows with the same label match. Without it row i matches row i where
        n = m. A mapping by name where the rows are one; of files and tables, the name of a column.
    paired : bool, optional
        False: the rows are not pairs, even if n = m.
    temperature : float
        Temperature of the contrastive loss.
    sample : int
        At most this many rows of each side for what is quadratic.
    seed : int
        Seed of the samples.
    progress : callable, optional
        Called as ``progress(step, done, total)``.
    """
    check_temperature(temperature)
    check_count(sample, "sample", at_least=2)
    data = Modalities.of(X, Y, names, groups=groups, paired=paired)
    run = _Run(data, temperature, sample, seed, progress or silent)
    return run.measure()


@dataclass(eq=False)
class _Run:
    """What the steps of one measurement share: the rows looked at, and the moments of all."""

    data: Modalities
    temperature: float
    sample: int
    seed: int
    progress: Progress
    n_done: int = 0
    rows: dict[str, Array] = field(default_factory=dict)
    moments: dict[str, Moments] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)

    def say(self, step: str) -> None:
        k = len(self.data.names)
        total = 1 + k + len(self.data.asking) + k * (k - 1)
        self.progress(step, self.n_done, total)
        self.n_done += 1

    def measure(self) -> Measurement:
        data, names = self.data, self.data.names
        asking = {f"{name} queries": side for name, side in data.asking.items()}
        sides = {**data.sides, **asking}
        self.say("moments of every row")
        for name, side in sides.items():
            self.moments[name] = side.moments(name, self.progress)
            self.rows[name] = _rows(side, _pick(self.rng, side.n_rows, self.sample))
            check_same_space(self.rows[names[0]], self.rows[name], (names[0], name))
        # The moments looked at every row, so the samples need no second look.
        with already_checked(*self.rows.values(), nonzero=True):
            summaries = []
            for name in sides:
                self.say(f"cone, shell and conformity of {name}")
                summaries.append(_modality(name, self.rows[name], self.moments[name]))
            between = [self._between(*two) for two in combinations(names, 2)]
        every = [self.moments[name] for name in names]
        gaps = gap_matrix([*every, *(self.moments[name] for name in asking)])
        k = len(names)
        return Measurement(
            names=names,
            dim=every[0].dim,
            seed=self.seed,
            wasserstein_uniformity=stacked_uniformity(every),
            modalities=tuple(summaries[:k]),
            gap_matrix=gaps[:k, :k],
            between=tuple(between),
            asking=tuple(summaries[k:]),
            asking_gaps=tuple(map(tuple, gaps[k:, :k].tolist())),
        )

    def _between(self, first: str, second: str) -> Between:
        X, Y = self.rows[first], self.rows[second]
        self.say(f"gap and separability of {first} and {second}")
        moments = PairMoments(self.moments[first], self.moments[second])
        separability = to_numpy(moments.separability())
        tops = np.argsort(-separability, kind="stable")[:10]
        enough = min(len(X), len(Y)) >= 2
        return Between(
            names=(first, second),
            gap_distance=moments.gap_distance(),
            gap_orthogonality=gap_orthogonality(X, Y),
            linear_separability=linear_separability(X, Y, self.seed) if enough else None,
            n_tags=int(np.sum(separability > 1)),
            top_features=tuple((int(f), float(separability[f])) for f in tops),
            feature_divergence_max=float(np.max(to_numpy(feature_divergence(X, Y)))),
            conformity_divergence=conformity_divergence(X, Y) if enough else None,
            pairs=self._pairs(first, second),
        )

    def _pairs(self, first: str, second: str) -> PairSummary | None:
        """What a sample of the matching rows of two modalities tells, one pair of each group."""
        two = self.data.pair(first, second)
        if not two.paired or two.n_groups == 0:
            return None
        self.say(f"pairs, loss and landscapes of {first} and {second}")
        matches = two.matches()
        chosen = _pick(self.rng, two.n_groups, self.sample)
        X, Y = (
            _rows(side, rows if chosen is None else rows[chosen])
            for side, rows in zip(two.two(), matches, strict=True)
        )
        some = _pick(self.rng, X.shape[0], MAX_SIGNAL)
        looked_at = (X, Y) if some is None else (X[some], Y[some])
        with already_checked(X, Y, nonzero=True):
            warn_if_unpaired(signal_of_rows(*looked_at, two.names))
            return _pair_summary(X, Y, len(matches[0]), self.temperature)


def _rows(side: Embeddings, index: np.ndarray | None) -> Array:
    return side.rows() if index is None else side.take(index)


def _pick(rng: np.random.Generator, n: int, sample: int) -> np.ndarray | None:
    """Rows to look at, in order; None means all of them."""
    return None if n <= sample else np.sort(rng.choice(n, sample, replace=False))


def _modality(name: str, rows: Array, moments: Moments) -> ModalitySummary:
    xp = namespace(rows)
    lengths = norms(rows)
    several = rows.shape[0] >= 2 and bool(xp.any(rows != rows[:1]))
    typical = conformity(rows) if several else None
    estimate = estimated_conformity(rows) if several else None
    variance = to_numpy(moments.given.variance)
    middle = float(np.median(variance))
    return ModalitySummary(
        name=name,
        n=moments.n,
        n_sample=int(rows.shape[0]),
        norm_mean=lengths.mean,
        norm_std=lengths.std,
        feature_offset_max=float(np.max(to_numpy(moments.feature_offset()))),
        variance_tail=float(np.max(variance)) / middle if middle > 0 else float("nan"),
        off_diagonal_dominance_median=float(np.median(to_numpy(moments.off_diagonal_dominance()))),
        cone=cone(rows) if rows.shape[0] >= 2 else None,
        uniformity=uniformity(rows) if rows.shape[0] >= 2 else None,
        shell=shell(rows) if several else None,
        conformity_mean=float(xp.mean(typical)) if typical is not None else None,
        conformity_std=float(xp.std(typical)) if typical is not None else None,
        conformity_pearson=estimate.pearson if estimate else None,
        conformity_slope=estimate.slope if estimate else None,
    )


def _pair_summary(X: Array, Y: Array, n_pairs: int, temperature: float) -> PairSummary:
    n = X.shape[0]
    moments = PairMoments.from_batch(X, Y, paired=True)
    assignments = soft_assignments(X, Y, temperature)
    few_x, few_y = X[:MAX_LANDSCAPE], Y[:MAX_LANDSCAPE]
    xp = namespace(X)
    shift, origin = None, None
    with suppress(InputValueError):  # in one dimension a step can put a row onto the origin
        shift = shift_landscape(X, Y)
    with suppress(InputValueError):  # rows of no variety fall onto it at alpha 1
        origin = origin_landscape(few_x, few_y, temperature=temperature) if n >= 2 else None
    return PairSummary(
        n_pairs=n_pairs,
        n_sample=n,
        alignment=moments.alignment(),
        margin=margin(X, Y) if n >= 2 else None,
        loss=loss_terms(X, Y, temperature),
        temperature=temperature,
        soft_assignment_spread=(assignments.spread_x, assignments.spread_y),
        conformity_difference_std=float(xp.std(conformity_difference(X, Y))) if n >= 2 else None,
        shift_landscape=shift,
        origin_landscape=origin,
    )
