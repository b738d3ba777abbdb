"""One index of both modalities in memory: the rows as they are, and as corrections map them."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from modgap._arrays import as_float, row_blocks, row_norms, to_numpy
from modgap._arrays.ranks import tie_tolerance
from modgap._validate import Array, InputValueError, check_rows
from modgap.corrections import Affine, Correction, Metric
from modgap.corrections.hubs import HubMap
from modgap.io import Embeddings, Modalities
from modgap.search import Hits, search
from modgap.search.merging import best_of
from modgap.search.scores import document_bias, rows_to_multiply

# A correction's identifier and the queries that its documents serve.
_Key = tuple[str, tuple[str, ...]]

DEFAULT_ROWS = 200_000
_BLOCK_ROWS = 8192


@dataclass(frozen=True, eq=False)
class LiveRows:
    """The rows of one modality that the index holds: their numbers in the data, and themselves."""

    name: str
    numbers: np.ndarray
    rows: np.ndarray

    @classmethod
    def of(cls, name: str, side: Embeddings, at_most: int, seed: int) -> LiveRows:
        """Every row of a modality, or a sample of them in their order."""
        if side.n_rows <= at_most:
            numbers, rows = np.arange(side.n_rows), side.with_rows_loaded().rows()
        else:
            chosen = np.random.default_rng(seed).choice(side.n_rows, at_most, replace=False)
            numbers = np.sort(chosen)
            rows = side.take(numbers)
        return cls(name, numbers, check_rows(as_float(rows), name))

    def __len__(self) -> int:
        return len(self.numbers)

    def place(self, row: int) -> int | None:
        """Where in the index the row of this number is, if it is there."""
        place = int(np.searchsorted(self.numbers, row))
        return place if place < len(self.numbers) and self.numbers[place] == row else None


@dataclass(frozen=True, eq=False)
class _Segment:
    """The documents of one modality, ready for inner products.

    ``metric`` is what they are searched by: cosines are inner products of unit rows. ``columns``
    are those in which documents are not all zero: Calibrate keeps each modality in a block of its
    own, and the empty one need be neither stored nor multiplied. ``longest`` is the place of the
    longest document.
    """

    live: LiveRows
    documents: np.ndarray
    metric: Metric
    bias: np.ndarray | None
    columns: np.ndarray | None
    longest: int

    @classmethod
    def of(cls, live: LiveRows, correction: Correction, keys: np.ndarray | None = None) -> _Segment:
        metric = correction.metric
        plain = metric == "euclidean" or correction.hubs is not None
        columns = None if plain else _filled_columns(correction.affine(live.name))
        mapped = _mapped(live, correction.map(live.name), columns, keys)
        # The metric decides what documents must look like; any row of them will do as the query.
        _, documents = rows_to_multiply(mapped[:1], mapped, metric, (live.name, live.name))
        bias = document_bias(documents, metric)
        return cls(
            live,
            documents,
            "inner_product" if metric == "cosine" else metric,
            None if bias is None else to_numpy(bias),
            columns,
            int(np.argmax(row_norms(documents))),
        )

    def search(
        self, queries: np.ndarray, k: int, among: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Numbers and scores of the best ``k``, of those that ``among`` marks where it is given."""
        asked = queries if self.columns is None else queries[:, self.columns]
        asked = asked.astype(self.documents.dtype, copy=False)
        n_found = min(k, len(self.live) if among is None else int(np.count_nonzero(among)))
        numbers = np.empty((len(asked), n_found), dtype=np.int64)
        scores = np.empty((len(asked), n_found))
        for line in range(len(asked) if n_found else 0):
            query = asked[line : line + 1]
            near = self._near(query, n_found, among)
            rows, scores[line] = search(query, self.documents[near], n_found, self.metric)
            numbers[line] = self.live.numbers[near[rows]]
        return numbers, scores

    def _near(self, query: np.ndarray, k: int, among: np.ndarray | None) -> np.ndarray:
        """The few places that hold the best ``k``, whatever rounding did to their scores.

        ``search`` alone would do, but looks at the length of every document to know how far
        rounding may reach; that of the longest is known here.
        """
        scores = self.documents @ query[0]
        if self.bias is not None:
            scores = scores + self.bias.astype(scores.dtype)
        if among is not None:
            scores = np.where(among, scores, -np.inf)
        longest = self.documents[self.longest : self.longest + 1]
        # Two scores are compared, each off by at most the tolerance.
        margin = 2 * tie_tolerance(query, longest, self.bias)
        floor = float(np.partition(scores, -k)[-k]) - margin
        return np.flatnonzero(scores.astype(np.float64) >= floor)


class MixedIndex:
    """Holds both modalities and finds the nearest rows of either, exactly, by looking at all.

    The rows as they are stay in memory, and so do the last ``kept`` sets of corrected documents.
    Any number of threads may search at once.

    Parameters
    ----------
    data : Modalities
        What is searched.
    metric : {"cosine", "inner_product", "euclidean"}
        How the rows as they are get ranked.
    at_most : int
        Hold at most this many rows of each modality, a sample if there are more.
    seed : int
        Seed of the sample.
    kept : int
        How many sets of corrected documents to keep in memory: a correction that serves one
        modality of queries has a set for each.
    """

    def __init__(
        self,
        data: Modalities,
        *,
        metric: Metric = "cosine",
        at_most: int = DEFAULT_ROWS,
        seed: int = 0,
        kept: int = 2,
    ) -> None:
        self.data, self.metric = data, metric
        self.live = {
            name: LiveRows.of(name, side, at_most, seed) for name, side in data.sides.items()
        }
        self._as_is = Correction.identity(data.dim, data.names, metric=metric)
        self._raw = self._segments(self._as_is)
        self._kept = kept
        self._corrected: OrderedDict[_Key, tuple[_Segment, ...]] = OrderedDict()
        self._lock, self._building = threading.Lock(), threading.Lock()

    def row(self, modality: str, row: int) -> np.ndarray:
        """One row of the data as it is, (1, d); it need not be in the index."""
        live = self.live[modality]
        place = live.place(row)
        if place is not None:
            return np.asarray(live.rows[place : place + 1])
        return check_rows(as_float(self.data.sides[modality].take([row])), modality)

    def search(
        self,
        queries: Array,
        modality: str,
        k: int,
        *,
        without: int | None = None,
        among: Mapping[str, np.ndarray] | None = None,
        correction: tuple[str, Correction] | None = None,
    ) -> Hits:
        """The ``k`` nearest rows of either modality: ids are row numbers, scores those of search.

        Equal scores go to the first modality, and within it to the earlier row.

        Parameters
        ----------
        queries : (n, d) array
            Rows of ``modality`` as they are.
        modality : str
            The modality of the queries.
        k : int
            How many rows to find; all of them where there are fewer.
        without : int, optional
            The number of a row of that modality to leave out.
        among : mapping of name to booleans, optional
            Marks the live rows of each modality to look at; all when left out.
        correction : (str, Correction), optional
            A correction, and the identifier to remember its documents by. Two that serve queries
            of different modalities may share one.
        """
        used = self._as_is if correction is None else correction[1]
        segments = self._raw if correction is None else self._documents(*correction)
        asked = used.apply(queries, modality, "query")
        # A query on the origin has no direction, and is refused here.
        asked, _ = rows_to_multiply(asked, asked, used.metric, ("The query", "the query"))
        found = []
        for segment in segments:
            name = segment.live.name
            marked = None if among is None else among[name]
            place = None
            if without is not None and name == modality:
                place = segment.live.place(without)
            if place is not None:
                marked = np.ones(len(segment.live), dtype=bool) if marked is None else marked.copy()
                marked[place] = False
            numbers, scores = segment.search(asked, k, marked)
            found.append((numbers, scores, np.full(numbers.shape, name, dtype=object)))
        ids, all_scores, names = (np.hstack(part) for part in zip(*found, strict=True))
        return best_of(ids, all_scores, names, k)

    def prepare(self, identifier: str, correction: Correction) -> None:
        """Map the rows now, so that the first search with a correction need not."""
        self._documents(identifier, correction)

    def forget(self, identifier: str) -> None:
        """Drop the documents of a correction that is gone."""
        with self._lock:
            for key in [key for key in self._corrected if key[0] == identifier]:
                del self._corrected[key]

    def _documents(self, identifier: str, correction: Correction) -> tuple[_Segment, ...]:
        key = (identifier, correction.queries)
        found = self._remembered(key)
        if found is not None:
            return found
        with self._building:  # two searches at once must not map all rows twice
            found = self._remembered(key)
            if found is not None:
                return found
            with self._lock:  # make room first: two sets at a time, not three
                while len(self._corrected) >= self._kept:
                    self._corrected.popitem(last=False)
            made = self._segments(correction)
            with self._lock:
                self._corrected[key] = made
            return made

    def _remembered(self, key: _Key) -> tuple[_Segment, ...] | None:
        with self._lock:
            if key in self._corrected:
                self._corrected.move_to_end(key)
            return self._corrected.get(key)

    def _segments(self, correction: Correction) -> tuple[_Segment, ...]:
        keys = {
            name: self.data.keys_of(name)[live.numbers] if correction.hubs else None
            for name, live in self.live.items()
        }
        return tuple(_Segment.of(live, correction, keys[live.name]) for live in self.live.values())


def check_vector(values: Sequence[float], dim: int) -> np.ndarray:
    """A query given as numbers: as many as the data has columns, finite and not all zero."""
    if len(values) != dim:
        raise InputValueError(
            f"vector must have {dim} numbers, one per column of the data, got {len(values)}."
        )
    row = np.asarray([values], dtype=np.float64)
    if not np.isfinite(row).all():
        raise InputValueError("vector must hold finite numbers, got NaN or infinity.")
    if not row.any():
        raise InputValueError("vector must not be all zeros: it has no direction.")
    largest = float(np.abs(row).max())
    if not 1e-12 < largest < 1e12:
        raise InputValueError(
            f"vector must have its largest number between 1e-12 and 1e12, got {largest:g}. "
            "Scale it to the size of the data's rows."
        )
    return row


def _filled_columns(affine: Affine) -> np.ndarray | None:
    """The columns of the blocks that are not multiplied by zero; None for all."""
    if affine.blocks is None or all(affine.blocks):
        return None
    width = affine.dim_out // len(affine.blocks)
    filled = [np.arange(width) + n * width for n, factor in enumerate(affine.blocks) if factor]
    return np.concatenate(filled) if filled else np.arange(1)


def _mapped(
    live: LiveRows, affine: Affine | HubMap, columns: np.ndarray | None, keys: np.ndarray | None
) -> np.ndarray:
    """The rows as documents, block by block, so that scratch stays small."""
    if affine.is_identity:
        return live.rows
    width = affine.dim_out if columns is None else len(columns)
    out = np.empty((len(live), width), live.rows.dtype)
    for block in row_blocks(len(live), _BLOCK_ROWS):
        own = None if keys is None else keys[block]
        rows = affine(live.rows[block], live.name, first_row=block.start, keys=own)
        out[block] = rows if columns is None else rows[:, columns]
    return out
