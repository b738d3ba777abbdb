"""``measure``: every quantity at once, as one frozen result that prints as a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

import numpy as np

from modgap.arrays import Listener, listening, namespace, to_numpy
from modgap.core.checks import (
    Array,
    InputValueError,
    check_count,
    check_same_space,
    check_temperature,
)
from modgap.core.memory import give_back
from modgap.core.results import Progress, silent
from modgap.io import Embeddings, Modalities
from modgap.io.modalities import DEFAULT_NAMES
from modgap.measures.cone import mean_standard_error
from modgap.measures.conformity import BINS
from modgap.measures.ellipsoid import histogram_divergence, variance_tail
from modgap.measures.gap import orthogonality_of, separability_of
from modgap.measures.landscape import origin_landscape_of, shift_landscape_of
from modgap.measures.measurement import (
    MAX_LANDSCAPE,
    Between,
    Measurement,
    ModalitySummary,
    PairSummary,
)
from modgap.measures.pairing import MAX_SAMPLE as MAX_SIGNAL
from modgap.measures.pairing import signal_of_rows, warn_if_unpaired
from modgap.measures.side_rows import SideRows, products_of_pairs
from modgap.measures.uniformity import alignment_of
from modgap.moments import Moments, PairMoments, mean_distances, stacked_uniformity
from modgap.moments.modality import moments_of_rows
from modgap.moments.rows import moment_blocks

# What is quadratic in the rows uses a seeded sample of at most this many.
MAX_SAMPLE = 20_000
# Of the sample: cosines, shell; products of all pairs (two), loss over the gap.
_PASSES_OF_SIDE, _PASSES_OF_PAIRS = 2, 3


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
    landscape over the origin the first 2,000 pairs of it; the result says how many, and which rows
    occur several times. Warns where pairs do not look like pairs; see ``pairing_signal``.

    Parameters
    ----------
    X, Y : (n, d) and (m, d) arrays, tensors, Embeddings, paths or tables
        The rows of the two modalities. ``X`` alone may be a path or table that holds both, one
        ``Modalities``, or a mapping of names to rows with any number of them; see inputs.md.
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
        Called as ``progress(step, done, total)`` at each block: the rows looked at so far and in
        all, one step after the other.
    """
    check_temperature(temperature)
    check_count(sample, "sample", at_least=2)
    data = Modalities.of(X, Y, names, groups=groups, paired=paired)
    if all(side.partial is None for side in data.sides.values()):  # which is read only once
        data = replace(data, duplicates=data.with_duplicates_grouped().duplicates)
    return measured(data, temperature, sample, seed, progress or silent)[0]


def measured(
    data: Modalities,
    temperature: float = 0.01,
    sample: int = MAX_SAMPLE,
    seed: int = 0,
    progress: Progress = silent,
    *,
    warns: bool = True,
) -> tuple[Measurement, dict[str, Moments]]:
    """``measure``, and the moments of all rows of each modality, which it gathers.

    Without ``warns`` nobody looks whether pairs look like pairs.
    """
    run = _Run(data, temperature, sample, seed, progress, warns)
    return run.measure(), run.moments


@dataclass(eq=False)
class _Run:
    """What the steps of one measurement share: the rows looked at, and the moments of all."""

    data: Modalities
    temperature: float
    sample: int
    seed: int
    progress: Progress
    warns: bool
    sides: dict[str, SideRows] = field(default_factory=dict)
    moments: dict[str, Moments] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)
        every_two = list(combinations(self.data.names, 2))
        self.twos = {two: self.data.pair(*two) for two in every_two}
        sides = [*self.data.sides.values(), *self.data.asking.values()]
        streamed = not all(side.in_memory for side in sides)
        self.steps = Steps(self.progress, self._total(), tidy=streamed)

    def _total(self) -> int:
        """How many rows all steps together will look at."""
        sides = [*self.data.sides.values(), *self.data.asking.values()]
        total = sum(side.n_rows + _PASSES_OF_SIDE * min(side.n_rows, self.sample) for side in sides)
        for (first, second), two in self.twos.items():
            total += sum(min(self.data.sides[name].n_rows, self.sample) for name in (first, second))
            if two.paired:
                n = min(two.n_groups, self.sample)
                total += _PASSES_OF_PAIRS * n + min(n, MAX_LANDSCAPE)
        return total

    def measure(self) -> Measurement:
        data, names = self.data, self.data.names
        asking = {f"{name} queries": side for name, side in data.asking.items()}
        sides = {**data.sides, **asking}
        for name, side in sides.items():
            with self.steps.step(f"moments of {name}", side.n_rows) as passed:
                self.moments[name] = _moments(side, name, passed)
            self.sides[name] = self._side_rows(name, side)
            first = self.sides[names[0]].rows
            check_same_space(first, self.sides[name].rows, (names[0], name))
        # The moments looked at every row, so that the samples need no second look.
        summaries = [self._modality(name) for name in sides]
        between = [self._between(*two) for two in self.twos]
        every = [self.moments[name] for name in names]
        gaps = mean_distances([*every, *(self.moments[name] for name in asking)])
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
            duplicates=data.duplicates,
        )

    def _side_rows(self, name: str, side: Embeddings) -> SideRows:
        """The rows looked at; the moments of all are theirs where they are all."""
        chosen = _pick(self.rng, side.n_rows, self.sample)
        if chosen is None:
            return SideRows(side.rows(), self.moments[name])
        rows = side.take(chosen)
        return SideRows(rows, moments_of_rows(rows, name))

    def _between(self, first: str, second: str) -> Between:
        x, y = self.sides[first], self.sides[second]
        X, Y = x.rows, y.rows
        moments = PairMoments(self.moments[first], self.moments[second])
        separability = to_numpy(moments.separability())
        tops = np.argsort(-separability, kind="stable")[:10]
        enough, divergence = min(len(X), len(Y)) >= 2, None
        if enough:
            columns = x.conformity[:, None], y.conformity[:, None]
            divergence = float(histogram_divergence(*columns, BINS)[0])
        with self.steps.step(f"separability of {first} and {second}", len(X) + len(Y)):
            linear = separability_of(X, Y, self.seed) if enough else None
        return Between(
            names=(first, second),
            gap_distance=moments.gap_distance(),
            unit_gap_distance=moments.at_unit_length().gap_distance(),
            gap_orthogonality=orthogonality_of(X, Y, PairMoments(x.moments, y.moments)),
            linear_separability=linear,
            n_tags=int(np.sum(separability > 1)),
            top_features=tuple((int(f), float(separability[f])) for f in tops),
            feature_divergence_max=float(np.max(histogram_divergence(X, Y, BINS))),
            conformity_divergence=divergence,
            pairs=self._pairs(first, second),
        )

    def _pairs(self, first: str, second: str) -> PairSummary | None:
        """What a sample of the matching rows of two modalities tells, one pair of each group."""
        two = self.twos[first, second]
        if not two.paired or two.n_groups == 0:
            return None
        matches = two.matches(_pick(self.rng, two.n_groups, self.sample))
        x, y = map(self._matching, (first, second), matches)
        X, Y = x.rows, y.rows
        some = _pick(self.rng, x.n, MAX_SIGNAL)
        looked_at = (X, Y) if some is None else (X[some], Y[some])
        if self.warns:
            warn_if_unpaired(signal_of_rows(*looked_at, two.names))
        return self._pair_summary(x, y, two.n_groups, f"{first} and {second}")

    def _matching(self, name: str, index: np.ndarray) -> SideRows:
        """Rows of one side that are in pairs; those looked at already, where they are all rows."""
        side, known = self.data.sides[name], self.sides[name]
        if known.n == side.n_rows == len(index) and np.array_equal(index, np.arange(len(index))):
            return known
        rows = side.take(index)
        return SideRows(rows, moments_of_rows(rows, name, detail="mean"))

    def _modality(self, name: str) -> ModalitySummary:
        side, moments = self.sides[name], self.moments[name]
        n, xp = side.n, namespace(side.rows)
        opening, spread, typical, estimate, thin = None, None, None, None, None
        with self.steps.step(f"cone and uniformity of {name}", n):
            if n >= 2:
                opening, spread = side.cone_and_uniformity()
                if n < moments.n:
                    error = mean_standard_error(side.conformity, moments.n)
                    opening = replace(opening, standard_error=error)
        with self.steps.step(f"shell and conformity of {name}", n):
            lengths = side.lengths
            if side.several:
                typical, estimate, thin = side.conformity, side.estimated_conformity(), side.shell
        if n < moments.n:  # the pairs are other rows
            side.forget_unit()
        variance = to_numpy(moments.given.variance)
        dominance = to_numpy(moments.off_diagonal_dominance())
        return ModalitySummary(
            name=name,
            n=moments.n,
            n_sample=n,
            norm_mean=float(xp.mean(lengths)),
            norm_std=float(xp.std(lengths)),
            feature_offset_max=float(np.max(to_numpy(moments.feature_offset()))),
            variance_tail=variance_tail(variance),
            off_diagonal_dominance_median=float(np.median(dominance)),
            cone=opening,
            uniformity=spread,
            shell=thin,
            conformity_mean=float(xp.mean(typical)) if typical is not None else None,
            conformity_std=float(xp.std(typical)) if typical is not None else None,
            conformity_pearson=estimate.pearson if estimate else None,
            conformity_slope=estimate.slope if estimate else None,
        )

    def _pair_summary(self, x: SideRows, y: SideRows, n_pairs: int, names: str) -> PairSummary:
        X, Y = x.rows, y.rows
        n, xp, step = x.n, namespace(X), self.steps.step
        few = min(n, MAX_LANDSCAPE)
        shift, origin = None, None
        differences = x.conformity - y.conformity if n >= 2 else None
        with step(f"loss, margin and soft assignments of {names}", 2 * n, passes=2):
            loss, smallest, assignments = products_of_pairs(x, y, self.temperature)
        for side in (x, y):
            side.forget_unit()
        # In one dimension a step can put a row onto the origin.
        with step(f"loss over the gap of {names}", n), suppress(InputValueError):
            shift = shift_landscape_of(X, Y)
        # Rows of no variety fall onto it at alpha 1.
        with step(f"loss over the origin of {names}", few), suppress(InputValueError):
            if n >= 2:
                origin = origin_landscape_of(X[:few], Y[:few], temperature=self.temperature)
        return PairSummary(
            n_pairs=n_pairs,
            n_sample=n,
            alignment=alignment_of(X, Y),
            margin=smallest,
            loss=loss,
            temperature=self.temperature,
            soft_assignment_spread=(assignments.spread_x, assignments.spread_y),
            conformity_difference_std=None if differences is None else float(xp.std(differences)),
            shift_landscape=shift,
            origin_landscape=origin,
        )


def _moments(side: Embeddings, name: str, passed: Listener) -> Moments:
    """Moments of every row, told block by block."""
    if not side.in_memory:
        read = 0

        def reading(_: str, done: int, total: int) -> None:
            nonlocal read
            passed((done - read) / total)
            read = done

        return side.moments(name, reading)
    rows = side.rows()

    def blocks() -> Iterator[Array]:
        for block in moment_blocks(side.n_rows):
            yield rows[block]
            passed((block.stop - block.start) / side.n_rows)

    return Moments.from_stream(blocks(), name=name)


def _pick(rng: np.random.Generator, n: int, sample: int) -> np.ndarray | None:
    """Rows to look at, in order; None means all of them."""
    return None if n <= sample else np.sort(rng.choice(n, sample, replace=False))


class Steps:
    """Counts the rows of one step after the other, and tells ``progress`` at each block.

    ``tidy`` gives the memory that a step has left back to the system.

    >>> heard = []
    >>> steps = Steps(lambda *told: heard.append(told), total=4)
    >>> with steps.step("cone", 4) as passed:
    ...     passed(0.5)
    >>> heard
    [('cone', 0, 4), ('cone', 2, 4), ('cone', 4, 4)]
    """

    def __init__(self, progress: Progress, total: int, *, tidy: bool = False) -> None:
        self._progress, self._total, self._tidy = progress, total, tidy
        self._done = 0

    @contextmanager
    def step(self, what: str, rows: int, passes: int = 1) -> Iterator[Listener]:
        """A step that looks at ``rows`` rows, in so many passes over the data."""
        shares = 0.0

        def passed(share: float) -> None:
            nonlocal shares
            shares += share / passes
            # Of a step that took more passes than it said, the end is reported when it is reached.
            self._tell(what, self._done + int(rows * shares), self._done + rows)

        self._tell(what, self._done, self._done)
        with listening(passed):
            yield passed
        if self._tidy:
            give_back()
        self._done += rows
        self._tell(what, self._done, self._done)

    def _tell(self, what: str, done: int, most: int) -> None:
        self._progress(what, min(done, most), self._total)
