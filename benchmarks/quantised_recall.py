"""How much of the float search's recall an index of few bits keeps, raw and corrected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from modgap.arrays import to_numpy
from modgap.core.checks import Array, InputValueError, check_choice, check_count, check_names
from modgap.core.door import check_groups, check_two
from modgap.core.results import Progress, Result
from modgap.index import QuantisedIndex
from modgap.index.quantised.codes import BITS, Bits
from modgap.search import search

# What is compared, by name: options of QuantisedIndex.
SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "raw": {"centre": False, "rotate": "none"},
    "rotated": {"centre": False, "rotate": "random"},
    "corrected": {"centre": True, "rotate": "random"},
    "corrected+8": {"centre": True, "rotate": "random", "exact": 8},
}


@dataclass(frozen=True)
class QuantisedRecall(Result):
    """Recall of one kind of code: mean over splits, by direction, and against float search.

    ``recall`` has ``image_retrieval_recall@1`` and so on; ``retained`` has, for each k, the mean
    recall of both directions over that of float search, and ``standard_error`` that of it over
    splits. ``agreement`` is the share of queries whose first result is that of float search.
    """

    bits: str
    setting: str
    bytes_per_vector: int
    recall: Mapping[str, float]
    retained: Mapping[str, float]
    standard_error: Mapping[str, float]
    agreement: float


@dataclass(frozen=True)
class RecallRetained(Result):
    """Every kind of code in every setting, beside float search of ``float_bytes`` per vector."""

    n_splits: int
    n_queries: Mapping[str, int]
    float_bytes: int
    float_recall: Mapping[str, float]
    codes: tuple[QuantisedRecall, ...]

    def code(self, bits: str, setting: str) -> QuantisedRecall:
        """What was measured of one kind of code in one setting."""
        for code in self.codes:
            if (code.bits, code.setting) == (bits, setting):
                return code
        raise InputValueError(f"Nothing was measured for bits={bits!r}, setting={setting!r}.")


def recall_retained(
    X: Array,
    Y: Array,
    bits: Sequence[Bits] = BITS,  # type: ignore[assignment]
    *,
    groups: tuple[Any, Any] | None = None,
    settings: Sequence[str] | Mapping[str, Mapping[str, Any]] = ("raw", "corrected"),
    k: Sequence[int] = (1, 10),
    n_splits: int = 10,
    names: Sequence[str] = ("image", "text"),
    seed: int = 0,
    progress: Progress | None = None,
) -> RecallRetained:
    """Recall of cross-modal search in quantised documents, against float documents.

    In each of ``n_splits`` random halves of the groups, means, directions, rotation and ranges are
    learned from one half; documents and queries are the other half. Rows are used as given and
    ranked by inner product: give unit rows for cosines. ``settings`` are names of `SETTINGS`, or
    a mapping of names to options of `QuantisedIndex`.
    """
    first, second = check_names(names)
    X, Y = (np.asarray(to_numpy(rows)) for rows in check_two(X, Y, names=(first, second)))
    for kind in bits:
        check_choice(kind, "bits", BITS)
    if not isinstance(settings, Mapping):
        settings = {
            name: SETTINGS[check_choice(name, "settings", tuple(SETTINGS))] for name in settings
        }
    splits = _halves(check_groups(groups, len(X), len(Y)), check_count(n_splits, "n_splits"), seed)
    smallest = min(min(len(sx), len(sy)) for _, (sx, sy, _, _) in splits)
    places = tuple(check_count(place, "k", at_most=smallest) for place in k)

    floats = [_float_search(X, Y, stored, places) for _, stored in splits]
    reference = [_recall_by_name(found, stored, places, (first, second))
                 for found, (_, stored) in zip(floats, splits, strict=True)]  # fmt: skip
    codes = []
    for kind in bits:
        for setting, options in settings.items():
            measured, agreed = [], []
            for number, ((learn_x, learn_y), stored) in enumerate(splits):
                if progress is not None:
                    progress(f"{kind}, {setting}", number, n_splits)
                index = QuantisedIndex(kind, **{"seed": seed + number, **options}).fit(
                    {first: X[stored[0]], second: Y[stored[1]]},
                    {first: X[learn_x], second: Y[learn_y]},
                )
                found = (
                    index.search(X[stored[0]], max(places), second).ids,
                    index.search(Y[stored[1]], max(places), first).ids,
                )
                measured.append(_recall_by_name(found, stored, places, (first, second)))
                agreed.append(
                    np.mean([np.mean(a[:, 0] == b[:, 0])
                             for a, b in zip(found, floats[number], strict=True)])
                )  # fmt: skip
            retained = {f"recall@{p}": _ratios(measured, reference, p) for p in places}
            codes.append(
                QuantisedRecall(
                    bits=kind,
                    setting=setting,
                    bytes_per_vector=index.bytes_per_vector,
                    recall=_mean(measured),
                    retained={name: float(np.mean(r)) for name, r in retained.items()},
                    standard_error={name: _standard_error(r) for name, r in retained.items()},
                    agreement=float(np.mean(agreed)),
                )
            )
    return RecallRetained(
        n_splits=n_splits,
        n_queries={first: len(splits[0][1][0]), second: len(splits[0][1][1])},
        float_bytes=X.shape[1] * 4,
        float_recall=_mean(reference),
        codes=tuple(codes),
    )


# Rows of X and Y, and their groups.
_Stored = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def _halves(
    groups: tuple[np.ndarray, np.ndarray], n_splits: int, seed: int
) -> list[tuple[tuple[np.ndarray, np.ndarray], _Stored]]:
    """For each split, the rows to learn from and the rows to store and to ask with."""
    gx, gy = groups
    labels = np.intersect1d(gx, gy)
    if len(labels) < 4:
        raise InputValueError(f"Splitting in halves needs at least 4 groups, got {len(labels)}.")
    splits = []
    for number in range(n_splits):
        drawn = np.random.default_rng(seed + number).permutation(labels)
        learn, store = drawn[: len(labels) // 2], drawn[len(labels) // 2 :]
        sx, sy = np.flatnonzero(np.isin(gx, store)), np.flatnonzero(np.isin(gy, store))
        learned = np.flatnonzero(np.isin(gx, learn)), np.flatnonzero(np.isin(gy, learn))
        splits.append((learned, (sx, sy, gx[sx], gy[sy])))
    return splits


def _float_search(
    X: np.ndarray, Y: np.ndarray, stored: _Stored, places: Sequence[int]
) -> tuple[np.ndarray, np.ndarray]:
    x, y = X[stored[0]], Y[stored[1]]
    k = max(places)
    return search(x, y, k, "inner_product")[0], search(y, x, k, "inner_product")[0]


def _recall_by_name(
    found: tuple[np.ndarray, np.ndarray],
    stored: _Stored,
    places: Sequence[int],
    names: tuple[str, str],
) -> dict[str, float]:
    """Queries with a match among their first k: image_retrieval is texts finding images."""
    _, _, gx, gy = stored
    hits_y = gy[found[0]] == gx[:, None]
    hits_x = gx[found[1]] == gy[:, None]
    return {
        f"{name}_retrieval_recall@{place}": float(np.mean(hits[:, :place].any(axis=1)))
        for name, hits in ((names[0], hits_x), (names[1], hits_y))
        for place in places
    }


def _ratios(
    measured: Sequence[Mapping[str, float]], reference: Sequence[Mapping[str, float]], place: int
) -> np.ndarray:
    def both(metrics: Mapping[str, float]) -> float:
        return float(np.mean([v for name, v in metrics.items() if name.endswith(f"@{place}")]))

    base = np.array([both(r) for r in reference])
    if np.any(base == 0):
        raise InputValueError(
            f"Float search finds no match among the first {place}, so there is no recall to keep."
        )
    return np.array([both(m) for m in measured]) / base


def _mean(metrics: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {name: float(np.mean([m[name] for m in metrics])) for name in metrics[0]}


def _standard_error(ratios: np.ndarray) -> float:
    return float(np.std(ratios, ddof=1) / len(ratios) ** 0.5) if len(ratios) > 1 else float("nan")
