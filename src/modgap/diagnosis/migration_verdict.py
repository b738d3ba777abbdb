"""The verdict on queries of a new model among documents of an old one, in words and numbers."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from modgap.core.files import atomic_folder, write_text
from modgap.core.results import NOT_IN_JSON, Result, document, signed, spoken, to_json
from modgap.corrections import Background, Correction, in_one_sentence
from modgap.diagnosis.fixing import check_replaceable
from modgap.diagnosis.splits import Counted
from modgap.diagnosis.verdict import MIN_CONFIRM_GROUPS, Verdict, goal_words
from modgap.evaluation import GroupBootstrap, Interval
from modgap.evaluation.metric_names import NDCG, metric_label, metric_name
from modgap.evaluation.metrics import Sample, resample
from modgap.index.generations import BACKGROUND_FILE, NEW_FILE, OLD_FILE

# Where recall cannot be judged, so many mapped queries must be nearest to their own old row.
OWN_ROWS = 0.5
LIST_FILE = "migration.json"


@dataclass(frozen=True)
class Kept(Result):
    """One metric of three ways to search, on the confirm split.

    ``before`` is that of old queries in old documents, ``after`` that of new queries, mapped, in
    old documents, ``moved`` that of new queries in new documents. ``change`` is after − before,
    ``share`` after / before.
    """

    before: Interval
    after: Interval
    moved: Interval
    change: Interval
    share: Interval

    @classmethod
    def of(cls, bootstrap: GroupBootstrap, ways: Sequence[Sample]) -> Kept:
        """From what each query got, before, after and moved."""
        (was, was_draws), (now, now_draws), moved = (resample(bootstrap, way) for way in ways)
        with np.errstate(divide="ignore", invalid="ignore"):  # resamples that find nothing
            shares = now_draws / was_draws
        return cls(
            before=bootstrap.interval(was, was_draws),
            after=bootstrap.interval(now, now_draws),
            moved=bootstrap.interval(*moved),
            change=bootstrap.interval(now - was, now_draws - was_draws),
            share=bootstrap.interval(now / was, shares) if was else Interval(*(float("nan"),) * 3),
        )


@dataclass(frozen=True, eq=False)
class Migration(Result):
    """The verdict on queries of a new model among documents of an old one, and what serves them.

    ``recall`` and ``ndcg`` are those of the confirm split; none without pairs. ``own_rows`` is the
    share of its mapped queries that are nearest to their own row of the old model. ``tried`` holds
    the mean reciprocal rank of each map on the choose split. ``dims`` are of the old and of the
    new model.

    ``correction`` maps new queries into the index of old documents, ``new_correction`` is for the
    index of new documents, and ``background`` merges the lists of both. They are None where the
    verdict is to leave it alone.
    """

    verdict: Verdict
    sentence: str
    method: str
    query_modality: str
    names: tuple[str, ...]
    dims: tuple[int, int]
    n_groups: Mapping[str, int]
    counted: Counted
    keep: float
    seed: int
    recall: Mapping[str, Kept]
    ndcg: Kept | None
    own_rows: Interval
    tried: Mapping[str, float]
    correction: Correction | None = field(default=None, repr=False, metadata=NOT_IN_JSON)
    new_correction: Correction | None = field(default=None, repr=False, metadata=NOT_IN_JSON)
    background: Background | None = field(default=None, repr=False, metadata=NOT_IN_JSON)

    def _brief(self) -> str:
        shares = (f"{name} {one.share.value:.0%} kept" for name, one in self.recall.items())
        return ", ".join([f"{self.verdict}: {self.method}", *shares])

    def table(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """Header and rows: each metric of the three ways to search, and what the map keeps."""
        known = {**self.recall, **({} if self.ndcg is None else {NDCG: self.ndcg})}
        rows: list[tuple[str, ...]] = []
        for key, one in known.items():
            values = (f"{way.value:.3f}" for way in (one.before, one.after, one.moved))
            rows.append((metric_label(key, self.names), *values, share_cell(one.share)))
        own = f"{self.query_modality} rows nearest to their own"
        rows.append((own, "", f"{self.own_rows.value:.3f}", "", ""))
        return ("", "old queries", "new, mapped", "all moved", "kept"), rows

    def save(self, folder: str | os.PathLike[str]) -> list[str]:
        """Write the verdict and, where there are any, its three files; the files written.

        The folder must be new, empty, or one that this wrote before, which is replaced.
        """
        place = Path(folder)
        check_replaceable(place, LIST_FILE, "migrate")
        held = {
            OLD_FILE: self.correction,
            NEW_FILE: self.new_correction,
            BACKGROUND_FILE: self.background,
        }
        kept = {name: one for name, one in held.items() if one is not None}
        with atomic_folder(place, replace=True) as temporary:
            for name, one in kept.items():
                one.save(temporary / name)
            listed = document("migrate", self, files=[*kept])
            write_text(temporary / LIST_FILE, to_json(listed) + "\n")
        return [str(place / name) for name in (*kept, LIST_FILE)]


def map_verdict(recall: Mapping[str, Kept], own_rows: Interval, n: int, keep: float) -> Verdict:
    """Whether a map may be used, from what is kept on ``n`` groups.

    Where that cannot be told, it must at least find its own rows.
    """
    shares = [one.share for one in recall.values()]
    if shares and n >= MIN_CONFIRM_GROUPS and all(one.low >= keep for one in shares):
        return "use"
    many = n >= MIN_CONFIRM_GROUPS
    hopeful = all((one.value if many else one.high) >= keep for one in shares)
    if not (hopeful and own_rows.low >= OWN_ROWS):
        return "leave it alone"
    return "not enough pairs" if recall else "no pairs"


def map_sentence(found: Migration, stored: Correction) -> str:
    """That the map serves, with what it keeps, or that this was not judged."""
    if found.verdict == "use":
        return f"Use {found.method}: {_what_is_kept(found)} {in_one_sentence(stored)}"
    why = "No pairs." if found.verdict == "no pairs" else "Not enough pairs."
    few = f" On these, {_what_is_kept(found)}" if found.recall else ""
    return (
        f"{why} {found.method} is offered: {_own_rows(found)}{few} {in_one_sentence(stored)} With "
        "more pairs it can be judged how much recall is kept."
    )


def no_map_sentence(found: Migration) -> str:
    """That no map serves, and what to do instead."""
    start, own = "by", _own_rows(found)
    if found.recall:
        start = f"{found.keep:.0%} of recall@1 must be kept, and {_what_is_kept(found)} By"
    if not found.own_rows.low >= OWN_ROWS:
        own += (
            " Either the models see different things, or these are not the same rows in the same "
            "order."
        )
    return (
        f"Leave it alone: {start} {found.method}, the best map, {own} Embed the documents with the "
        "new model first, and queries with the old one until then."
    )


def _own_rows(found: Migration) -> str:
    own = found.own_rows
    return (
        f"{own.value:.0%} of the held-out {found.query_modality} rows, mapped, are nearest to "
        f"their own row of the old model (95 % interval {share_cell(own)})."
    )


def _what_is_kept(found: Migration) -> str:
    """Recall and NDCG in words, every number from the confirm split."""
    ndcg = found.ndcg
    assert ndcg is not None
    recalls = {metric_name(key, found.names): one for key, one in found.recall.items()}
    kept = (
        f"{one.share.value:.0%} of {name} ({one.before.value:.3f} → {one.after.value:.3f}; 95 % "
        f"interval {share_cell(one.share)})"
        for name, one in recalls.items()
    )
    moved = (f"{name} is {one.moved.value:.3f}" for name, one in recalls.items())
    return (
        f"new {found.query_modality} queries keep {spoken(kept)} among the old documents, where "
        f"{goal_words('mixed', found.names)} goes from {ndcg.before.value:.3f} to "
        f"{ndcg.after.value:.3f} ({signed(ndcg.change.value)}, {signed(ndcg.change.low)} to "
        f"{signed(ndcg.change.high)}) on {found.n_groups['confirm']:,} held-out {found.counted}. "
        f"Once all documents have moved, {spoken(moved)}."
    )


def share_cell(share: Interval) -> str:
    """The interval of a share.

    >>> share_cell(Interval(0.5, 0.4, 0.61))
    '40% to 61%'
    """
    return "–" if np.isnan(share.value) else f"{share.low:.0%} to {share.high:.0%}"
