"""Stored searches: what held-out queries find in one index of all modalities, raw and corrected.

The queries are a seeded sample; none is picked by hand. The index is that of the mixed metrics, on
the confirm split; the correction is the one of the fit split, which the verdict's numbers are of.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from modgap._results import spoken
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
    before = first_ten(raw, data.names)
    if before is None:
        return Answers()
    stored = _sample(raw, diagnosis.seed)
    items = _Items(data, held)
    queries = [items.query(raw, corrected, *one) for one in stored]
    typical = _typical(stored, raw, corrected)
    document = {
        "about": _about(diagnosis, before, len(stored), paired=data.paired),
        "typical": typical,
        "typical_about": _typical_about(paired=data.paired, corrected=corrected is not None),
        "method": diagnosis.recommended,
        "metric": metric,
        "corrected_metric": None if correction is None else correction.metric,
        "demands": None if correction is None else in_one_sentence(correction, diagnosis.queries),
        "queries": queries,
        "items": items.listed(queries, typical, pictures),
    }
    after = None if corrected is None else first_ten(corrected, data.names)
    return Answers(before, after, document)


def _sample(results: _Results, seed: int) -> list[tuple[int, int]]:
    """A seeded sample, as many of each asking modality: its place and its line in the results."""
    rng = np.random.default_rng(seed)
    each = STORED // len(results)
    return [
        (place, int(line))
        for place, one in enumerate(results)
        for line in np.sort(rng.permutation(len(one.query))[:each])
    ]


def _typical(stored: Sequence[tuple[int, int]], raw: _Results, corrected: _Results | None) -> int:
    """The stored query whose gain is the median of all, to be shown first."""
    gains = [
        _gain(raw[place], corrected[place] if corrected else None, line) for place, line in stored
    ]
    order = sorted(range(len(gains)), key=lambda n: (gains[n], n))
    return order[(len(order) - 1) // 2]


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


def _typical_about(*, paired: bool, corrected: bool) -> str:
    """Why that one is shown first."""
    if not paired:
        what = "as many results change as in the median of" if corrected else "one of"
    else:
        gain = "its NDCG@10 rises as much as" if corrected else "its match comes as early as"
        what = f"{gain} the median of"
    return what


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
        sides = {"raw": raw, "corrected": corrected}
        return {
            "item": self._number(asked),
            **{
                side: None if found is None else self._hits(found[place], line)
                for side, found in sides.items()
            },
            **{
                f"{side}_place": None if found is None else _place(found[place], line)
                for side, found in sides.items()
            },
        }

    def _hits(self, found: MixedResults, line: int) -> list[dict[str, Any]]:
        known = found.rank[line] >= 0
        columns = (found.kind[line], found.row[line], found.score[line], found.match[line])
        return [
            {
                "item": self._number((int(kind), self._row(int(kind), int(row)), False)),
                "score": float(score),
                "match": bool(match) if known else None,
            }
            for kind, row, score, match in zip(*columns, strict=True)
            if kind >= 0
        ]

    def _row(self, kind: int, row: int) -> int:
        return int(self._held.rows[self._data.names[kind]][row])

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
            [label] = row_labels(side, np.array([row]), _LABEL_LENGTH) or [None]
            shown.append({"modality": place, "row": row, "label": label, "thumbnail": None})
        keys, room = list(self._numbers), _THUMBNAIL_BYTES
        for number in _by_place(queries, typical):
            place, row, asks = keys[number]
            if room > 0 and not asks:
                shown[number]["thumbnail"] = pictures(self._data.names[place], row)
                room -= len(shown[number]["thumbnail"] or "")
        return shown


def _place(found: MixedResults, line: int) -> int | None:
    """Where the match is, counted from 1."""
    return int(found.rank[line]) + 1 if found.rank[line] >= 0 else None


def _by_place(queries: Sequence[dict[str, Any]], typical: int) -> list[int]:
    """Items in the order people see them: of the typical query, then of all, the best first."""
    ordered = [queries[typical], *queries]
    places = [[queries[typical]["item"], *_found(queries[typical])]]
    places.append([one["item"] for one in ordered])
    depth = max((len(_found(one)) for one in ordered), default=0)
    places += [
        [found[at] for one in ordered if at < len(found := _found(one))] for at in range(depth)
    ]
    return list(dict.fromkeys(number for some in places for number in some))


def _found(query: dict[str, Any]) -> list[int]:
    """The items of a query's results, raw and corrected by turns."""
    both = (query["raw"], query["corrected"] or [])
    longest = max(map(len, both))
    return [side[at]["item"] for at in range(longest) for side in both if at < len(side)]
