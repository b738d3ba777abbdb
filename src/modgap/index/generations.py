"""An index of old documents and one of new documents, searched as one while documents move.

How it works:

1. Both indexes take queries of the new model: the old one through the correction that ``migrate``
   made, the new one through its own. Each modality of each is a list of its own.
2. Each score becomes a number of expected wrong results in its list, by what the same bank found
   in both. A list that holds a share s of the documents counts for 1/s of it: that many there
   would be in a list of all. How many there are is known but for those in both, which the results
   of the old index tell.
3. Documents that are in the new index are left out of the results of the old one, which stays as
   it is. So nothing is undone by searching the old index alone again.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from modgap.arrays import to_numpy
from modgap.core.checks import InputTypeError, InputValueError, check_choice, check_count
from modgap.core.results import Result, changed
from modgap.corrections import Background, Correction, ForeignQueriesWarning, check_recognised
from modgap.index.addresses import open_index
from modgap.index.base import VectorIndex
from modgap.index.hits import Id
from modgap.search import Hits
from modgap.search.merging import cut, merge_checked

# What ``migrate`` writes: old documents and new queries, new documents, what merges their lists.
OLD_FILE, NEW_FILE = "correction.safetensors", "new.safetensors"
BACKGROUND_FILE = "background.safetensors"
# The old index is searched this many times deeper where most of its results have moved. What comes
# later still has many expected wrong results.
_DEEPER = 16
# Parts of the sample's new documents that the bank searched: a list of few has another background.
PARTS = (1, 4, 16)


@dataclass(frozen=True)
class Moved(Result):
    """How many documents of each modality are in the old index, in the new one, and in both."""

    old: Mapping[str, int]
    new: Mapping[str, int]
    both: Mapping[str, int]

    def share(self, *names: str) -> float:
        """The share of all documents, of these modalities or of all, that the new index holds."""
        chosen = names or tuple(self.old)
        new = sum(self.new[name] for name in chosen)
        every = new + sum(self.old[name] - self.both[name] for name in chosen)
        return new / max(1, every)

    def table(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """One line for each modality: documents of both indexes, and the share that has moved."""
        lines: list[tuple[str, ...]] = [
            (name, f"{n:,}", f"{self.new[name]:,}", f"{self.share(name):.1%}")
            for name, n in self.old.items()
        ]
        return ("documents", "old index", "new index", "moved"), lines


class Generations:
    """Two indexes of the same documents by an old and a new model, searched as one.

    Parameters
    ----------
    old, new : VectorIndex
        Opened with the corrections that ``migrate`` made: the old one maps new queries.
    background : Background
        What ``migrate`` found in the documents of both.
    """

    def __init__(self, old: VectorIndex, new: VectorIndex, background: Background) -> None:
        if old.names != new.names:
            raise InputValueError(
                f"Both indexes must hold the same modalities, got {' and '.join(old.names)} and "
                f"{' and '.join(new.names)}."
            )
        if new.id_type is not None and old.id_type != new.id_type:
            raise InputTypeError(
                "A document has the same id in both indexes, so both must have whole numbers or "
                "both text. Give the new documents the ids of the old ones."
            )
        self.old, self.new, self.background = old, new, background

    def search(
        self,
        queries: Any,
        modality: str | None = None,
        k: int = 10,
        only: str | None = None,
        *,
        at_most: float | None = None,
    ) -> Hits:
        """The k best documents of both indexes for each raw query of the new model, best first.

        Parameters
        ----------
        queries, modality, k, only, at_most
            As for ``VectorIndex.search``.

        Returns
        -------
        Hits
            With ``expected_wrong``; ``sources`` says which index a result is from, old or new.
        """
        check_count(k, "k")
        if only is not None:
            check_choice(only, "only", self.old.names)
        names = self.old.names if only is None else (only,)
        rows = to_numpy(queries)
        rows = rows[None] if rows.ndim == 1 else rows
        vector, modality = self.old.vector_for(modality)
        # Only warns.
        check_recognised(vector.correction, rows, modality, role="query", trust_rows=True)
        lists, factors, gone = {}, {}, {}
        for name in names:
            n_old, n_new = self.old.count(name), self.new.count(name)
            total = float(n_new)
            if n_old:
                hits, gone[name] = self._not_moved(rows, modality, k, name)
                lists[f"old {name}"] = hits.ids, hits.scores
                # Documents that have moved may still be in the old index, or be deleted there.
                moved = np.mean(_within(hits.ids, gone[name])[np.isfinite(hits.scores)])
                total += n_old * (1 - float(moved))
                factors[f"old {name}"] = len(names) * total / n_old
            if n_new:
                key = self._of_size(name, n_new)
                places = self.background.list_of(key).places
                hits = self.new.best_of(name, rows, modality, max(k, places))
                lists[key] = hits.ids, hits.scores
                factors[key] = len(names) * total / n_new
        width = sum(scores.shape[1] for _, scores in lists.values())
        with warnings.catch_warnings():
            # Of queries that were recognised: the scores of a list that grows change.
            warnings.simplefilter("ignore", ForeignQueriesWarning)
            found = merge_checked(lists, width, self.background, factors=factors)
        lists_of = np.char.partition(found.modalities.astype(str), " ")
        # Names of modalities hold no dot.
        sources, modalities = lists_of[..., 0], np.char.partition(lists_of[..., 2], ".")[..., 0]
        kept = np.isfinite(found.scores)
        for name, moved in gone.items():
            old = (sources == "old") & (modalities == name)
            kept &= ~(old & _within(found.ids, moved))
        found = changed(found, modalities=modalities.astype(object), sources=sources.astype(object))
        found = found.kept(kept).moved(np.argsort(~kept, axis=1, kind="stable"))
        if at_most is not None:
            self.background.check_at_most(at_most, len(names))
            found = cut(changed(found, least=self.background.least * len(names)), at_most)
        return found.first(k)

    def _of_size(self, name: str, n: int) -> str:
        """The list of new documents of a modality whose number is nearest to this one."""
        sizes = {
            key: self.background.lists[key].n_documents
            for part in PARTS
            if (key := new_list(name, part)) in self.background.lists
        }
        return min(sizes, key=lambda key: abs(np.log(sizes[key] / n)))

    def _not_moved(
        self, rows: np.ndarray, modality: str, k: int, name: str
    ) -> tuple[Hits, set[Id]]:
        """Results of the old index, and those that are in the new one; k should not be."""
        first = max(k, self.background.list_of(f"old {name}").places)
        for depth in (first, _DEEPER * first):
            hits = self.old.best_of(name, rows, modality, depth)
            there = np.isfinite(hits.scores)
            moved = self.new.held(name, list({*hits.ids[there].tolist()}))
            left = np.sum(there & ~_within(hits.ids, moved), axis=1)
            if hits.ids.shape[1] < depth or np.all(left >= k):
                break
        return hits, moved

    def moved(self) -> Moved:
        """How many documents have moved."""
        both = {name: len({*self.old.ids(name)} & {*self.new.ids(name)}) for name in self.old.names}
        return Moved(
            old={name: self.old.count(name) for name in self.old.names},
            new={name: self.new.count(name) for name in self.old.names},
            both=both,
        )

    def left(self, modality: str) -> list[Id]:
        """The ids of the old documents of a modality that are not in the new index."""
        held = {*self.new.ids(modality)}
        return [one for one in self.old.ids(modality) if one not in held]

    def close(self) -> None:
        """Close both indexes."""
        self.old.close()
        self.new.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def new_list(name: str, part: int = 1) -> str:
    """What the list of new documents of a modality is called, of so small a part of the sample."""
    return f"new {name}" if part == 1 else f"new {name}.{part}"


def open_generations(
    folder: str | os.PathLike[str],
    old: str | os.PathLike[str],
    new: str | os.PathLike[str],
    *,
    trust: bool = False,
    old_options: Mapping[str, Any] | None = None,
    new_options: Mapping[str, Any] | None = None,
) -> Generations:
    """Open two indexes with what ``migrate`` wrote, to be searched as one.

    Parameters
    ----------
    folder : path
        The folder that ``migrate`` wrote.
    old, new : str or path
        Where the indexes are, as for ``open_index``.
    trust, old_options, new_options
        As for ``open_index``; options are those of each.
    """
    place = Path(folder)
    for name in (OLD_FILE, NEW_FILE, BACKGROUND_FILE):
        if not (place / name).is_file():
            raise InputValueError(
                f"{place} must be a folder that modgap migrate wrote, and it has no {name}."
            )
    background = Background.load(place / BACKGROUND_FILE)
    first = open_index(old, Correction.load(place / OLD_FILE), trust=trust, **(old_options or {}))
    try:
        second = open_index(
            new, Correction.load(place / NEW_FILE), trust=trust, **(new_options or {})
        )
    except BaseException:
        first.close()
        raise
    return Generations(first, second, background)


def _within(ids: np.ndarray, some: set[Id]) -> np.ndarray:
    """Which of the ids (n, k) are among some."""
    found = [[one in some for one in line] for line in ids.tolist()]
    return np.array(found, dtype=bool).reshape(ids.shape)
