"""One index of both modalities in memory: the rows as they are, and as corrections map them."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np

from modgap.arrays import as_float
from modgap.core.checks import Array, InputValueError, check_values
from modgap.core.door import check_rows
from modgap.corrections import Correction, Metric
from modgap.io import Modalities
from modgap.search import Hits
from modgap.search.merging import NO_BACKGROUND, best_of, merge_checked
from modgap.search.scores import row_factors
from modgap.serve.mapped_rows import LiveRows, MappedRows

DEFAULT_ROWS = 200_000


class _Documents(dict[str, MappedRows]):
    """Mapped rows by modality; its lock is held while they are made."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()


class MixedIndex:
    """Holds both modalities and finds the nearest rows of either, exactly, by looking at all.

    The rows of the data are the only ones in memory. Of documents as a correction maps them, five
    numbers each are kept (see `modgap.serve.mapped_rows`), for the last ``kept`` corrections. Any
    number of threads may search at once.

    Parameters
    ----------
    data : Modalities
        What is searched.
    metric : {"cosine", "inner_product", "euclidean"}
        The metric that ranks the raw rows.
    at_most : int
        Hold at most this many rows of each modality, a sample if there are more.
    seed : int
        Seed of the sample.
    kept : int
        How many corrections to keep the numbers of; the least recently used goes first.
    """

    def __init__(
        self,
        data: Modalities,
        *,
        metric: Metric = "cosine",
        at_most: int = DEFAULT_ROWS,
        seed: int = 0,
        kept: int = 8,
    ) -> None:
        self.data, self.metric = data, metric
        self.live = {
            name: LiveRows.of(name, side, at_most, seed) for name, side in data.sides.items()
        }
        self._as_is = Correction.identity(data.dim, data.names, metric=metric)
        self._raw = self._map(self._as_is)
        self._remembered = lru_cache(kept)(lambda correction: _Documents())
        self._lock = threading.Lock()

    def row(self, modality: str, row: int) -> np.ndarray:
        """One row of the data as it is, (1, d); it need not be in the index."""
        live = self.live[modality]
        place = live.place(row)
        if place is not None:
            return np.asarray(as_float(live.rows[place : place + 1]))
        return check_rows(as_float(self.data.sides[modality].take([row])), modality)

    def search(
        self,
        queries: Array,
        modality: str,
        k: int,
        *,
        without: int | None = None,
        among: Mapping[str, np.ndarray] | None = None,
        correction: Correction | None = None,
        at_most: float | None = None,
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
        correction : Correction, optional
            Maps the queries and the rows; without it, they are searched as they are.
        at_most : float, optional
            Leave out results with more expected wrong ones than this, where the correction has a
            background.
        """
        used = correction or self._as_is
        if at_most is not None and used.background is None:
            raise InputValueError(NO_BACKGROUND)
        documents = self._raw if correction is None else self.documents(correction)
        asked = used.apply(queries, modality, "query")
        # A query on the origin has no direction, and is refused here.
        check_values(asked, "The query", nonzero=used.metric == "cosine")
        asked = row_factors(asked, used.metric)
        lists, background = {}, used.background
        for name, mapped in documents.items():
            marked = None if among is None else among[name]
            place = None
            if without is not None and name == modality:
                place = mapped.live.place(without)
            if place is not None:
                marked = np.ones(len(mapped.live), dtype=bool) if marked is None else marked.copy()
                marked[place] = False
            places = k if background is None else max(k, background.list_of(name).places)
            lists[name] = mapped.search(asked, places, marked)
        if background is not None:
            return merge_checked(lists, k, background, at_most=at_most)
        names = [np.full(ids.shape, name, dtype=object) for name, (ids, _) in lists.items()]
        ids, scores = (np.hstack(part) for part in zip(*lists.values(), strict=True))
        return best_of(ids, scores, np.hstack(names), k)

    def documents(self, correction: Correction) -> dict[str, MappedRows]:
        """The rows of each modality as a correction maps them; mapped on the first call."""
        with self._lock:
            found = self._remembered(correction)
        with found.lock:  # two searches at once must not map all rows twice
            if not found:
                found.update(self._map(correction))
            return found

    def _map(self, correction: Correction) -> dict[str, MappedRows]:
        return {
            name: MappedRows.of(
                live,
                correction,
                self.data.keys_of(name)[live.numbers] if correction.hubs else None,
            )
            for name, live in self.live.items()
        }


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
