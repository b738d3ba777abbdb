"""``measure``: every quantity at once, as one frozen result that prints as a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from modgap._arrays import namespace, to_numpy
from modgap._drawing import Range, draw_ranges
from modgap._results import Progress, Result, html_table, number, silent, text_table
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
from modgap.measures.cone import Cone, cone
from modgap.measures.conformity import (
    conformity,
    conformity_difference,
    conformity_divergence,
    estimated_conformity,
)
from modgap.measures.ellipsoid import Shell, feature_divergence, shell
from modgap.measures.gap import (
    GapOrthogonality,
    LinearSeparability,
    gap_orthogonality,
    linear_separability,
    margin,
    norms,
)
from modgap.measures.landscape import (
    OriginLandscape,
    ShiftLandscape,
    origin_landscape,
    shift_landscape,
)
from modgap.measures.loss import LossTerms, loss_terms, soft_assignments
from modgap.measures.pairing import MAX_SAMPLE as MAX_SIGNAL
from modgap.measures.pairing import signal_of_rows, warn_if_unpaired
from modgap.measures.uniformity import uniformity
from modgap.moments import Moments, PairMoments

# What is quadratic in the rows uses a seeded sample of at most this many.
MAX_SAMPLE = 20_000
# The landscape over the origin repeats the whole loss at every step, so it uses fewer still.
MAX_LANDSCAPE = 2_000


@dataclass(frozen=True)
class ModalitySummary(Result):
    """One modality. What one row alone cannot tell is None."""

    name: str
    n: int
    n_sample: int
    norm_mean: float
    norm_std: float
    feature_offset_max: float
    variance_tail: float
    off_diagonal_dominance_median: float
    cone: Cone | None
    uniformity: float | None
    shell: Shell | None
    conformity_mean: float | None
    conformity_std: float | None
    conformity_pearson: float | None
    conformity_slope: float | None


@dataclass(frozen=True)
class PairSummary(Result):
    """What only pairs can tell."""

    n_pairs: int
    n_sample: int
    alignment: float
    margin: float | None
    loss: LossTerms
    temperature: float
    soft_assignment_spread: tuple[float, float]
    conformity_difference_std: float | None
    shift_landscape: ShiftLandscape | None
    origin_landscape: OriginLandscape | None


@dataclass(frozen=True)
class Line(Result):
    """One line of the table: what it is, for each modality or for both together.

    ``term`` names the quantity, for looking up what it means; NaN is a number that the rows
    cannot tell, None one that the line does not have.
    """

    term: str
    label: str
    x: float | None = None
    y: float | None = None
    both: float | None = None


@dataclass(frozen=True)
class Measurement(Result):
    """Everything ``measure`` found; prints as a table, in a notebook too."""

    names: tuple[str, ...]
    dim: int
    seed: int
    gap_distance: float
    gap_orthogonality: GapOrthogonality
    linear_separability: LinearSeparability | None
    n_tags: int
    top_features: tuple[tuple[int, float], ...]
    feature_divergence_max: float
    conformity_divergence: float | None
    wasserstein_uniformity: float
    modalities: tuple[ModalitySummary, ModalitySummary]
    pairs: PairSummary | None

    def lines(self) -> list[Line]:
        """Every number that is shown: for each modality, or for both together."""
        x, y = self.modalities
        orthogonality = self.gap_orthogonality

        def per_side(term: str, label: str, get: Callable[[ModalitySummary], Any]) -> Line:
            return Line(term, label, *(float("nan") if get(m) is None else get(m) for m in (x, y)))

        separable = self.linear_separability
        lines = [
            per_side("rows", "rows", lambda m: m.n),
            Line("dim", "dimensions", both=self.dim),
            Line("gap", "gap distance", both=self.gap_distance),
            Line(
                "gap_orthogonality",
                "mean abs cosine to the gap",
                orthogonality.x.mean_abs,
                orthogonality.y.mean_abs,
            ),
            Line("tags", "features that tag the modality", both=self.n_tags),
        ]
        if separable is not None:
            lines += [
                Line("linear_separability", "linear separability", both=separable.all_features),
                Line("linear_separability", "  with two features", both=separable.two_features),
            ]
        lines += [
            per_side("norm", "row norm", lambda m: m.norm_mean),
            per_side("cone", "cone: mean cosine", lambda m: m.cone and m.cone.mean),
            per_side("cone", "cone: least cosine", lambda m: m.cone and m.cone.min),
            per_side("uniformity", "uniformity", lambda m: m.uniformity),
            Line(
                "wasserstein_uniformity",
                "Wasserstein uniformity",
                both=self.wasserstein_uniformity,
            ),
            per_side("shell", "shell radius", lambda m: m.shell and m.shell.radius),
            per_side("shell_offset", "shell offset", lambda m: m.shell and m.shell.offset),
            per_side(
                "dominance", "off-diagonal dominance", lambda m: m.off_diagonal_dominance_median
            ),
            per_side("conformity", "conformity", lambda m: m.conformity_mean),
            per_side(
                "estimated_conformity",
                "  correlation with its estimate",
                lambda m: m.conformity_pearson,
            ),
            Line("conformity_divergence", "conformity divergence", both=self.conformity_divergence),
        ]
        if self.pairs is not None:
            pairs = self.pairs
            lines += [
                Line("pairs", "pairs", both=pairs.n_pairs),
                Line("alignment", "alignment (mean squared distance)", both=pairs.alignment),
                Line("margin", "margin", both=pairs.margin),
                Line("loss", f"contrastive loss at {pairs.temperature:g}", both=pairs.loss.loss),
            ]
            landscape = pairs.shift_landscape
            for temperature, (gap, _) in landscape.best().items() if landscape else ():
                lines.append(
                    Line("shift_landscape", f"gap of least loss at {temperature:g}", both=gap)
                )
        return lines

    def table(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """Header and rows: the quantity, then each modality, then both together."""
        rows = [
            (line.label, *("" if v is None else number(v) for v in (line.x, line.y, line.both)))
            for line in self.lines()
        ]
        return ("", *self.names, "both"), rows

    def __str__(self) -> str:
        header, rows = self.table()
        return text_table(header, rows) + "\n" + self.sampling()

    def sampling(self) -> str:
        """Which rows the numbers rest on, in words."""
        x, y = self.modalities
        said = "The measures of each modality use every row."
        if (x.n, y.n) != (x.n_sample, y.n_sample):
            said = (
                "Means, variances and the gap use every row; norms, cosines and conformity a "
                f"sample of {x.n_sample:,} and {y.n_sample:,} rows (seed {self.seed})."
            )
        if self.pairs is not None:
            said += f" Measures of pairs use {self.pairs.n_sample:,} pairs, one of each group."
            if self.pairs.n_sample > MAX_LANDSCAPE:
                said += f" The landscape over the origin uses the first {MAX_LANDSCAPE:,} of them."
        return said

    def _repr_html_(self) -> str:
        return self._drawing() + html_table(*self.table(), caption=self.sampling())

    def _drawing(self) -> str:
        """Cosines within each modality, and of pairs across: the gap in one picture."""
        lines = [
            Range(
                f"{m.name} – {m.name}", m.cone.mean, m.cone.min, m.cone.max, (m.cone.q1, m.cone.q3)
            )
            for m in self.modalities
            if m.cone is not None
        ]
        if self.pairs is not None:
            cosine = 1 - self.pairs.alignment / 2
            label = f"{self.names[0]} – its {self.names[1]}"
            lines.append(Range(label, cosine, cosine, cosine, marked=True))
        return draw_ranges("Mean cosine, with quartiles and extremes", lines)


def measure(
    X: Array | Embeddings | Modalities,
    Y: Array | Embeddings | None = None,
    names: Sequence[str] = DEFAULT_NAMES,
    *,
    groups: tuple[Any, Any] | None = None,
    paired: bool | None = None,
    temperature: float = 0.01,
    sample: int = MAX_SAMPLE,
    seed: int = 0,
    progress: Progress | None = None,
) -> Measurement:
    """Every measure of modgap on two modalities; without pairs, those that need none.

    Moment statistics use every row. What is quadratic in the rows uses a seeded sample, and the
    landscape over the origin the first 2,000 pairs of it; the result says how many. Warns where
    pairs do not look like pairs; see ``pairing_signal``.

    Parameters
    ----------
    X, Y : (n, d) and (m, d) arrays, tensors or Embeddings
        The rows of the two modalities. ``X`` may also be one ``Modalities`` with both.
    names : pair of str
        What the modalities are called.
    groups : (gx, gy), optional
        One label per row; rows with the same label match. Without it row i matches row i where
        n = m.
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
    say, total = progress or silent, 5
    sides = data.two()
    rng = np.random.default_rng(seed)
    picks = [_pick(rng, side.n_rows, sample) for side in sides]
    matches = data.matches() if data.paired else None
    pair_picks = _pick_pairs(rng, matches, sample) if matches else None

    say("moments of every row", 0, total)
    moments = data.moments(say)
    xs, ys = (_rows(side, pick) for side, pick in zip(sides, picks, strict=True))
    check_same_space(xs, ys, data.names)
    pair_rows = None
    if pair_picks is not None:
        pair_rows = [_rows(side, pick) for side, pick in zip(sides, pair_picks, strict=True)]
    separability = to_numpy(moments.separability())
    tops = np.argsort(-separability, kind="stable")[:10]
    enough = min(len(xs), len(ys)) >= 2
    # The moments looked at every row, so the samples need no second look.
    with already_checked(xs, ys, *(pair_rows or ()), nonzero=True):
        say("gap and separability", 1, total)
        orthogonality = gap_orthogonality(xs, ys)
        separable = linear_separability(xs, ys, seed) if enough else None
        divergence = float(np.max(to_numpy(feature_divergence(xs, ys))))
        typical = conformity_divergence(xs, ys) if enough else None
        modalities = []
        for done, (name, rows, side) in enumerate(
            zip(data.names, (xs, ys), (moments.x, moments.y), strict=True)
        ):
            say(f"cone, shell and conformity of {name}", 2 + done, total)
            modalities.append(_modality(name, side.n, rows, side))
        pairs = None
        if matches is not None and pair_rows is not None:
            say("pairs, loss and landscapes", 4, total)
            some = _pick(rng, pair_rows[0].shape[0], MAX_SIGNAL)
            looked_at = pair_rows if some is None else [rows[some] for rows in pair_rows]
            warn_if_unpaired(signal_of_rows(looked_at[0], looked_at[1], data.names))
            pairs = _pairs(pair_rows[0], pair_rows[1], len(matches[0]), temperature)
    return Measurement(
        names=data.names,
        dim=moments.x.dim,
        seed=seed,
        gap_distance=moments.gap_distance(),
        gap_orthogonality=orthogonality,
        linear_separability=separable,
        n_tags=int(np.sum(separability > 1)),
        top_features=tuple((int(f), float(separability[f])) for f in tops),
        feature_divergence_max=divergence,
        conformity_divergence=typical,
        wasserstein_uniformity=moments.wasserstein_uniformity(),
        modalities=(modalities[0], modalities[1]),
        pairs=pairs,
    )


def _rows(side: Embeddings, index: np.ndarray | None) -> Array:
    return side.rows() if index is None else side.take(index)


def _pick(rng: np.random.Generator, n: int, sample: int) -> np.ndarray | None:
    """Rows to look at, in order; None means all of them."""
    return None if n <= sample else np.sort(rng.choice(n, sample, replace=False))


def _pick_pairs(
    rng: np.random.Generator, matches: tuple[np.ndarray, ...], sample: int
) -> tuple[np.ndarray, ...]:
    chosen = _pick(rng, len(matches[0]), sample)
    return matches if chosen is None else tuple(rows[chosen] for rows in matches)


def _modality(name: str, n: int, rows: Array, moments: Moments) -> ModalitySummary:
    xp = namespace(rows)
    lengths = norms(rows)
    several = rows.shape[0] >= 2 and bool(xp.any(rows != rows[:1]))
    typical = conformity(rows) if several else None
    estimate = estimated_conformity(rows) if several else None
    variance = to_numpy(moments.given.variance)
    middle = float(np.median(variance))
    return ModalitySummary(
        name=name,
        n=n,
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


def _pairs(X: Array, Y: Array, n_pairs: int, temperature: float) -> PairSummary:
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
