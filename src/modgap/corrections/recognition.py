"""Do rows belong to the modality they are said to be of? A correction knows what it was fitted on.

Two positions tell, each 0 for the rows of the fit. ``towards`` is the place of the batch's mean
on the line from the fitted mean of its modality to that of another: 1 is the other one.
``foreign`` is about 1 for rows of another model, which know nothing of the fitted means.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any, Literal

import numpy as np

from modgap.arrays import to_numpy
from modgap.core.checks import Array, InputValueError, check_choice
from modgap.core.door import check_matrix
from modgap.core.results import Result
from modgap.corrections.correction import Correction, Role
from modgap.corrections.fitted_rows import FittedRows
from modgap.io import Embeddings

# Fewer rows than these, or fitted on fewer, are never judged.
MIN_ROWS = 20
# Rows of a file to look at, spread over it.
MAX_SAMPLE = 1_000

# Rows of another model are at 0.6 and beyond, rows of another data set at 0.5 and below; see
# docs/evidence/mix-ups.md.
FOREIGN = 0.55
FAR = 0.4
# What rows of another model would have at the least for means and variances to tell them.
_CLEAR, _VAGUE = 1.4, 1.2
# The gap must be this many times as wide as rows spread along it for a batch to be refused.
_CLEAR_GAP = 4.0
# Beyond chance: standard errors of the batch's mean.
_CHANCE = 3.0
_LENGTHS = 2.0
# So many documents, and by how many spreads their scores may be off for an average query.
_MANY, _SHIFTED = 100, 1.5

AnotherModel = Literal["no", "maybe", "yes"]
Finding = Literal["fits", "far", "another modality", "another model", "not judged"]


class RecognitionWarning(UserWarning):
    """Rows are unlike those that a correction was fitted on."""


@dataclass(frozen=True)
class Recognition(Result):
    """What a batch looks like beside the rows that a correction was fitted on.

    ``nearest`` is the modality whose mean is nearest, and ``distances`` holds the distance of the
    batch's mean to each. ``towards`` is 0 at the mean of its own modality and 1 at that of
    ``nearest_other``. ``foreign`` is about 0 for rows like those of the fit and about 1 for rows
    of another model. ``refused`` says whether to stop.
    """

    modality: str
    n_rows: int
    finding: Finding
    refused: bool
    nearest: str
    nearest_other: str | None
    towards: float
    foreign: float
    length_ratio: float
    distances: dict[str, float]
    sentence: str


def recognise(
    correction: Correction, rows: Array | Embeddings, modality: str, role: Role = "document"
) -> Recognition:
    """Whether rows look like those of the modality that the correction was fitted on.

    Rows of another modality and rows of another model are to be refused; rows far from the fit,
    say of another data set, are not. A batch of one topic lies off the mean, so a batch is not
    held to the standard error of independent rows, and fewer than 20 rows are never judged. A
    fixed correction looks at 100 documents or more for another kind of them as well. Of
    `Embeddings`, at most 1,000 rows are looked at, spread over them.

    Parameters
    ----------
    correction : Correction
        One that knows the rows it was fitted on.
    rows : (n, d) array, tensor or Embeddings
        Rows as the model gives them.
    modality : str
        What they are said to be.
    role : {"document", "query"}
        Queries may have been fitted on rows of their own.
    """
    check_choice(modality, "modality", correction.names)
    held = correction.maps.get((modality, role), correction.maps[modality, "document"])
    batch = _batch(rows, modality, held.normalise)
    known = {} if role == "query" and correction.query_model else {**correction.fitted}
    if role == "query" and modality in correction.fitted_queries:
        known[modality] = correction.fitted_queries[modality]
    fitted = {name: one for name, one in known.items() if one.n >= MIN_ROWS}
    if len(batch) < MIN_ROWS or modality not in fitted:
        why = "The correction does not know enough of the rows it was fitted on."
        if modality in fitted:
            why = f"{len(batch)} rows are too few to tell what they are; it takes {MIN_ROWS}."
        nan = float("nan")
        return Recognition(
            modality, len(batch), "not judged", False, modality, None, nan, nan, nan, {}, why
        )
    if batch.shape[1] != len(fitted[modality].mean):
        raise InputValueError(
            f"{modality} must have {len(fitted[modality].mean)} columns, got {batch.shape[1]}. "
            "The correction must be fitted on embeddings of the same model."
        )
    judge = _Judge(fitted, batch, modality)
    found = judge.judge()
    asks = correction.fitted_queries.get(correction.queries[0], fitted.get(correction.queries[0]))
    fixed = role == "document" and correction.background is None
    if found.finding == "fits" and fixed and asks is not None and len(batch) >= _MANY:
        shift = judge.shift(asks.mean)
        if abs(shift) > _SHIFTED:
            way = "high" if shift > 0 else "low"
            said = (
                f"The {modality} rows are documents unlike those the correction was fitted on: for "
                f"an average query their scores are {abs(shift):.1f} standard deviations too "
                f"{way}. Merge by expected wrong results (modgap fix, or modgap fit --method "
                "expected-wrong), or fit the correction on documents like these."
            )
            return replace(found, finding="far", sentence=said)
    return found


def check_recognised(
    correction: Correction,
    rows: Array | Embeddings,
    modality: str,
    *,
    role: Role = "document",
    trust_rows: bool = False,
) -> Recognition:
    """Refuse rows of another modality or model, and warn of rows far from the fit.

    Parameters
    ----------
    correction, rows, modality, role
        As for ``recognise``.
    trust_rows : bool
        Warn where rows would be refused.
    """
    found = recognise(correction, rows, modality, role)
    if found.refused and not trust_rows:
        raise InputValueError(
            f"{found.sentence} To go on all the same, --trust-rows (in Python, trust_rows=True)."
        )
    if found.finding not in ("fits", "not judged"):
        warnings.warn(found.sentence, RecognitionWarning, stacklevel=2)
    return found


class _Judge:
    """One batch beside the fitted rows of each modality."""

    def __init__(self, fitted: dict[str, FittedRows], batch: np.ndarray, modality: str) -> None:
        self.fitted, self.batch, self.modality = fitted, batch, modality
        self.rows = FittedRows(len(batch), batch.mean(axis=0), batch.var(axis=0))
        self.mean, self.length = self.rows.mean, _length(self.rows)
        self.distances = {
            name: float(np.linalg.norm(self.mean - one.mean)) for name, one in fitted.items()
        }
        others = [name for name in fitted if name != modality]
        self.towards = {name: self._towards(name) for name in others}
        self.other = max(others, key=lambda name: self.towards[name], default=None)

    def judge(self) -> Recognition:
        foreign, clear = _foreign(self.rows, self.fitted)
        ratio = self.length / _length(self.fitted[self.modality])
        finding: Finding = "fits"
        refused = False
        said = f"The {self.modality} rows look like those of the fit."
        if (model := _another_model(foreign, clear)) != "no":
            finding, refused = "another model", model == "yes"
            said = (
                f"The {self.modality} rows {_seem(refused)} of another model than the correction: "
                f"{self._distances()}, and on a scale from 0 (as fitted) to 1 (another model) they "
                f"are at {foreign:.2f}. Embed them with the model it was fitted on, and "
                "give them as the model does, not corrected already."
            )
        elif self._lengths_agree() and self.other and (nearer := self._nearer(self.other)):
            finding, refused = "another modality", nearer == "refuse"
            said = (
                f"The {self.modality} rows {_seem(refused)} {self.other} rows: {self._distances()}"
                f". If they are, give them as {self.other}; files may be swapped."
            )
        elif foreign > FAR and clear >= _CLEAR:
            finding = "far"
            said = (
                f"The {self.modality} rows are far from those the correction was fitted on: on a "
                f"scale from 0 (as fitted) to 1 (another model) they are at {foreign:.2f}. Fit it "
                "on rows like these."
            )
        elif not 1 / _LENGTHS <= ratio <= _LENGTHS:
            finding = "far"
            said = (
                f"The {self.modality} rows are {ratio:.3g} times as long as those the correction "
                "was fitted on, and it takes rows as they are given."
            )
        return Recognition(
            modality=self.modality,
            n_rows=len(self.batch),
            finding=finding,
            refused=refused,
            nearest=min(self.distances, key=lambda name: self.distances[name]),
            nearest_other=self.other,
            towards=self.towards[self.other] if self.other else 0.0,
            foreign=foreign,
            length_ratio=ratio,
            distances=self.distances,
            sentence=said,
        )

    def shift(self, query: np.ndarray) -> float:
        """By how much a query scores the batch higher than the fitted rows, in their spread.

        The spread is that of independent features, the only one a correction knows.
        """
        fit = self.fitted[self.modality]
        spread = float(np.sqrt(np.sum(query**2 * fit.variance)))
        return float((self.mean - fit.mean) @ query) / spread if spread > 0 else 0.0

    def _towards(self, other: str) -> float:
        own, line = self.fitted[self.modality].mean, self._line(other)
        gap = float(line @ line)
        return float((self.mean - own) @ line) / gap if gap > 0 else 0.0

    def _line(self, other: str) -> np.ndarray:
        return self.fitted[other].mean - self.fitted[self.modality].mean

    def _nearer(self, other: str) -> Literal["refuse", "warn", ""]:
        """Whether the batch is nearer to another mean, beyond what one topic may do."""
        line, fit = self._line(other), self.fitted[self.modality]
        gap = float(line @ line)
        beyond = self.towards[other] - 0.5
        if gap == 0 or beyond <= 0:
            return ""
        centred = self.batch - self.mean
        # The fit knows no correlations, and a batch of one topic spreads less than all rows.
        spread = max(
            float(np.sqrt(np.sum(line**2 * fit.variance))) / gap,
            float(np.std(centred @ line, ddof=1)) / gap,
        )
        if spread * _CLEAR_GAP <= 1:
            return "refuse" if beyond > spread else ""
        # The share of the variance that the batch lacks is what its mean may be off by.
        within = float(np.sum(centred**2)) / (len(self.batch) - 1) / float(np.sum(fit.variance))
        error = spread * np.sqrt(1 / len(self.batch) + max(0.0, 1 - within))
        return "warn" if beyond > _CHANCE * error else ""

    def _lengths_agree(self) -> bool:
        """Whether the rows are about as long as those of its modality or of the nearest other."""
        lengths = [_length(self.fitted[name]) for name in (self.modality, self.other) if name]
        return any(1 / _LENGTHS <= self.length / length <= _LENGTHS for length in lengths)

    def _distances(self) -> str:
        said = (f"{distance:.3f} from that of {name}" for name, distance in self.distances.items())
        return f"their mean is {', '.join(said)} (over {len(self.batch):,} rows)"


def of_another_model(
    rows: FittedRows, known: Mapping[str, FittedRows]
) -> tuple[float, AnotherModel]:
    """How foreign rows are to those that are known, from 0 to about 1; is it another model's?

    "maybe" where means and variances cannot tell for certain; "no" also where they cannot tell.
    """
    foreign, clear = _foreign(rows, known)
    return foreign, _another_model(foreign, clear)


def _another_model(foreign: float, clear: float) -> AnotherModel:
    if foreign <= FOREIGN or clear < _VAGUE:
        return "no"
    return "yes" if clear >= _CLEAR else "maybe"


def _foreign(rows: FittedRows, known: Mapping[str, FittedRows]) -> tuple[float, float]:
    """How foreign rows are to the modality they are most like, and how clearly."""
    return max((_likeness(rows, fit) for fit in known.values()), key=itemgetter(0))[1:]


def _likeness(rows: FittedRows, fit: FittedRows) -> tuple[float, float, float]:
    """How far along the fitted mean the rows are (1 as fitted), how foreign, and how clearly.

    Two statistics, of which the more lenient counts: b · μ / ‖μ‖², b the mean of the batch,
    which is 1 for honest rows and 0 for those of another model; and the mean over rows and
    features of (x − μ)² / σ², which is known for both: 1 for honest rows, and for rows of the
    same length without any direction in common, the mean of (‖x‖²/d + μ²) / σ².
    """
    used, length = fit.variance > 1e-12 * fit.variance.max(), _length(rows)
    if not used.any() or length == 0:
        return 1.0, 0.0, 0.0
    scale = _length(fit) / length
    mean, variance = fit.mean[used], fit.variance[used]
    along = 1.0
    if np.any(fit.mean):
        along = float(scale * rows.mean @ fit.mean / (fit.mean @ fit.mean))
    own_mean, own_variance = scale * rows.mean[used], scale**2 * rows.variance[used]
    deviation = float(np.mean((own_variance + (own_mean - mean) ** 2) / variance))
    # Of new rows, with mean and variance estimated from n rows: E 1/χ².
    honest = (fit.n + 1) / (fit.n - 3)
    strange = float(np.mean((_length(fit) ** 2 / len(fit.mean) + mean**2) / variance))
    if strange <= honest:
        return along, 0.0, 0.0
    share = (deviation - honest) / (strange - honest)
    return along, min(share, 1 - along), strange / honest


def _seem(certain: bool) -> str:
    return "are" if certain else "may be"


def _length(rows: FittedRows) -> float:
    """Root mean square length of rows, by their mean and variance."""
    return float(np.sqrt(rows.mean @ rows.mean + np.sum(rows.variance)))


def _batch(rows: Any, modality: str, unit_rows: bool) -> np.ndarray:
    """The rows to look at in float64; those that cannot be used are refused elsewhere."""
    if isinstance(rows, Embeddings):
        some = np.linspace(0, rows.n_rows - 1, min(rows.n_rows, MAX_SAMPLE))
        rows = rows.take(np.unique(np.round(some).astype(np.int64)))
    batch = np.asarray(to_numpy(check_matrix(rows, modality)), dtype=np.float64)
    largest = np.max(np.abs(batch), axis=1, keepdims=True)
    usable = (np.isfinite(largest) & (largest > 0))[:, 0]
    batch, largest = batch[usable], largest[usable]
    if not unit_rows:
        return batch
    batch = batch / largest
    return batch / np.linalg.norm(batch, axis=1, keepdims=True)
