"""The results of comparing two sets of rows, with their tables and sentences."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from modgap.core.drawing import Range, Ranges
from modgap.core.results import (
    HasFigure,
    Result,
    Table,
    notebook_html,
    notebook_table,
    notebook_words,
    number,
    spoken,
    text_table,
)
from modgap.core.tables import HasTable
from modgap.corrections.recognition import AnotherModel
from modgap.drift.answers import SearchAnswers

# The report mentions clustering beyond this many rows that count as one.
_CLUSTERED = 3.0
_WORDS = {"mean": "mean", "spread": "spread", "shape": "shape of the covariance"}


@dataclass(frozen=True)
class StreamDrift(Result):
    """One set of rows then and now; ``moved`` names each significant change that is large.

    ``mean_shift`` is the distance of the means in units of the spread, without what chance adds,
    ``mean_shift_of_gap`` the same in units of the gap, and ``along_gap`` the cosine of the move
    with the gap vector that ends in these rows. ``spread_ratio`` is tr Σ now over then,
    ``shape_distance`` ‖Σ'/tr Σ' − Σ/tr Σ‖ in units of ‖Σ/tr Σ‖, without what chance adds.
    ``direction_ratio`` is the variance now over then in the direction that changed most,
    ``features`` are the columns whose means moved most. Each z says how unlikely by chance the
    change is, as a normal deviate, 37 at most. ``clustering`` is how many rows count as one, as
    they come in sessions. ``foreign`` is about 0 for rows like those then and about 1 for rows of
    another model. ``judged`` is False where there are too few rows to tell.
    """

    name: str
    compared_with: str
    n_then: int
    n_now: int
    judged: bool
    clustering: float = 1.0
    mean_shift: float = 0.0
    mean_shift_of_gap: float | None = None
    along_gap: float | None = None
    mean_z: float = 0.0
    spread_ratio: float = 1.0
    spread_z: float = 0.0
    shape_distance: float = 0.0
    shape_z: float = 0.0
    direction_ratio: float = 1.0
    features: tuple[int, ...] = ()
    moved: tuple[str, ...] = ()
    foreign: float = 0.0
    another_model: AnotherModel = "no"

    def changes(self) -> Iterator[str]:
        """What moved, in words."""
        if "mean" in self.moved:
            gap = self.mean_shift_of_gap
            of_gap = "" if gap is None else f", {gap:.2f} of the gap"
            yield (
                f"The mean of {self.name} moved by {self.mean_shift:.2f} SD{of_gap} "
                f"(z {self.mean_z:.0f})."
            )
        if "spread" in self.moved:
            yield (
                f"The spread of {self.name} is {self.spread_ratio:.2f} times what it was "
                f"(z {self.spread_z:.0f})."
            )
        if "shape" in self.moved:
            yield (
                f"The covariance of {self.name} has another shape: it is off by "
                f"{self.shape_distance:.2f} of itself (z {self.shape_z:.0f})."
            )


@dataclass(frozen=True)
class GapDrift(Result):
    """The gap between two sets of rows then and now; ``alarm`` where it moved and that is large.

    ``change`` is the length of the change of the gap vector in units of the gap, without what
    chance adds; ``cosine`` is the one between the gap vectors.
    """

    first: str
    second: str
    distance_then: float
    distance_now: float
    change: float
    cosine: float
    z: float
    alarm: bool

    def words(self) -> str:
        """What moved."""
        return (
            f"The gap between {self.first} and {self.second} moved by {self.change:.2f} of itself, "
            f"its length from {self.distance_then:.3f} to {self.distance_now:.3f} "
            f"(z {self.z:.0f})."
        )


@dataclass(frozen=True)
class CorrectionFit(Result):
    """Whether a correction still fits; ``fits`` is None where the rows cannot tell.

    For each query modality: ``favoured`` is the modality whose documents come up more often among
    the best non-matching results. ``share_then`` and ``share_now`` are its share of them, among as
    many documents of two modalities, and ``odds`` is the ratio of the odds; moments predict all
    three. ``offset`` is the uncorrected difference of mean scores, in standard deviations of the
    scores, ``spread_ratio`` the ratio of these deviations, and ``z`` how unlikely by chance.
    Of a correction with a background ``expected_wrong`` is, for each modality, how many wrong
    results there are now at least as good as one that was said to have one.
    """

    label: str
    fits: bool | None
    sentence: str
    favoured: dict[str, str]
    share_then: dict[str, float]
    share_now: dict[str, float]
    odds: dict[str, float]
    offset: dict[str, float]
    spread_ratio: dict[str, float]
    z: dict[str, float]
    expected_wrong: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class DriftReport(HasTable, Result, HasFigure):
    """What moved between two sets of rows, and whether corrections still fit.

    ``drifted`` says whether anything moved beyond chance (z above ``threshold``) and by more than
    ``least`` of what it is measured by. ``rows`` says whether rows were brought to unit length.
    ``answers`` is what the searches in the window of a monitor answered, by their queries.
    """

    drifted: bool
    verdict: str
    rows: str
    threshold: float
    least: dict[str, float]
    streams: tuple[StreamDrift, ...]
    gaps: tuple[GapDrift, ...]
    corrections: tuple[CorrectionFit, ...] = ()
    answers: dict[str, SearchAnswers] = field(default_factory=dict)

    def _brief(self) -> str:
        found = [f"{s.name} {' '.join(s.moved)}" for s in self.streams if s.moved]
        found += [f"gap {gap.first}–{gap.second}" for gap in self.gaps if gap.alarm]
        found = found or ["no drift"]
        words = {True: "fits", False: "fit again", None: "not judged"}
        if self.corrections:
            found += [f"correction: {', '.join(words[one.fits] for one in self.corrections)}"]
        return "; ".join(found)

    @property
    def fits(self) -> bool | None:
        """Whether every correction still fits; None where that is not known."""
        known = [one.fits for one in self.corrections]
        if False in known:
            return False
        return True if known and None not in known else None

    def table(self) -> Table:
        """The sets of rows; a star marks a significant change that is large."""
        rows = [
            ("rows then", *(number(s.n_then) for s in self.streams)),
            ("rows now", *(number(s.n_now) for s in self.streams)),
            self._line("rows per independent row", "clustering", ".1f"),
            self._line("mean shift, in SD", "mean_shift", star="mean"),
            self._line("  in gaps", "mean_shift_of_gap"),
            self._line("  cosine with the gap", "along_gap"),
            self._line("  z", "mean_z", ".1f"),
            self._line("variance, now / then", "spread_ratio", star="spread"),
            self._line("  z", "spread_z", ".1f"),
            self._line("covariance shape change", "shape_distance", star="shape"),
            self._line("  most changed direction", "direction_ratio"),
            self._line("  z", "shape_z", ".1f"),
        ]
        shown = [row for row in rows if row[0][0] != " " or any(cell != "–" for cell in row[1:])]
        return ("", *(s.name for s in self.streams)), shown

    def _line(self, label: str, field: str, form: str = "", *, star: str = "") -> tuple[str, ...]:
        cells = [label]
        for s in self.streams:
            value = getattr(s, field) if s.judged else None
            text = f"{value:{form}}" if form and value is not None else number(value, 3)
            cells.append(f"{text}*" if star in s.moved else text)
        return tuple(cells)

    def gap_table(self) -> Table | None:
        """The gaps; None where there is only one modality."""
        rows: list[tuple[str, ...]] = [
            (
                f"{gap.first}–{gap.second}",
                number(gap.distance_then),
                number(gap.distance_now),
                f"{number(gap.change, 3)}{'*' if gap.alarm else ''}",
                number(gap.cosine, 3),
                f"{gap.z:.1f}",
            )
            for gap in self.gaps
        ]
        return (("gap", "then", "now", "change, relative", "cosine", "z"), rows) if rows else None

    def ranges(self) -> Ranges:
        """Each change in units of what counts as large."""
        lines = []
        for s in self.streams:
            sizes = {
                "mean": s.mean_shift / self.least["mean"],
                "spread": abs(s.spread_ratio - 1) / self.least["spread"],
                "shape": s.shape_distance / self.least["shape"],
            }
            lines += [
                Range(f"{s.name}: {_WORDS[what]}", size, 0.0, size, marked=what in s.moved)
                for what, size in sizes.items()
                if s.judged
            ]
        for gap in self.gaps:
            size = gap.change / self.least["gap"]
            lines.append(Range(f"gap {gap.first}–{gap.second}", size, 0.0, size, marked=gap.alarm))
        return Ranges("what moved, in units of what counts as large", lines, 1.0, (0.0,))

    def __str__(self) -> str:
        tables = [self.table(), self.gap_table()]
        shown = [text_table(*table) for table in tables if table is not None]
        return "\n\n".join([*shown, "\n".join(self.sentences())])

    def sentences(self) -> list[str]:
        """The verdict, what moved, a sentence on each correction, and what searches answered."""
        moved = [words for stream in self.streams for words in stream.changes()]
        moved += [gap.words() for gap in self.gaps if gap.alarm]
        moved += [words for stream in self.streams if (words := self._clustered(stream))]
        answers = [f"{one.n:,} {name}: {one.words()}." for name, one in self.answers.items()]
        return [self.verdict, *moved, *(fit.sentence for fit in self.corrections), *answers]

    def _clustered(self, stream: StreamDrift) -> str:
        """Why a large change is none that counts, where rows that come together are the reason."""
        large = stream.mean_shift >= self.least["mean"] and "mean" not in stream.moved
        if not (stream.judged and large and stream.clustering > _CLUSTERED):
            return ""
        return (
            f"The mean of {stream.name} moved by {stream.mean_shift:.2f} SD, which may be chance: "
            f"neighbouring rows are alike, so {stream.clustering:.0f} of them count as one. For "
            "sorted rows that are no log, use --independent."
        )

    def _repr_html_(self) -> str:
        gaps = self.gap_table()
        return notebook_html(
            *(notebook_words(sentence) for sentence in self.sentences()),
            self.ranges().svg(),
            notebook_table(*self.table()),
            notebook_table(*gaps) if gaps else "",
        )


def drift_verdict(streams: tuple[StreamDrift, ...], gaps: tuple[GapDrift, ...]) -> str:
    """What moved, in one sentence; before it another where rows are of another model."""
    verb = "are" if any(s.another_model == "yes" for s in streams) else "may be"
    foreign = [f"{s.name} at {s.foreign:.2f}" for s in streams if s.another_model != "no"]
    model = (
        f"Rows {verb} of another model: on a scale from 0 (as then) to 1 (another model) they are "
        f"{spoken(foreign)}. Embed all rows with one model, then fit the correction again. "
        if foreign
        else ""
    )
    said = [f"{s.name} ({', '.join(s.moved)})" for s in streams if s.moved]
    said += [f"the gap between {gap.first} and {gap.second}" for gap in gaps if gap.alarm]
    few = [s.name for s in streams if not s.judged]
    waiting = f" Too few rows to judge {spoken(few)}." if few else ""
    if said:
        return f"{model}Drift of {spoken(said)}.{waiting}"
    if len(few) == len(streams):
        return waiting.strip() or "There are no rows yet."
    return f"{model}No significant drift.{waiting}"
