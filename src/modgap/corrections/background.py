"""What a bank of queries finds in every list of results, so that hits can be judged.

See `modgap.corrections.list_background` for how expected wrong results of one list come about.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from modgap.arrays import row_blocks, rows_per_block, to_numpy, unit
from modgap.core.checks import Array, InputValueError, check_choice, check_finite, check_same_space
from modgap.core.door import check_rows
from modgap.core.results import Brief
from modgap.core.tensor_file import read_tensors, write_tensors
from modgap.corrections.hubs import MIN_BANK, Hubs, kept_in_bank, with_column
from modgap.corrections.list_background import (
    LEAST_PLACES,
    LEAST_SEEN,
    Levels,
    ListBackground,
    list_background,
)

# Fewer queries than these give E with an error that is worth a warning.
FEW_QUERIES = 100
# More than this share of recent queries unlike those of the bank: they are of another kind.
FOREIGN_SHARE, FOREIGN_LEAST = 0.15, 50
_KIND = "background"
# The arrays of one list.
_PARTS = ("heights", "signals", "level", "spread", "matched")


class FewQueriesWarning(UserWarning):
    """A bank is so small that expected wrong results are rough."""


class ForeignQueriesWarning(UserWarning):
    """Queries are not of the kind that the bank holds."""


@dataclass(frozen=True, eq=False)
class Background(Brief):
    """For each list of results what a bank of queries finds in it, so that hits can be judged.

    ``hubs`` holds the bank and how much of a document's hubness is subtracted from its score; None
    where scores come from another engine.

    >>> rng = np.random.default_rng(0)
    >>> images, texts = rng.normal(size=(2, 400, 16)) + [[[2.0]], [[-2.0]]]
    >>> background = Background.fit({"image": images, "text": texts}, rng.normal(size=(200, 16)))
    >>> background.expected_wrong(rng.normal(size=(3, 16)), "image").shape
    (3, 400)
    """

    lists: Mapping[str, ListBackground]
    hubs: Hubs | None = None
    _documents: Mapping[str, np.ndarray] | None = None

    def __post_init__(self) -> None:
        sizes = {one.n_queries for one in self.lists.values()}
        if len(sizes) != 1:
            raise InputValueError(
                "Every list of a background must be searched with the same bank, got banks of "
                f"{' and '.join(map(str, sorted(sizes))) or 'no'} queries."
            )

    @classmethod
    def fit(
        cls,
        documents_by_list: Mapping[str, Array],
        bank: Array,
        hubs: float = 0.25,
        *,
        groups: Mapping[str, Any] | None = None,
        bank_groups: Any = None,
        may_match: bool = False,
    ) -> Background:
        """Search every list with the bank.

        Parameters
        ----------
        documents_by_list : mapping of str to (n, d) arrays
            The documents of each list as the model gives them.
        bank : (b, d) array
            Unlabelled queries like those of your users; 100 or more. At most 2,000 are kept,
            spread over them.
        hubs : float
            α, the share of a document's hubness that is subtracted from its cosine; 0 for none.
        groups, bank_groups : labels, optional
            The group of each document, by list, and of each query of the bank. Documents of a
            query's own group do not count as wrong.
        may_match : bool
            The bank is a query log, whose queries may have matches that nobody marked.
        """
        if not 0 <= check_finite(hubs, "hubs") <= 1:
            raise InputValueError(f"hubs must be between 0 and 1, got {hubs}.")
        asked = unit(to_numpy(check_rows(bank, "bank", nonzero=True)).astype(np.float32))
        check_bank_size(len(asked))
        warn_of_few_queries(len(asked))
        keys, bank_keys = _as_keys(groups, bank_groups, documents_by_list, len(asked))
        kept = kept_in_bank(len(asked))
        bank_keys = None if bank_keys is None else bank_keys[kept]
        held = Hubs(float(hubs), hub_neighbours(len(kept)), asked[kept], bank_keys)
        lists, documents = {}, {}
        for name, given in documents_by_list.items():
            rows = to_numpy(check_rows(given, name, nonzero=True)).astype(np.float32)
            check_same_space(rows, asked, (name, "bank"))
            check_list_size(len(rows), name)
            lists[name] = list_background(held, [(unit(rows), keys[name])], may_match=may_match)
            documents[name] = to_numpy(with_column(unit(rows), held.column(unit(rows), keys[name])))
        return cls(lists, held, documents)

    @classmethod
    def of_scores(
        cls, scores_by_list: Mapping[str, Any], n_documents: Mapping[str, int]
    ) -> Background:
        """From what the bank found in lists of any engine: its best 30 scores or more.

        Parameters
        ----------
        scores_by_list : mapping of str to (b, k) arrays
            Scores of the bank's queries, best first and larger is nearer, −∞ where a query has
            fewer results. Leave out results that are matches.
        n_documents : mapping of str to int
            How many documents each list has.
        """
        lists = {}
        for name, given in scores_by_list.items():
            scores = best_first(given, f"The scores of {name}")
            check_bank_size(len(scores))
            warn_of_few_queries(len(scores))
            check_list_size(n_documents[name], name)
            lists[name] = ListBackground.of_scores(scores, n_documents[name])
        return cls(lists)

    @property
    def n_queries(self) -> int:
        """b, the queries of the bank; of the list with the fewest."""
        return min(one.n_queries for one in self.lists.values())

    @property
    def least(self) -> float:
        """The least E that the bank can tell, 5/b: below it E is a line drawn on."""
        return LEAST_SEEN / self.n_queries

    def list_of(self, name: str) -> ListBackground:
        """That of a list, by name."""
        return self.lists[check_choice(name, "list", tuple(self.lists))]

    def queries(self, rows: Array) -> np.ndarray:
        """Queries as documents of ``documents`` are scored with, by inner product."""
        asked = unit(to_numpy(check_rows(rows, "queries", nonzero=True)).astype(np.float32))
        if self.hubs is not None:
            check_same_space(asked, self.hubs.rows, ("queries", "the bank"))
        return to_numpy(with_column(asked, np.ones(len(asked), np.float32)))

    def documents(self, name: str) -> np.ndarray:
        """The documents of a list with their column of hubs, where ``fit`` was given them."""
        self.list_of(name)
        if self._documents is None:
            raise InputValueError(
                "This background has no documents: its file does not keep them. Fit it again, or "
                "judge the scores of an index with expected_wrong_of_scores."
            )
        return self._documents[name]

    def expected_wrong(self, queries: Array, name: str) -> np.ndarray:
        """E of every document of a list, (n, m): wrong results expected at least as good as it."""
        documents = self.documents(name)
        asked, found = self.queries(queries), self.list_of(name)
        answer = np.empty((len(asked), len(documents)))
        for block in row_blocks(len(asked), rows_per_block(len(documents), 8)):
            scores = (asked[block] @ documents.T).astype(np.float64)
            depth = min(found.places, len(documents))
            best = -np.sort(np.partition(-scores, depth - 1, axis=1)[:, :depth], axis=1)
            levels = Levels.of(best, found.places)
            answer[block] = found.expected(levels.heights(scores, found.slope))
        return answer

    def expected_wrong_of_scores(self, scores: Any, name: str) -> np.ndarray:
        """E of hits from anywhere, (n, k), from their scores in one list, best first.

        It needs the best 30 of each query, or all where the list has fewer. It warns of queries
        unlike those of the bank.
        """
        self.check_depth({name: (values := best_first(scores, f"The scores of {name}")).shape[1]})
        return self.judged(values, name)[0]

    def check_depth(self, depths: Mapping[str, int]) -> None:
        """Refuse results of lists that were cut off too early to have a level."""
        for name, depth in depths.items():
            found = self.list_of(name)
            if depth < min(found.places, found.n_documents):
                raise InputValueError(
                    f"Expected wrong results need the best {found.places} results of {name}, got "
                    f"{depth}. Search for {found.places} or more."
                )

    def judged(self, scores: np.ndarray, name: str) -> tuple[np.ndarray, np.ndarray]:
        """E of checked scores (n, k), the best 30 of one list or all it has; surprises (n,)."""
        found = self.list_of(name)
        levels = Levels.of(scores, found.places)
        share = found.foreign_share(levels)
        if len(scores) >= FOREIGN_LEAST and share > FOREIGN_SHARE:
            warnings.warn(
                f"{share:.0%} of these queries score {name} documents unlike the queries of the "
                "bank did: they may be of another kind, or many documents have changed, and "
                "expected wrong results are then off. Fit the background anew.",
                ForeignQueriesWarning,
                stacklevel=4,
            )
        heights = levels.heights(scores, found.slope)
        surprise = found.surprise(heights[:, 0], levels.signals(scores, found.slope))
        return found.expected(heights), surprise

    def chance(self, surprise: Mapping[str, np.ndarray]) -> np.ndarray:
        """The share of queries without a match whose best result looks as good as this one, (n,).

        ``surprise`` (n,) is that of each list.
        """
        known = self.surprises(tuple(surprise))
        best = np.max(list(surprise.values()), axis=0)
        above = len(known) - np.searchsorted(known, best, side="left")
        return np.asarray((above + 0.5) / (len(known) + 1))

    def surprises(self, names: Sequence[str]) -> np.ndarray:
        """How unlike those of a query without a match the bank's best results are, sorted (b,).

        Where some of them may be matches, it lies halfway to the others' quantiles.
        """
        held = [self.lists[name] for name in names]
        every = np.max([one.surprises for one in held], axis=0)
        marks = [one.matched > 0 for one in held if one.matched is not None]
        others = every[~np.any(marks, axis=0)] if marks else every
        if 0 < len(others) < len(every):
            others = np.quantile(others, np.linspace(0, 1, len(every)))
            every = (np.sort(every) + others) / 2
        return np.sort(every)

    def check_at_most(self, at_most: float, n_lists: int, factor: float | None = None) -> float:
        """Refuse to cut where the bank cannot tell; the E of a list may count ``factor`` times."""
        least = self.least * (n_lists if factor is None else factor)
        if not check_finite(at_most, "at_most") > 0:
            raise InputValueError(f"at_most must be above 0, got {at_most:g}.")
        if at_most < least:
            raise InputValueError(
                f"at_most must be at least {least:.2g} with a bank of "
                f"{self.n_queries} queries{f' and {n_lists} lists' if n_lists > 1 else ''}: fewer "
                f"than {LEAST_SEEN} results of the bank are better than that. Give a larger bank."
            )
        return at_most

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it as one file, without the documents."""
        write_tensors(path, _KIND, self.tensors(), self.header(), checksum=True)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Background:
        """What ``save`` wrote."""
        return cls.read(*read_tensors(path, _KIND))

    def header(self) -> dict[str, Any]:
        """What a file says of it, besides its tensors."""
        about = {
            name: {"places": one.places, "slope": one.slope, "n_documents": one.n_documents}
            for name, one in self.lists.items()
        }
        return {"lists": about, "hubs": None if self.hubs is None else self.hubs.header()}

    def tensors(self) -> dict[str, np.ndarray]:
        """Its arrays, named for a file."""
        held = {} if self.hubs is None else self.hubs.tensors()
        for place, one in enumerate(self.lists.values()):
            for part in _PARTS:
                if (value := getattr(one, part)) is not None:
                    held[f"background.{place}.{part}"] = value
        return held

    @classmethod
    def read(cls, header: Mapping[str, Any], tensors: Mapping[str, np.ndarray]) -> Background:
        """What ``header`` and ``tensors`` gave."""
        lists = {}
        for place, (name, about) in enumerate(header["lists"].items()):
            heights, signals, level, spread = (
                tensors[f"background.{place}.{part}"] for part in _PARTS[:-1]
            )
            matched = tensors.get(f"background.{place}.matched")
            numbers = int(about["places"]), float(about["slope"]), int(about["n_documents"])
            lists[name] = ListBackground(*numbers, heights, signals, level, spread, matched)
        return cls(lists, None if header["hubs"] is None else Hubs.of(header["hubs"], tensors))


def hub_neighbours(n_queries: int) -> int:
    """k, how many queries of a bank a document's hubness is the mean of."""
    return max(1, min(10, n_queries // 4))


def check_bank_size(n_queries: int) -> None:
    """Refuse a bank that says nothing."""
    if n_queries < MIN_BANK:
        raise InputValueError(f"A bank must have at least {MIN_BANK} queries, got {n_queries}.")


def warn_of_few_queries(n_queries: int) -> None:
    """Warn of a small bank."""
    if n_queries < FEW_QUERIES:
        warnings.warn(
            f"The bank has {n_queries} queries: with fewer than {FEW_QUERIES}, expected wrong "
            "results may be off several-fold.",
            FewQueriesWarning,
            stacklevel=3,
        )


def check_list_size(n_documents: int, name: str) -> None:
    """Refuse a list with too few documents to have a level."""
    if n_documents < LEAST_PLACES:
        raise InputValueError(
            f"Expected wrong results need at least {LEAST_PLACES} documents in a list, and {name} "
            f"has {n_documents}."
        )


def best_first(scores: Any, what: str) -> np.ndarray:
    """Scores (n, k) as numbers; refused where a better one comes after a worse one."""
    values = np.asarray(to_numpy(scores), dtype=np.float64)
    if values.ndim != 2 or not values.size:
        raise InputValueError(f"{what} must be (n, k), got shape {values.shape}.")
    if np.any(np.isnan(values)) or np.any(values == np.inf):
        raise InputValueError(f"{what} must be numbers, got NaN or infinity.")
    if np.any(values[:, 1:] > values[:, :-1]):
        raise InputValueError(f"{what} must come best first, larger is nearer.")
    return values


def _as_keys(
    groups: Mapping[str, Any] | None, bank_groups: Any, documents: Mapping[str, Any], b: int
) -> tuple[dict[str, np.ndarray | None], np.ndarray | None]:
    """Labels of all lists and of the bank as whole numbers."""
    if (groups is None) != (bank_groups is None):
        raise InputValueError("groups and bank_groups go together: give both or neither.")
    if groups is None:
        return dict.fromkeys(documents), None
    parts = [np.asarray(bank_groups), *(np.asarray(groups[name]) for name in documents)]
    wanted = [b, *(len(rows) for rows in documents.values())]
    for part, n, name in zip(parts, wanted, ("bank", *documents), strict=True):
        if part.shape != (n,):
            raise InputValueError(
                f"The groups of {name} must be one label per row: {n} rows, got shape {part.shape}."
            )
    _, codes = np.unique(np.concatenate(parts), return_inverse=True)
    first, *others = np.split(codes.astype(np.int64), np.cumsum(wanted)[:-1])
    return dict(zip(documents, others, strict=True)), first
