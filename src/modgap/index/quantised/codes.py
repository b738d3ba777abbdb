"""Codes of few bits in FAISS: which index stores them, with ranges that modgap fits."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from modgap.core.checks import InputValueError, check_count, require

Bits = Literal["int8", "4bit", "1bit", "pq", "rabitq"]
BITS = ("int8", "4bit", "1bit", "pq", "rabitq")

PQ_BITS = 4
# With fewer rows than this per centroid a codebook repeats its rows.
PQ_MIN_ROWS = 4 * 2**PQ_BITS

# Ends of the range tried for each dimension, in standard deviations from its mean.
_ENDS = np.array([2.0, 2.35, 2.7, 3.1, 3.5, 4.0, 5.0])


def train_codes(bits: Bits, rows: np.ndarray, subspaces: int | None = None, seed: int = 0) -> Any:
    """A trained, empty FAISS index that ranks by inner product, with float queries.

    Parameters
    ----------
    bits : {"int8", "4bit", "1bit", "pq", "rabitq"}
        ``int8`` and ``4bit`` are scalar quantisers with a range per dimension, ``1bit`` the signs,
        ``pq`` a product quantiser with 4 bits per subspace, ``rabitq`` signs and two floats per
        row (Gao and Long 2024).
    rows : (n, d) array
        What ranges and codebooks are learned from.
    subspaces : int, optional
        Of ``pq``; by default d/4, which is one bit per dimension.
    seed : int
        Of the codebooks of ``pq``.
    """
    faiss = require("faiss", "faiss", "A quantised index")
    rows = float32(rows)
    dim = rows.shape[1]
    if bits in ("int8", "4bit"):
        kind = "QT_8bit" if bits == "int8" else "QT_4bit"
        codec = getattr(faiss.ScalarQuantizer, kind)
        index = faiss.IndexScalarQuantizer(dim, codec, faiss.METRIC_INNER_PRODUCT)
        levels = 256 if bits == "int8" else 16
        low, high = fit_ranges(rows, levels)
        # FAISS cuts the width into levels − 1 cells and puts what lies above into one more; given
        # this much of the range, all of its codes stand for cells of one width.
        width = (high - low) * ((levels - 1) / levels)
        faiss.copy_array_to_vector(np.concatenate([low, width]), index.sq.trained)
        index.is_trained = True
    elif bits == "1bit":
        # A product quantiser of one dimension and one bit each, its two centroids −1 and +1.
        index = faiss.IndexPQ(dim, dim, 1, faiss.METRIC_INNER_PRODUCT)
        signs = np.tile(np.array([-1, 1], dtype=np.float32), dim)
        faiss.copy_array_to_vector(signs, index.pq.centroids)
        index.is_trained = True
    elif bits == "pq":
        index = faiss.IndexPQ(
            dim, check_subspaces(subspaces, dim), PQ_BITS, faiss.METRIC_INNER_PRODUCT
        )
        if len(rows) < PQ_MIN_ROWS:
            raise InputValueError(
                f'bits="pq" learns {2**PQ_BITS} centroids per subspace and needs at least '
                f"{PQ_MIN_ROWS} rows of each modality, got {len(rows)}. "
                'Use bits="1bit", or train on more.'
            )
        index.pq.cp.min_points_per_centroid = 1  # we refuse too few rows ourselves
        index.pq.cp.seed = seed
        index.train(rows)
    else:
        index = faiss.IndexRaBitQ(dim, faiss.METRIC_INNER_PRODUCT)
        index.qb = 0  # float queries
        index.train(rows)
    return index


def fit_ranges(rows: np.ndarray, levels: int) -> tuple[np.ndarray, np.ndarray]:
    """Per dimension, the ends of the range whose even levels lose least of these rows.

    Tried are least to largest value, and a few multiples of the standard deviation around the
    mean: with few levels it pays to clip the tails.
    """
    low, high = rows.min(axis=0), rows.max(axis=0)
    mean, std = rows.mean(axis=0, dtype=np.float64), rows.std(axis=0, dtype=np.float64)
    least = _loss(rows, low, high, levels)
    for ends in _ENDS:
        below = (mean - ends * std).astype(np.float32)
        above = (mean + ends * std).astype(np.float32)
        loss = _loss(rows, below, above, levels)
        better = loss < least
        low, high = np.where(better, below, low), np.where(better, above, high)
        least = np.where(better, loss, least)
    # A dimension without spread has one level, at its value.
    flat = high <= low
    half = np.maximum(np.abs(low) * 1e-6, 1e-30).astype(np.float32)
    return np.where(flat, low - half, low), np.where(flat, high + half, high)


def _loss(rows: np.ndarray, low: np.ndarray, high: np.ndarray, levels: int) -> np.ndarray:
    step = (high - low) / levels
    safe = np.where(step > 0, step, 1.0).astype(np.float32)
    cell = np.clip(np.floor((rows - low) / safe), 0, levels - 1)
    error = np.mean((low + (cell + 0.5) * safe - rows) ** 2, axis=0, dtype=np.float64)
    return np.where(step > 0, error, 0.0)


def check_subspaces(subspaces: int | None, dim: int) -> int:
    """How many pieces a product quantiser cuts a row into; the pieces must be equally long."""
    if subspaces is None:
        subspaces = max(1, dim // 4)
    check_count(subspaces, "subspaces", at_most=dim)
    if dim % subspaces:
        raise InputValueError(
            f"subspaces must divide the {dim} columns into equal pieces, got {subspaces}."
        )
    return subspaces


def float32(rows: np.ndarray) -> np.ndarray:
    """Rows as FAISS takes them."""
    with np.errstate(over="ignore"):  # what leaves the range is refused before it is stored
        return np.ascontiguousarray(rows, dtype=np.float32)
