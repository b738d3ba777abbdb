"""Rotations that make rows fit for few bits: random, or learned where there are enough rows.

A rotation changes no inner product as long as queries and documents are turned alike. It changes
how the coordinates share what a row holds, and so how much their quantisation loses.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from modgap.core.checks import InputValueError, check_count, require
from modgap.index.quantised.codes import PQ_BITS, Bits, check_subspaces, float32

Rotate = Literal["none", "random", "learned"]
ROTATIONS = ("none", "random", "learned")
_TURNS = 20


def random_rotation(dim: int, seed: int = 0) -> np.ndarray:
    """A (dim, dim) orthogonal matrix drawn evenly from all of them.

    >>> R = random_rotation(4)
    >>> bool(np.allclose(R @ R.T, np.eye(4)))
    True
    """
    check_count(dim, "dim")
    draw = np.random.default_rng(seed).normal(size=(dim, dim))
    factor, triangle = np.linalg.qr(draw)
    # Without the signs of the diagonal the draw is not even over all orthogonal matrices.
    return factor * np.where(np.diag(triangle) < 0, -1.0, 1.0)


def learned_rotation(
    rows: np.ndarray, bits: Bits, subspaces: int | None = None, seed: int = 0
) -> np.ndarray:
    """The rotation that suits a kind of code best: its signs, or its product quantiser.

    A rotation of d columns has d(d − 1)/2 free numbers, so at least d rows are needed.
    """
    n, dim = rows.shape
    if n < dim:
        raise InputValueError(
            f"A learned rotation needs at least as many rows as columns, {dim}, got {n}. "
            'Use rotate="random", or train on more rows.'
        )
    if bits == "pq":
        return _product_rotation(rows, check_subspaces(subspaces, dim))
    return _sign_rotation(rows, seed)


def _sign_rotation(rows: np.ndarray, seed: int) -> np.ndarray:
    """Iterative quantisation (Gong and Lazebnik 2011) without its reduction of dimensions.

    From a random start, the signs for the rotation and the rotation for the signs are found in
    turns. Every turn makes Σ abs(R v), the share of the rows that their signs keep, larger.
    """
    rows = np.asarray(rows, dtype=np.float64)
    rotation = random_rotation(rows.shape[1], seed)
    for _ in range(_TURNS):
        signs = np.where(rows @ rotation.T >= 0, 1.0, -1.0)
        left, _, right = np.linalg.svd(signs.T @ rows)
        rotation = left @ right
    return rotation


def _product_rotation(rows: np.ndarray, subspaces: int) -> np.ndarray:
    """The rotation that serves a product quantiser best (OPQ, Ge et al. 2013, as FAISS has it)."""
    faiss = require("faiss", "faiss", "A learned rotation for product quantisation")
    dim = rows.shape[1]
    transform = faiss.OPQMatrix(dim, subspaces)
    codebook = faiss.ProductQuantizer(dim, subspaces, PQ_BITS)
    codebook.cp.min_points_per_centroid = 1  # too few rows are refused above
    transform.pq = codebook
    transform.niter = _TURNS
    transform.train(float32(rows))
    matrix: np.ndarray = faiss.vector_to_array(transform.A).reshape(dim, dim).astype(np.float64)
    # Trained in float32: make it orthogonal to the last digit, so that scores stay what they are.
    left, _, right = np.linalg.svd(matrix)
    return np.asarray(left @ right)
