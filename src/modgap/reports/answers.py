"""Stored searches: what held-out queries find in one index of all modalities, raw and corrected.

The queries are a seeded sample; none is picked by hand. The index is that of the mixed metrics, on
the confirm split; the correction is the one fitted on the fit split, as in the verdict.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import numpy as np

from modgap.core.results import spoken
from modgap.corrections import Metric, in_one_sentence, row_length
from modgap.diagnosis import Diagnosis
from modgap.diagnosis.splits import HeldOut, held_out
from modgap.evaluation.mixed_results import FirstTen, MixedResults, first_ten, mixed_results
from modgap.io import Modalities
from modgap.reports.rows import RowPictures, row_labels

# Queries that are stored; each has ten results.
STORED = 36
# Pictures and captions of results are small, but hundreds of them are not.
_THUMBNAIL_BYTES = 250_000
_LABEL_LENGTH = 160
_Results = Sequence[MixedResults]


@dataclass(frozen=True, eq=False)
class Answers:
    """The first ten results of all held-out queries in numbers, and some queries as plain values.

    All are None where there is no diagnosis or nothing was asked.
    """

    before: FirstTen | None = None
    after: FirstTen | None = None
    document: dict[str, Any] | None = None


def make_answers(
    data: Modalities, diagnosis: Diagnosis | None, metric: Metric, pictures: RowPictures
) -> Answers:
    """Search as the mixed metrics do, and keep the results of some queries for the page."""
    if diagnosis is None:
        return Answers()
    held = held_out(data, diagnosis.seed)
    rows = held.data.at_unit_length() if row_length(metric) == "unit" else held.data
    options: dict[str, Any] = {"queries": diagnosis.queries, "seed": diagnosis.seed}
    raw, corrected = mixed_results(rows, metric=metric, **options), None
    correction = diagnosis.corrections.get(str(diagnosis.recommended))
    if correction is not None:
        corrected = mixed_results(rows, correction=correction, **options)
    background = None if correction is None else correction.background
    before = first_ten(raw, data.names)
    if before is None:
        return Answers()
    rng = np.random.default_rng(diagnosis.seed)
    each = STORED // len(raw)  # as many queries of each query modality
    stored = [
        (place, int(line))
        for place, one in enumerate(raw)
        for line in np.sort(rng.permutation(len(one.query))[:each])
    ]
    items = _Items(data, held)
    queries = [items.query(raw, corrected, *one) for one in stored]
    # The query whose gain is the median of all is shown first.
    after_each = corrected or [None] * len(raw)
    gains = [_gain(raw[place], after_each[place], line) for place, line in stored]
    typical = int(np.argsort(gains, kind="stable")[(len(gains) - 1) // 2])
    if data.paired:
        gain = (
            "its match comes as early as" if corrected is None else "its NDCG@10 rises as much as"
        )
        typical_about = f"{gain} the median of"
    else:
        changed = "as many results change as in the median of"
        typical_about = "one of" if corrected is None else changed
    document = {
        "about": _about(diagnosis, before, len(stored), paired=data.paired),
        "typical": typical,
        "typical_about": typical_about,
        "method": diagnosis.recommended,
        "metric": metric,
        "corrected_metric": None if correction is None else correction.metric,
        "least": None if background is None else background.least * len(data.names),
        "demands": None if correction is None else in_one_sentence(correction, diagnosis.queries),
        "queries": queries,
        "items": items.listed(queries, typical, pictures),
    }
    after = None if corrected is None else first_ten(corrected, data.names)
    return Answers(before, after, document)


def _gain(raw: MixedResults, corrected: MixedResults | None, line: int) -> float:
    """By how much NDCG@10 of a query rises; without a correction, how early its match comes.

    Without pairs, how many of its results change.
    """
    if corrected is None:
        return -float(raw.rank[line])
    if raw.rank[line] < 0:
        was, now = ({*zip(one.kind[line], one.row[line], strict=True)} for one in (raw, corrected))
        return float(len(now - was))
    return float(corrected.ndcg[line] - raw.ndcg[line])


def _about(diagnosis: Diagnosis, before: FirstTen, n: int, *, paired: bool) -> str:
    """Which queries are stored, which index they ask, and whose results stand beside."""
    queries = f"{spoken(diagnosis.queries)} queries"
    index = "It holds every held-out row; a row does not find itself."
    if paired:
        index = (
            "It is the index of the mixed metrics: it holds each held-out item as one of its "
            "modalities, and the right result is of another modality than the query."
        )
    fitted = ""
    if diagnosis.recommended is not None:
        fitted = (
            f" {diagnosis.recommended} was fitted on other rows, as it was for the metrics above."
        )
    return (
        f"{n:,} of {before.n_queries:,} searches with held-out {queries} in an index of "
        f"{before.n_documents:,} documents, drawn at random with seed {diagnosis.seed}; none was "
        f"picked by hand. {index}{fitted}"
    )


class _Items:
    """Rows that are shown, each once."""

    def __init__(self, data: Modalities, held: HeldOut) -> None:
        self._data, self._held = data, held
        # By modality, row number in the data, and whether it only asks.
        self._numbers: dict[tuple[int, int, bool], int] = {}

    def query(
        self, raw: _Results, corrected: _Results | None, place: int, line: int
    ) -> dict[str, Any]:
        """A query and its results, each a number in the list of items."""
        name = raw[place].modality
        row = int(self._held.queries[name][raw[place].query[line]])
        asked = (self._data.names.index(name), row, self._data.asks_apart(name))
        shown: dict[str, Any] = {"item": self._number(asked)}
        for side, found in (("raw", raw), ("corrected", corrected)):
            rank = -1 if found is None else int(found[place].rank[line])
            shown[side] = None if found is None else self._hits(found[place], line)
            shown[f"{side}_place"] = None if rank < 0 else rank + 1
        return shown

    def _hits(self, found: MixedResults, line: int) -> list[dict[str, Any]]:
        known = found.rank[line] >= 0
        columns = (
            found.kind[line], found.row[line], found.score[line], found.match[line],
            found.expected_wrong[line],
        )  # fmt: skip
        return [
            {
                "item": self._number((int(kind), self._row(int(kind), int(row)), False)),
                "score": float(score),
                "match": bool(match) if known else None,
                "expected_wrong": None if np.isnan(wrong) else float(wrong),
            }
            for kind, row, score, match, wrong in zip(*columns, strict=True)
            if kind >= 0
        ]

    def _row(self, kind: int, row: int) -> int:
        """The number of a held-out row in the data; other documents are numbered after these."""
        rows = self._held.rows[self._data.names[kind]]
        past = row - len(rows)
        return int(rows[row]) if past < 0 else self._n_rows(kind) + past

    def _n_rows(self, kind: int) -> int:
        return self._data.sides[self._data.names[kind]].n_rows

    def _number(self, item: tuple[int, int, bool]) -> int:
        return self._numbers.setdefault(item, len(self._numbers))

    def listed(
        self, queries: Sequence[dict[str, Any]], typical: int, pictures: RowPictures
    ) -> list[dict[str, Any]]:
        """All items in the order of their numbers, with pictures while there is room for them."""
        shown: list[dict[str, Any]] = []
        for place, row, asks in self._numbers:
            name = self._data.names[place]
            side = self._data.asking[name] if asks else self._data.sides[name]
            past = -1 if asks else row - self._n_rows(place)
            if past >= 0:
                side = self._held.data.others[name]
            at = np.array([row if past < 0 else past])
            [label] = row_labels(side, at, _LABEL_LENGTH) or [None if past < 0 else "not of a pair"]
            shown.append({"modality": place, "row": row, "label": label, "thumbnail": None})
        keys, room = list(self._numbers), _THUMBNAIL_BYTES
        for number in _as_seen(queries, typical):
            place, row, asks = keys[number]
            if room > 0 and not asks and row < self._n_rows(place):
                shown[number]["thumbnail"] = pictures(self._data.names[place], row)
                room -= len(shown[number]["thumbnail"] or "")
        return shown


def _as_seen(queries: Sequence[dict[str, Any]], typical: int) -> list[int]:
    """Items in the order people see them: of the typical query, then of all, the best first."""
    ordered = [queries[typical], *queries]
    found = [
        # The results of a query, raw and corrected by turns.
        [
            hit["item"]
            for both in zip_longest(one["raw"], one["corrected"] or [])
            for hit in both
            if hit
        ]
        for one in ordered
    ]
    best_first = [number for place in zip_longest(*found) for number in place if number is not None]
    asked = [one["item"] for one in ordered]
    return list(dict.fromkeys([asked[0], *found[0], *asked, *best_first]))
