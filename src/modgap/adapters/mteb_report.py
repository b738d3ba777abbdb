"""What a model embedded in the tasks of mteb: the gap, the cones and mixed search in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from modgap.core.results import Result, number, text_table
from modgap.core.tables import HasTable
from modgap.corrections import Correction, Metric, Role
from modgap.evaluation.mixed import NDCG_PLACES, MixedRetrieval, mixed_retrieval
from modgap.io import Embeddings, Modalities
from modgap.io.duplicates import groups_joined

_MIXED = f"NDCG@{NDCG_PLACES}", "own excess"


class MtebRows:
    """The rows that a model gave in one split of a task, and which of them match.

    The rows of a modality are its documents, or its queries where it has no documents.

    >>> rows = MtebRows("T2I", "default", "test")
    >>> rows.add(["text", "text"], "query", ["a", "b"], np.eye(2))
    >>> rows.add(["image"], "document", ["1"], np.eye(2)[:1])
    >>> rows.match({"a": {"1": 1}})
    >>> [label in rows.labels("image") for label in rows.labels("text")]
    [True, False]
    """

    def __init__(self, task: str, subset: str, split: str) -> None:
        self.task, self.subset, self.split = task, subset, split
        self._rows: dict[tuple[str, Role], dict[Any, np.ndarray]] = {}
        self._matches: dict[tuple[Role, str], str] = {}

    def add(
        self, modalities: Iterable[str], role: Role, ids: Iterable[Any] | None, rows: np.ndarray
    ) -> None:
        """Keep rows; one with the id of an earlier row replaces it."""
        keys = [None] * len(rows) if ids is None else ids
        for modality, key, row in zip(modalities, keys, rows, strict=True):
            held = self._rows.setdefault((modality, role), {})
            held[len(held) if key is None else str(key)] = row

    def match(self, relevant: Mapping[str, Mapping[str, float]]) -> None:
        """Match queries of the same relevant documents with these documents.

        Documents that other queries share only in part match nothing, nor do their queries.
        """
        wanted = {
            query: frozenset(key for key, score in documents.items() if score > 0)
            for query, documents in relevant.items()
        }
        shared = Counter(key for documents in {*wanted.values()} for key in documents)
        self._matches = {}
        for query, documents in wanted.items():
            if documents and all(shared[key] == 1 for key in documents):
                self._matches["query", query] = min(documents)
                self._matches.update({("document", key): min(documents) for key in documents})

    @property
    def names(self) -> list[str]:
        """The modalities."""
        return sorted({modality for modality, _ in self._rows})

    def role(self, modality: str) -> Role:
        """What the rows of a modality are."""
        return "document" if (modality, "document") in self._rows else "query"

    def rows(self, modality: str) -> np.ndarray:
        """The rows of a modality."""
        return np.stack([*self._rows[modality, self.role(modality)].values()])

    def labels(self, modality: str) -> list[tuple[Any, ...]]:
        """A label for each row of a modality: rows of the same label match."""
        role, split = self.role(modality), (self.task, self.subset, self.split)
        own = [(role, key) for key in self._rows[modality, role]]
        return [(split, self._matches.get(one, (modality, *one))) for one in own]


@dataclass(frozen=True)
class MtebPair(Result):
    """Two modalities of a task, or of "all tasks" where none has both.

    ``gap`` is the distance between the means of unit rows, ``cones`` the mean cosine within each
    modality, ``n_matches`` counts the groups of rows that match. ``mixed`` is what queries find in
    one index of both, ``corrected`` the same after a correction that serves these queries; None
    without matches.
    """

    task: str
    subset: str
    split: str
    names: tuple[str, str]
    n_rows: tuple[int, int]
    gap: float
    cones: tuple[float, float]
    n_matches: int
    mixed: MixedRetrieval | None
    corrected: MixedRetrieval | None

    def _brief(self) -> str:
        return f"{self.task}, {' and '.join(self.names)}, gap {self.gap:.4f}"


@dataclass(frozen=True)
class MtebReport(HasTable, Result):
    """The gap, the cones and mixed search for every two modalities of a run; prints as a table."""

    model: str
    pairs: tuple[MtebPair, ...]

    def _brief(self) -> str:
        return f"{self.model}, {len(self.pairs)} pairs of modalities"

    def table(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """Header and rows, one for each two modalities."""
        corrected = any(one.corrected for one in self.pairs)
        header = ("", "x", "y", "gap", "cone x", "cone y", "matches", *_MIXED)
        rows: list[tuple[str, ...]] = []
        for one in self.pairs:
            values = [one.gap, *one.cones, one.n_matches]
            for found in (one.mixed, one.corrected)[: 1 + corrected]:
                values += [found.ndcg, found.own_excess] if found else [float("nan")] * 2
            usual = "default", "test", ""
            where = [name for name in (one.subset, one.split) if name not in usual]
            shown = " ".join([one.task, *where])
            rows.append((shown, *one.names, *(number(value, 3) for value in values)))
        return (*header, *(f"corrected {name}" for name in _MIXED if corrected)), rows

    def __str__(self) -> str:
        return f"{self.model}\n{text_table(*self.table())}"


def task_modalities(tasks: Sequence[MtebRows], names: Sequence[str]) -> Modalities:
    """The rows of these modalities in tasks, and which of them match.

    Copies of a row in several tasks, such as a corpus that they share, join their matches.
    """
    sides: dict[str, Embeddings] = {}
    groups: dict[str, np.ndarray] = {}
    codes: dict[Any, int] = {}
    for name in sorted({name for task in tasks for name in task.names}):
        having = [task for task in tasks if name in task.names]
        sides[name] = Embeddings.of(np.concatenate([task.rows(name) for task in having]), name)
        labels = [label for task in having for label in task.labels(name)]
        groups[name] = np.array([codes.setdefault(label, len(codes)) for label in labels])
    if len(tasks) > 1:
        groups, _ = groups_joined(sides, groups)
    chosen = {name: sides[name] for name in names}
    if not set.intersection(*({*groups[name].tolist()} for name in names)):
        return Modalities.of(chosen, paired=False)
    return Modalities.of(chosen, groups={name: groups[name] for name in names})


def report_pairs(
    tasks: Sequence[MtebRows], metric: Metric, correction: Correction | None
) -> tuple[MtebPair, ...]:
    """Every two modalities of each task, and of all tasks every two that no task has."""
    every = [([task], names) for task in tasks for names in combinations(task.names, 2)]
    several = [task for task in tasks if len(task.names) > 1]
    apart = {*combinations(sorted({name for task in several for name in task.names}), 2)}
    every += [(several, names) for names in sorted(apart - {names for _, names in every})]
    return tuple(_pair(held, names, metric, correction) for held, names in every)


def _pair(
    tasks: Sequence[MtebRows],
    names: tuple[str, str],
    metric: Metric,
    correction: Correction | None,
) -> MtebPair:
    data = task_modalities(tasks, names)
    moments = data.moments()
    first, second = (
        side.cone_mean_and_std()[0] if side.n > 1 else float("nan")
        for side in (moments.x, moments.y)
    )
    asks = [n for n in names if any(n in one.names and one.role(n) == "query" for one in tasks)]
    mixed = corrected = None
    if data.paired and asks:
        mixed = mixed_retrieval(data, metric=metric, queries=asks)
        if correction and {*names} <= {*correction.names} and {*asks} <= {*correction.queries}:
            corrected = mixed_retrieval(data, correction=correction, queries=asks)
    (one, *more) = tasks
    return MtebPair(
        *(("all tasks", "", "") if more else (one.task, one.subset, one.split)),
        names=names,
        n_rows=(moments.x.n, moments.y.n),
        gap=moments.at_unit_length().gap_distance(),
        cones=(first, second),
        n_matches=data.n_groups if data.paired else 0,
        mixed=mixed,
        corrected=corrected,
    )
