"""The documents of one modality in the live index, searched without a second copy of the rows.

A corrected document is an affine map of a row, divided by a length. So its score for a query is
times · (row · p) + level · c + bias: p and c come from the query, the other three are numbers of
the document. A search has four steps.

1. Pull the query back through the documents' map, which gives p and c.
2. Score every row with one product, and bound how far rounding may have moved the score.
3. Keep the few rows whose upper bound reaches the k-th best lower bound.
4. Map these alone and score them as `modgap.search` does: the results are the same.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from modgap.arrays import as_float, row_blocks, row_norms, sum_squares
from modgap.arrays.wide_scores import TIE_TOLERANCE
from modgap.core.checks import check_values
from modgap.core.door import as_numpy, check_rows
from modgap.corrections import Affine, Correction
from modgap.io import Embeddings
from modgap.search.exact import best_documents
from modgap.search.scores import row_factors

# Rows that are mapped together.
BLOCK_ROWS = 4096
# How far a score of rows as they are may be from that of mapped ones: both are rounded.
_ROUNDING = 2 * TIE_TOLERANCE
# Beyond these, products of float32 may leave its range.
_SMALLEST, _LARGEST = 1e-12, 1e12


@dataclass(frozen=True, eq=False)
class LiveRows:
    """The rows of one modality that the index holds, and their numbers in the data.

    Where the index holds every row, they are the data's own array, not a copy.
    """

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
        return cls(name, numbers, as_numpy(check_rows(rows, name)))

    def __len__(self) -> int:
        return len(self.numbers)

    def place(self, row: int) -> int | None:
        """Where in the index the row of this number is, if it is there."""
        place = int(np.searchsorted(self.numbers, row))
        return place if place < len(self.numbers) and self.numbers[place] == row else None

    def products(self, vector: np.ndarray) -> np.ndarray:
        """The inner product of every row with a vector of its precision."""
        if self.rows.dtype == vector.dtype:
            return np.asarray(self.rows @ vector)
        found = np.empty(len(self), vector.dtype)
        for block in row_blocks(len(self), BLOCK_ROWS):
            found[block] = self.rows[block].astype(vector.dtype) @ vector
        return found


@dataclass(frozen=True, eq=False)
class MappedRows:
    """The documents of one modality as a correction maps them: five numbers of each.

    ``reach`` and ``size`` bound the rounding of a score: the length of the row times ``times``,
    and the length of the document. A correction with hubs needs the ``keys`` of the rows.
    """

    live: LiveRows
    correction: Correction
    keys: np.ndarray | None
    times: np.ndarray
    level: np.ndarray
    bias: np.ndarray
    reach: np.ndarray
    size: np.ndarray

    @classmethod
    def of(
        cls, live: LiveRows, correction: Correction, keys: np.ndarray | None = None
    ) -> MappedRows:
        """Map every row once, block by block, and keep its numbers."""
        blocks = list(row_blocks(len(live), BLOCK_ROWS))
        dtype: type[np.floating[Any]] = np.float64
        if live.rows.dtype != dtype:
            largest = max(float(np.abs(live.rows[block]).max()) for block in blocks)
            dtype = np.float32 if _SMALLEST < largest < _LARGEST else dtype
        numbers = np.empty((5, len(live)), dtype)
        made = cls(live, correction, keys, *numbers)
        if correction.map(live.name).is_identity:  # refused as a whole, so that all are counted
            check_rows(live.rows, live.name, nonzero=correction.metric == "cosine")
        for block in blocks:
            numbers[:, block] = made._numbers(block)
        return made

    def _numbers(self, block: slice) -> tuple[np.ndarray, ...]:
        """What is kept of the documents of some rows."""
        name, metric = self.live.name, self.correction.metric
        affine = self.correction.affine(name)
        rows = as_float(self.live.rows[block])
        mapped = self._mapped(block, first_row=block.start)
        check_values(mapped, name, nonzero=metric == "cosine", first_row=block.start)
        lengths, size = row_norms(rows), row_norms(mapped)
        level, bias = np.ones(len(rows)), np.zeros(len(rows))
        if affine.renormalise:
            longer = replace(affine, renormalise=False, blocks=None)
            level = 1 / row_norms(longer(rows, name, first_row=block.start))
        if metric == "cosine":
            level, size = level / size, np.ones(len(rows))
        elif metric == "euclidean":
            bias = -0.5 * sum_squares(mapped)
        elif self.correction.hubs is not None:
            bias = mapped[:, -1]
        times = level / lengths if affine.normalise else level
        return times, level, bias, times * lengths, size

    def search(
        self, queries: np.ndarray, k: int, among: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Numbers and scores of the best ``k``, of those that ``among`` marks where it is given."""
        n_found = min(k, len(self.live) if among is None else int(np.count_nonzero(among)))
        numbers = np.empty((len(queries), n_found), dtype=np.int64)
        scores = np.empty((len(queries), n_found))
        for line in range(len(queries) if n_found else 0):
            query = queries[line : line + 1]
            places, scores[line] = self._best(query, self._near(query[0], n_found, among), n_found)
            numbers[line] = self.live.numbers[places]
        return numbers, scores

    def _near(self, query: np.ndarray, k: int, among: np.ndarray | None) -> np.ndarray:
        """The few places that hold the best ``k``, whatever rounding did to their scores."""
        wide = query.astype(np.float64)
        last = 1.0
        if self.correction.hubs is not None:
            wide, last = wide[:-1], float(wide[-1])
        vector, constant = _back(self.correction.affine(self.live.name), wide)
        largest = float(np.abs(vector).max(initial=0.0))
        is_safe = largest == 0 or _SMALLEST < largest < _LARGEST
        dtype = self.times.dtype if is_safe else np.dtype(np.float64)
        scores = self.times * self.live.products(vector.astype(dtype)).astype(np.float64)
        scores += self.level * constant
        scores += self.bias * last
        far = _ROUNDING * max(1.0, math.sqrt(len(vector) / 1024)) * (
            self.reach * float(np.linalg.norm(vector))
            + self.level * abs(constant)
            + self.size * float(np.linalg.norm(wide))
        ) + 4 * float(np.finfo(dtype).eps) * np.abs(self.bias * last)
        if among is not None:
            scores = np.where(among, scores, -np.inf)
        floor = float(np.partition(scores - far, -k)[-k])
        return np.flatnonzero(scores + far >= floor)

    def _best(self, query: np.ndarray, near: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """The best ``k`` of a few places, and their scores: those of `modgap.search`."""
        metric = self.correction.metric
        places, scores = [], []
        for block in row_blocks(len(near), BLOCK_ROWS):
            chosen = near[block]
            mapped = self._mapped(chosen)
            # Cosines are inner products of unit rows, and the query is one already.
            documents = row_factors(mapped, metric)
            asked = query.astype(documents.dtype, copy=False)
            rows, found = best_documents(
                asked, documents, k, "inner_product" if metric == "cosine" else metric
            )
            places.append(chosen[rows[0]])
            scores.append(found[0])
        all_places, all_scores = np.concatenate(places), np.concatenate(scores)
        order = np.argsort(-all_scores, kind="stable")[:k]
        return all_places[order], all_scores[order]

    def _mapped(self, places: slice | np.ndarray, first_row: int = 0) -> np.ndarray:
        """Some of the rows as documents."""
        own = None if self.keys is None else self.keys[places]
        rows, name = as_float(self.live.rows[places]), self.live.name
        row_map = self.correction.map(name)
        if row_map.is_identity:
            return rows
        return np.asarray(row_map(rows, name, first_row=first_row, keys=own))


def _back(affine: Affine, query: np.ndarray) -> tuple[np.ndarray, float]:
    """p and c of a query: query · document = p · row + c, before any division by lengths."""
    if affine.blocks is not None:
        query = np.asarray(affine.blocks) @ query.reshape(len(affine.blocks), -1)
    constant = 0.0 if affine.offset is None else float(query @ affine.offset)
    vector = query if affine.matrix is None else query @ affine.matrix
    return affine.scale * vector, constant
