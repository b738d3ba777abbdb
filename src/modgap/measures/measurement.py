"""What ``measure`` finds: each modality, every two of them, and the table it prints as."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import numpy as np

from modgap.core.checks import InputValueError, check_choice, check_names
from modgap.core.drawing import Range, Ranges
from modgap.core.results import (
    HasFigure,
    Result,
    by_side,
    notebook_html,
    notebook_table,
    number,
    plain,
    spoken,
    text_table,
)
from modgap.core.tables import HasTable
from modgap.measures.cone import Cone
from modgap.measures.ellipsoid import Shell
from modgap.measures.gap import GapOrthogonality, LinearSeparability
from modgap.measures.landscape import OriginLandscape, ShiftLandscape
from modgap.measures.loss import LossTerms

# The landscape over the origin repeats the whole loss at every step, so it uses few pairs.
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

    def _brief(self) -> str:
        cosine = "" if self.cone is None else f", mean cosine {self.cone.mean:.3f}"
        return f"{self.name}, {self.n:,} rows, mean norm {number(self.norm_mean, 3)}{cosine}"


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

    def _brief(self) -> str:
        loss = f"loss {self.loss.loss:.3f} at {self.temperature:g}"
        return f"{self.n_pairs:,} pairs, alignment {self.alignment:.3f}, {loss}"


@dataclass(frozen=True)
class Between(Result):
    """What two modalities tell together; ``pairs`` is None where none of their rows match.

    ``gap_distance`` is that of the rows as given, ``unit_gap_distance`` of the rows at unit length.
    """

    names: tuple[str, str]
    gap_distance: float
    unit_gap_distance: float
    gap_orthogonality: GapOrthogonality
    linear_separability: LinearSeparability | None
    n_tags: int
    top_features: tuple[tuple[int, float], ...]
    feature_divergence_max: float
    conformity_divergence: float | None
    pairs: PairSummary | None

    def _brief(self) -> str:
        paired = "no pairs" if self.pairs is None else f"{self.pairs.n_pairs:,} pairs"
        return f"{' and '.join(self.names)}, gap distance {self.gap_said()}, {paired}"

    def gap_said(self) -> str:
        """The gap distance, and that of unit rows where it is another."""
        said = f"{self.gap_distance:.4f}"
        at_unit = f"{self.unit_gap_distance:.4f}"
        return said if said == at_unit else f"{said} ({at_unit} of unit rows)"


@dataclass(frozen=True)
class Line(Result):
    """One line of the table: what it is, for each modality or for all together.

    ``term`` names the quantity, for looking up what it means; NaN is a number that the rows
    cannot tell, None one that the line does not have.
    """

    term: str
    label: str
    each: tuple[float | None, ...]
    both: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """The fields; each modality under x and y where there are two."""
        found = {"term": self.term, "label": self.label, **by_side(self.each), "both": self.both}
        return {key: plain(value) for key, value in found.items()}


# The lines of the table: term, label, and where a modality has the number, or "all" together.
_LINES = (
    ("rows", "rows", "n"),
    ("dim", "dimensions", "all"),
    # The gap comes here.
    ("norm", "row norm", "norm_mean"),
    ("cone", "cone: mean cosine", "cone.mean"),
    ("cone", "cone: least cosine", "cone.min"),
    ("uniformity", "uniformity", "uniformity"),
    ("wasserstein_uniformity", "Wasserstein uniformity", "all"),
    ("shell", "shell radius", "shell.radius"),
    ("shell_offset", "shell offset", "shell.offset"),
    ("dominance", "off-diagonal dominance", "off_diagonal_dominance_median"),
    ("conformity", "conformity", "conformity_mean"),
    ("estimated_conformity", "  correlation with its estimate", "conformity_pearson"),
)
# The same for every two of more modalities; the loss is named with its temperature.
_PAIR_LINES = (
    ("gap_distance", "gap distance", "gap_distance"),
    ("gap_distance", "of unit rows", "unit_gap_distance"),
    ("tags", "tag features", "n_tags"),
    ("linear_separability", "linear separability", "linear_separability.all_features"),
    ("conformity_divergence", "conformity divergence", "conformity_divergence"),
    ("pairs", "pairs", "pairs.n_pairs"),
    ("alignment", "alignment", "pairs.alignment"),
    ("margin", "margin", "pairs.margin"),
    ("loss", "loss at {:g}", "pairs.loss.loss"),
)


def _at(one: Any, path: str, otherwise: Any) -> Any:
    """What the names of a path lead to; something else where one of them leads to None."""
    for name in path.split("."):
        if one is not None:
            one = getattr(one, name)
    return otherwise if one is None else one


@dataclass(frozen=True)
class Measurement(HasTable, HasFigure, Result):
    """Everything ``measure`` found; prints as a table, in a notebook too.

    ``modalities`` summarises each, ``gap_matrix`` has the distance between the means of every
    two, and ``between`` what every two tell together, in the order of the names; ``pair`` finds
    one of these. ``asking`` summarises queries that are not documents, and ``asking_gaps`` has the
    distances of their means from those of the modalities. ``duplicates`` counts the rows that
    occur several times; None if not checked.

    With two modalities, what they tell together is an attribute here too: ``gap_distance``,
    ``pairs`` and so on.
    """

    names: tuple[str, ...]
    dim: int
    seed: int
    wasserstein_uniformity: float
    modalities: tuple[ModalitySummary, ...]
    gap_matrix: np.ndarray
    between: tuple[Between, ...]
    asking: tuple[ModalitySummary, ...] = ()
    asking_gaps: tuple[tuple[float, ...], ...] = ()
    duplicates: str | None = None

    def _brief(self) -> str:
        rows = ", ".join(f"{m.name} {m.n:,} rows" for m in (*self.modalities, *self.asking))
        largest = "" if len(self.between) == 1 else "largest "
        gap = max(self.between, key=lambda one: one.gap_distance)
        return f"{rows}, {self.dim} columns, {largest}gap distance {gap.gap_said()}"

    def pair(self, first: str, second: str) -> Between:
        """What two of the modalities tell together; ``names`` of the result has their order."""
        for name in check_names((first, second)):
            check_choice(name, "modality", self.names)
        return next(one for one in self.between if {first, second} == {*one.names})

    @property
    def both(self) -> Between:
        """What the two modalities tell together."""
        if len(self.between) != 1:
            raise InputValueError(
                f"This was measured on {len(self.names)} modalities: {', '.join(self.names)}. Take "
                "two of them with pair(first, second), or look at gap_matrix."
            )
        return self.between[0]

    # Of two modalities, what ``both`` has; see `Between`.
    gap_distance = property(attrgetter("both.gap_distance"))
    unit_gap_distance = property(attrgetter("both.unit_gap_distance"))
    gap_orthogonality = property(attrgetter("both.gap_orthogonality"))
    linear_separability = property(attrgetter("both.linear_separability"))
    n_tags = property(attrgetter("both.n_tags"))
    top_features = property(attrgetter("both.top_features"))
    feature_divergence_max = property(attrgetter("both.feature_divergence_max"))
    conformity_divergence = property(attrgetter("both.conformity_divergence"))
    pairs = property(attrgetter("both.pairs"))

    @property
    def at_unit_length(self) -> bool:
        """Whether rows were given at unit length, so far as four digits show."""
        return all(one.gap_said() == f"{one.unit_gap_distance:.4f}" for one in self.between)

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain values; what two modalities tell together stands among them."""
        found = super().to_dict()
        if len(self.between) == 1:
            (together,) = found.pop("between")
            first = {key: found[key] for key in ("names", "dim", "seed")}
            found = {**first, **together, **found}
        return found

    def lines(self) -> list[Line]:
        """Every number that is shown: for each modality, or for all together."""
        modalities = (*self.modalities, *self.asking)
        found = [
            Line(term, label, tuple(_at(one, path, math.nan) for one in modalities))
            if path != "all"
            else self._all(term, label, getattr(self, term))
            for term, label, path in _LINES
        ]
        together = self._lines_of_both() if len(self.between) == 1 else ()
        return [*found[:2], *self._gap_lines(), *found[2:], *together]

    def _all(self, term: str, label: str, value: float | None) -> Line:
        return Line(term, label, (None,) * len(self.columns), value)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the table: the modalities, then their queries where these are apart."""
        return (*self.names, *(one.name for one in self.asking))

    def _gap_lines(self) -> Iterator[Line]:
        """The gap of two modalities; of more, and of queries, the distances from each mean."""
        if len(self.between) == 1:
            given = "gap distance" if self.at_unit_length else "gap distance of rows as given"
            yield self._all("gap_distance", given, self.gap_distance)
            if not self.at_unit_length:
                label = "gap distance of unit rows"
                yield self._all("gap_distance", label, self.unit_gap_distance)
        if len(self.columns) > 2:
            for i, name in enumerate(self.names):
                own = (None if i == j else float(d) for j, d in enumerate(self.gap_matrix[i]))
                asking = (gaps[i] for gaps in self.asking_gaps)
                yield Line("gap_distance", f"gap to {name}", (*own, *asking))
        if len(self.between) > 1:
            return
        orthogonality = self.gap_orthogonality
        blank = (None,) * len(self.asking)
        yield Line(
            "gap_orthogonality",
            "mean abs cosine to the gap",
            (orthogonality.x.mean_abs, orthogonality.y.mean_abs, *blank),
        )
        yield self._all("tags", "features that tag the modality", self.n_tags)
        separable = self.linear_separability
        if separable is not None:
            term = "linear_separability"
            yield self._all(term, "linear separability", separable.all_features)
            yield self._all(term, "  with two features", separable.two_features)

    def _lines_of_both(self) -> Iterator[Line]:
        yield self._all(
            "conformity_divergence", "conformity divergence", self.conformity_divergence
        )
        pairs = self.pairs
        if pairs is None:
            return
        yield self._all("pairs", "pairs", pairs.n_pairs)
        yield self._all("alignment", "alignment (mean squared distance)", pairs.alignment)
        yield self._all("margin", "margin", pairs.margin)
        size = f"{pairs.n_sample:,} pairs"
        label = f"contrastive loss at {pairs.temperature:g}, {size}"
        yield self._all("loss", label, pairs.loss.loss)
        landscape = pairs.shift_landscape
        for temperature, (gap, _) in landscape.best().items() if landscape else ():
            yield self._all("shift_landscape", f"gap of least loss at {temperature:g}", gap)

    def pair_lines(self) -> list[Line]:
        """What every two of more than two modalities tell together; none for two."""
        if len(self.between) == 1:
            return []
        temperatures = [one.pairs.temperature for one in self.between if one.pairs]
        wanted = [
            line
            for line in _PAIR_LINES
            if not (line[2].startswith("pairs.") and not temperatures)
            and not (line[2] == "unit_gap_distance" and self.at_unit_length)
        ]
        return [
            Line(
                term,
                label.format(*temperatures[:1]),
                tuple(_at(one, path, None) for one in self.between),
            )
            for term, label, path in wanted
        ]

    def table(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """Header and rows: the quantity, then each modality, then all of them together."""
        rows = [
            (line.label, *("" if v is None else number(v) for v in (*line.each, line.both)))
            for line in self.lines()
        ]
        return ("", *self.columns, "both" if len(self.names) == 2 else "all"), rows

    def pair_table(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]] | None:
        """Header and rows of what every two of more than two modalities tell together."""
        lines = self.pair_lines()
        if not lines:
            return None
        rows = [
            (" and ".join(one.names), *(number(line.each[place]) for line in lines))
            for place, one in enumerate(self.between)
        ]
        return ("", *(line.label for line in lines)), rows

    def __str__(self) -> str:
        tables = [one for one in (self.table(), self.pair_table()) if one is not None]
        return "\n".join([*("\n\n".join(text_table(*one) for one in tables), self.sampling())])

    def sampling(self) -> str:
        """Which rows the numbers rest on, in words."""
        measured = (*self.modalities, *self.asking)
        said = "The gap distance and the measures of each modality use every row."
        if any(m.n != m.n_sample for m in measured):
            sizes = spoken(f"{m.n_sample:,}" for m in measured)
            said = (
                "Means, variances and the gap distance use every row; norms, cosines and "
                f"conformity a sample of {sizes} rows (seed {self.seed})."
            )
            errors = [m.cone.standard_error for m in measured if m.cone is not None]
            known = [f"{error:.2g}" for error in errors if error is not None]
            if known:
                said += f" The standard error of the mean cosine is {spoken(known)}."
        if not self.at_unit_length:
            said += " Losses and the gap of least loss use rows at unit length."
        sizes_of_pairs = [one.pairs.n_sample for one in self.between if one.pairs]
        if sizes_of_pairs:
            most = max(sizes_of_pairs)
            at_most = "at most " if len({*sizes_of_pairs}) > 1 else ""
            said += (
                f" Measures of pairs use {at_most}{most:,} pairs, one per group. The "
                "loss uses all of them at once; the gap of least loss uses batches."
            )
            if most > MAX_LANDSCAPE:
                said += f" The landscape over the origin uses the first {MAX_LANDSCAPE:,} of them."
        if self.duplicates:
            said += f" {self.duplicates}"
        return said

    def _repr_html_(self) -> str:
        more = self.pair_table()
        first = notebook_table(*self.table(), self.sampling())
        every_two = notebook_table(*more, "Every two") if more else ""
        return notebook_html(self.ranges().svg(), first, every_two)

    def ranges(self) -> Ranges:
        """Cosines within each modality, and of pairs across: the gap in one picture."""
        lines = [
            Range(
                f"{m.name} – {m.name}", m.cone.mean, m.cone.min, m.cone.max, (m.cone.q1, m.cone.q3)
            )
            for m in (*self.modalities, *self.asking)
            if m.cone is not None
        ]
        for one in self.between:
            if one.pairs is not None:
                cosine = 1 - one.pairs.alignment / 2
                label = f"{one.names[0]} – its {one.names[1]}"
                lines.append(Range(label, cosine, cosine, cosine, marked=True))
        return Ranges("Mean cosine, with quartiles and extremes", lines)
