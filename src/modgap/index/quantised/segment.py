"""The stored documents of one modality: codes in FAISS, and what is kept beside them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from modgap.arrays import row_blocks, top_k
from modgap.index.quantised.codes import float32

# Rows encoded or decoded together.
BLOCK_ROWS = 16_384


@dataclass(frozen=True, eq=False)
class Segment:
    """The stored documents of one modality.

    ``directions`` (d, e) are those along which ``exact`` (n, e) keeps the coordinates of the
    centred documents, in half precision and in units of ``sizes`` (e,). The rest of each document
    is rotated and encoded in ``index``; ``lengths`` (n,), in units of ``unit_length``, make up for
    what a code shrinks.

    Where documents have a column of hubs, ``exact`` has it as its last, less its mean ``level``;
    every query has a 1 there.
    """

    mean: np.ndarray
    directions: np.ndarray
    rotation: np.ndarray | None
    index: Any
    exact: np.ndarray
    sizes: np.ndarray
    lengths: np.ndarray | None
    unit_length: float
    level: float | None = None

    def __len__(self) -> int:
        return int(self.index.ntotal)

    @property
    def bytes_per_vector(self) -> int:
        """What one document takes: its code, its exact coordinates, its hubness, its length."""
        length = 0 if self.lengths is None else self.lengths.itemsize
        code = int(self.index.sa_code_size())
        return code + self.exact.itemsize * self.exact.shape[1] + length

    def search(
        self, queries: np.ndarray, k: int, pool: int | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Row numbers and scores of the best documents, best first."""
        k = min(k, len(self))
        along, rest = along_directions(queries, np.zeros_like(self.mean), self.directions)
        rest = turn(rest, self.rotation)
        known = queries @ self.mean
        if self.level is not None:
            along = np.hstack([along, np.ones((len(along), 1))])
            known = known + self.level
        if self.lengths is None and not self.exact.shape[1]:
            scores, ids = self.index.search(rest, k)  # nothing to add: FAISS ranks as we would
        elif pool is None:
            ids, scores = self._scan(np.hstack([rest, along.astype(np.float32)]), k)
        else:
            ids, scores = self._rescored(rest, along, min(pool, len(self)))
        return ids[:, :k], scores[:, :k] + known[:, None]

    def _scan(self, asked: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Every document, decoded in blocks; equal scores go to the earlier one."""
        ids = np.empty((len(asked), 0), dtype=np.int64)
        scores = np.empty((len(asked), 0))
        for block in row_blocks(len(self), BLOCK_ROWS):
            start, stop = block.start, min(block.stop, len(self))
            rows = self.index.reconstruct_n(start, stop - start)
            rows *= self._length(block)[:, None]
            rows = np.hstack([rows, self._coordinates(block).astype(np.float32)])
            found, values = top_k(asked, rows, k)
            ids, scores = np.hstack([ids, found + start]), np.hstack([scores, values])
            ids, scores = _in_order(np.argsort(-scores, axis=1, kind="stable")[:, :k], ids, scores)
        return ids, scores

    def _rescored(
        self, rest: np.ndarray, along: np.ndarray, pool: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """What FAISS proposes by the remainder alone, ranked by the whole score."""
        proposed, ids = self.index.search(rest, pool)
        scores = proposed.astype(np.float64) * self._length(ids)
        scores += np.einsum("qe,qpe->qp", along, self._coordinates(ids))
        return _in_order(np.lexsort((ids, -scores), axis=1), ids, scores)

    def _coordinates(self, which: Any) -> np.ndarray:
        return self.exact[which].astype(np.float64) * self.sizes

    def _length(self, which: Any) -> np.ndarray:
        if self.lengths is None:
            return np.ones(1 if isinstance(which, slice) else np.shape(which), dtype=np.float32)
        return np.asarray(self.lengths[which].astype(np.float32) * np.float32(self.unit_length))


def along_directions(
    rows: np.ndarray, mean: np.ndarray, directions: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Coordinates of rows − mean along the directions, and what is left of them, in float64."""
    centred = rows.astype(np.float64) - mean
    coordinates = centred @ directions
    return coordinates, centred - coordinates @ directions.T


def turn(rows: np.ndarray, rotation: np.ndarray | None) -> np.ndarray:
    """Rotated rows as FAISS takes them."""
    return float32(rows if rotation is None else rows @ rotation.T)


def lengths_of(turned: np.ndarray, index: Any) -> np.ndarray:
    """‖v‖² / v · code(v): with it the estimate of v · v is exact (RaBitQ's unbiased factor)."""
    decoded = index.sa_decode(index.sa_encode(turned))
    kept, whole, coded = (
        np.einsum("ij,ij->i", a, b, dtype=np.float64)
        for a, b in ((turned, decoded), (turned, turned), (decoded, decoded))
    )
    # A code that points away from its row, or of a row on its mean, says nothing: length 0.
    tells = kept > 1e-3 * np.sqrt(whole * coded)
    return np.where(tells, whole / np.where(tells, kept, 1.0), 0.0)


def _in_order(
    order: np.ndarray, ids: np.ndarray, scores: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    return np.take_along_axis(ids, order, axis=1), np.take_along_axis(scores, order, axis=1)
