"""What people do to rank the results of several lists as one; the rivals of expected_wrong.py.

Each takes an `Asked` and gives one matrix of scores for each list, larger is nearer, −∞ where a
document is not among the results. Settings are those of the papers or of the products' code.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from case import unit
from modgap.corrections import Background, Calibrate, Center, Correction, Corrector
from modgap.corrections.list_background import PLACES, Levels, merging_order
from modgap.diagnosis import diagnose
from modgap.io import Modalities

DEPTH = 100  # hits of each list that are merged; engines fetch 10 to 100


@dataclass(frozen=True, eq=False)
class Asked:
    """Unit queries, the unit documents of each list with their groups, and what can be learned on.

    ``fit`` are rows of each list like the matched documents, ``bank`` queries like those that ask,
    with their groups; none of them is in the index. ``kind`` is the list of the modality that asks.
    """

    queries: np.ndarray
    groups: np.ndarray
    lists: dict[str, np.ndarray]
    list_groups: dict[str, np.ndarray]
    fit: dict[str, np.ndarray]
    fit_groups: dict[str, np.ndarray]
    bank: np.ndarray
    bank_groups: np.ndarray
    kind: str

    @cached_property
    def cosines(self) -> dict[str, np.ndarray]:
        return {name: self.queries @ rows.T for name, rows in self.lists.items()}

    @cached_property
    def orders(self) -> dict[str, np.ndarray]:
        """The best documents of each list by their cosines."""
        return {name: best_columns(s, DEPTH) for name, s in self.cosines.items()}


def best_columns(scores: np.ndarray, k: int) -> np.ndarray:
    """Columns of the k best of each row, best first."""
    if k < scores.shape[1]:
        some = np.argpartition(-scores, k - 1, axis=1)[:, :k]
        return np.take_along_axis(some, best_columns(np.take_along_axis(scores, some, 1), k), 1)
    return np.argsort(-scores, axis=1, kind="stable")


Scores = list[np.ndarray]
Rival = Callable[[Asked], Scores]


def per_list(score: Callable[[np.ndarray], np.ndarray]) -> Rival:
    """A rival that looks at the best cosines of one list after the other."""

    def scores(asked: Asked) -> Scores:
        found = []
        for name, cosines in asked.cosines.items():
            order = asked.orders[name]
            best = score(np.take_along_axis(cosines, order, axis=1))
            held = np.full(cosines.shape, -np.inf)
            np.put_along_axis(held, order, best, axis=1)
            found.append(held)
        return found

    return scores


def rrf(best: np.ndarray) -> np.ndarray:
    """Reciprocal rank fusion with k = 60 (Cormack et al. 2009)."""
    return np.broadcast_to(1 / (60 + np.arange(1, best.shape[1] + 1)), best.shape)


def min_max(best: np.ndarray) -> np.ndarray:
    """From 0 to 1 between the last and the first hit: "relative score fusion"."""
    first, last = best[:, :1], best[:, -1:]
    return (best - last) / np.maximum(first - last, 1e-9)


def dbsf(best: np.ndarray) -> np.ndarray:
    """Distribution-based score fusion: from 0 to 1 between the mean ∓ 3 deviations of the hits."""
    mean, deviation = best.mean(axis=1, keepdims=True), best.std(axis=1, keepdims=True, ddof=1)
    return (best - mean + 3 * deviation) / np.maximum(6 * deviation, 1e-9)


def list_z(asked: Asked) -> Scores:
    """Deviations above the mean of all scores of the query in the list."""
    return [
        (s - s.mean(axis=1, keepdims=True)) / np.maximum(s.std(axis=1, keepdims=True), 1e-9)
        for s in asked.cosines.values()
    ]


def softmax(asked: Asked) -> Scores:
    """The probability of a document in its list, at CLIP's temperature of 0.01."""
    found = []
    for s in asked.cosines.values():
        top = s.max(axis=1, keepdims=True)
        total = np.exp((s - top) / 0.01).sum(axis=1, keepdims=True)
        found.append((s - top) / 0.01 - np.log(total))
    return found


def corrected(corrector: Corrector, of_index: bool = False) -> Rival:
    """Fitted on the rows like the matched documents, or on all that is in the index."""

    def scores(asked: Asked) -> Scores:
        rows = asked.lists if of_index else asked.fit
        data = Modalities.of(rows, paired=False)
        fit = corrector.fit(data, queries=asked.kind, query_rows={asked.kind: asked.bank})
        return fixed_scores(asked, fit.correction_)

    return scores


def fixed_scores(asked: Asked, correction: Correction) -> Scores:
    """One search of all documents in the correction's metric."""
    queries, found = correction.apply(asked.queries, asked.kind, "query"), []
    for name, documents in asked.lists.items():
        stored = correction.apply(documents, name)
        if correction.metric == "cosine":
            stored = unit(stored)
        found.append((unit(queries) if correction.metric == "cosine" else queries) @ stored.T)
    return found


def by_expected(hubs: float, bank: bool = True, weighted: bool = False) -> Rival:
    """Expected wrong results, with a share of hubness subtracted; or guessed without a bank.

    Weighted, a list's chance of an answer is its share of the documents.
    """

    def scores(asked: Asked) -> Scores:
        found = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            background = Background.fit(asked.lists, asked.bank, hubs)
            for name in asked.lists:
                s = background.queries(asked.queries) @ background.documents(name).T
                order = best_columns(s, DEPTH)
                best = np.take_along_axis(s, order, axis=1).astype(np.float64)
                if bank:
                    expected, _ = background.judged(best, name)
                else:
                    expected = Levels.of(best, PLACES).expected_without_bank(best)
                if weighted:
                    every = sum(len(rows) for rows in asked.lists.values())
                    expected = expected * every / s.shape[1] / len(asked.lists)
                key = merging_order(expected)
                held = np.full(s.shape, -np.inf)
                np.put_along_axis(held, order, -np.log(key), axis=1)
                found.append(held)
        return found

    return scores


def recommended(asked: Asked) -> tuple[str, Scores]:
    """What ``diagnose --documents`` recommends, and its scores."""
    others = {name: rows[asked.list_groups[name] < 0] for name, rows in asked.lists.items()}
    data = (
        Modalities.of(asked.fit, groups=asked.fit_groups)
        .with_queries({asked.kind: asked.bank}, {asked.kind: asked.bank_groups})
        .with_documents({name: rows for name, rows in others.items() if len(rows)})
    )
    found = diagnose(data, queries=asked.kind)
    if found.correction is None:
        return "none", RIVALS["raw"](asked)
    if found.correction.background is not None:
        return found.recommended, by_expected(found.correction.hubs.weight)(asked)
    return found.recommended, fixed_scores(asked, found.correction)


RIVALS: dict[str, Rival] = {
    "raw": lambda asked: list(asked.cosines.values()),
    "GR-CLIP": corrected(Center()),
    "GR-CLIP, of the index": corrected(Center(), of_index=True),
    "RRF": per_list(rrf),
    "min-max": per_list(min_max),
    "DBSF": per_list(dbsf),
    "list z": list_z,
    "softmax": softmax,
    "keep": corrected(Calibrate()),
    "keep, of the index": corrected(Calibrate(), of_index=True),
    "keep with hubs": corrected(Calibrate(hubs=0.5)),
    "by E, no hubs": by_expected(0.0),
    "by E": by_expected(0.25),
    "by E, hubs ½": by_expected(0.5),
    "by E, weighted": by_expected(0.25, weighted=True),
    "by E, no bank": by_expected(0.0, bank=False),
}
# What is compared with "by E": its own forms are not rivals.
OTHERS = [name for name in RIVALS if not name.startswith("by E")]
