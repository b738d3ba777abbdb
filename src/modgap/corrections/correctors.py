"""Correctors that move, turn or whiten a modality as a whole; ``Calibrate`` has its own file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

import numpy as np

from modgap.arrays import to_numpy
from modgap.arrays import unit as unit_rows
from modgap.core.checks import Array, InputValueError, check_choice, check_finite
from modgap.corrections.affine import Affine
from modgap.corrections.base import Corrector
from modgap.io import Embeddings, Modalities
from modgap.moments import PairMoments, RowMoments


class Shift(Corrector):
    """x − amount·Δ and y + amount·Δ, renormalised; Δ is the gap vector (Liang et al., sec. 4.2).

    0 leaves the rows where they are, 0.5 makes the means meet before renormalising, a negative
    amount widens the gap.
    """

    def __init__(self, amount: float = 0.5) -> None:
        self.amount = amount

    def _check_params(self) -> None:
        check_finite(self.amount, "amount")

    def _maps(self, moments: PairMoments) -> Mapping[tuple[str, str], Affine]:
        step = self.amount * moments.gap_vector()
        return {("x", "document"): offset(-step), ("y", "document"): offset(step)}


class OriginShift(Corrector):
    """Subtract amount·mean from one or both modalities, renormalised (Levi & Gilboa, sec. 5)."""

    def __init__(self, amount: float = 1.0, move: Literal["x", "y", "both"] = "both") -> None:
        self.amount = amount
        self.move = move

    def _check_params(self) -> None:
        check_finite(self.amount, "amount")
        check_choice(self.move, "move", ("x", "y", "both"))

    def why_closed(self) -> str:
        """Why no modality can be added to what it fitted; empty where one can."""
        return "" if self.move == "both" else f"move={self.move!r} moves one of two modalities"

    def _maps_of(self, sides: Mapping[str, RowMoments]) -> Mapping[tuple[str, str], Affine]:
        if self.move != "both" and self.move not in sides:
            raise InputValueError(
                f"move={self.move!r} is for two modalities, got {len(sides)}: {', '.join(sides)}."
            )
        maps = {}
        for side, rows in sides.items():
            amount = self.amount if self.move in (side, "both") else 0.0
            maps[side, "document"] = offset(-amount * rows.mean)
        return maps


class Center(Corrector):
    """Subtract each modality's own mean and renormalise (as GR-CLIP and I0T do).

    Queries that are not like the documents of their modality have a mean of their own.
    """

    def _maps_of(self, sides: Mapping[str, RowMoments]) -> Mapping[tuple[str, str], Affine]:
        maps = {(side, "document"): offset(-rows.mean) for side, rows in sides.items()}
        for side, rows in self.asking_moments_.items():
            maps[side, "query"] = offset(-rows.mean)
        return maps


Threshold = Literal["cumulative", "each"]
# A least variance above this share of the largest is no rounding of a covariance.
_CLEAR = 1e-8


class OrthogonalShift(Corrector):
    """Move the candidates toward the queries along the part of the gap they do not vary in.

    With ``explained_variance=1.0`` no nearest neighbour changes for the rows it was fitted on
    (Chowers et al., eq. 11); smaller values close more of the gap (their algorithm 1).

    ``step_`` closes all of it, ``closed_`` is its share of the gap. Fit it on the candidates to be
    searched; pairs are not needed. New candidates are not covered. Rankings are meant for Euclidean
    distance; rows are never renormalised.

    Parameters
    ----------
    move
        The side of the candidates being searched; the other side asks.
    explained_variance
        1 stays orthogonal to every direction in which the candidates vary, smaller values to the
        leading ones, 0 to none: the plain gap.
    amount
        The share of that vector that is closed.
    threshold
        Which directions are the leading ones: "cumulative", those that hold that share of the
        variance together; "each", those that by themselves hold more than ε = 1 −
        ``explained_variance`` of it (algorithm 1, line 3), which are far fewer.
    noise_covariance
        (d, d) covariance of the noise on the candidates, where its coordinates are not independent
        and alike: of all vectors orthogonal to the leading directions the one of least noise along
        the queries (Chowers et al., A.4.2), which need not close the gap.
    """

    metric = "euclidean"

    def __init__(
        self,
        move: Literal["x", "y"] = "y",
        explained_variance: float = 1.0,
        amount: float = 1.0,
        threshold: Threshold = "cumulative",
        noise_covariance: np.ndarray | None = None,
    ) -> None:
        self.move = move
        self.explained_variance = explained_variance
        self.amount = amount
        self.threshold = threshold
        self.noise_covariance = noise_covariance

    def _check_params(self) -> None:
        check_choice(self.move, "move", ("x", "y"))
        check_choice(self.threshold, "threshold", get_args(Threshold))
        check_finite(self.amount, "amount")
        check_finite(self.explained_variance, "explained_variance")
        if not 0 <= self.explained_variance <= 1:
            raise InputValueError(
                f"explained_variance must be between 0 and 1, got {self.explained_variance}."
            )
        if self.noise_covariance is not None:
            C = np.asarray(self.noise_covariance)
            if C.ndim != 2 or not np.isfinite(C).all() or not np.allclose(C, C.T):
                raise InputValueError(
                    f"noise_covariance must be a symmetric (d, d) array of finite numbers, got one "
                    f"of shape {C.shape}. np.cov(noise, rowvar=False) makes one."
                )

    def _fit_rows(
        self, data: Modalities, moments: PairMoments, unit: bool
    ) -> Mapping[tuple[str, str], Affine]:
        if self.explained_variance < 1:  # the covariance has digits enough for leading directions
            return self._maps(moments)
        candidates = data.x if self.move == "x" else data.y
        side = (moments.x if self.move == "x" else moments.y).given
        values, _ = side.spectrum
        if values[0] > _CLEAR * values[-1]:  # they vary in every direction, beyond doubt
            return self._maps(moments)
        _, singular, directions = np.linalg.svd(
            _triangle(candidates, to_numpy(side.mean), unit), full_matrices=False
        )
        rank_floor = max(candidates.shape) * np.finfo(np.float64).eps * singular[0]
        return self._shift(moments, singular**2, directions[singular > rank_floor])

    def _maps(self, moments: PairMoments) -> Mapping[tuple[str, str], Affine]:
        side: RowMoments = (moments.x if self.move == "x" else moments.y).given
        values, vectors = (part[..., ::-1] for part in side.spectrum)
        # Squared singular values: half of the digits that rows themselves would give.
        rank_floor = max(side.n, len(values)) * np.finfo(np.float64).eps * values[0]
        return self._shift(moments, values, vectors.T[values > rank_floor])

    def _shift(
        self, moments: PairMoments, variances: np.ndarray, directions: np.ndarray
    ) -> Mapping[tuple[str, str], Affine]:
        gap = to_numpy(moments.gap_vector())
        toward_queries = -gap if self.move == "x" else gap
        kept = directions[: self._n_kept(variances, len(directions))]
        step = self._least_noise(kept, toward_queries)
        # Twice: one projection leaves rounding of the size of the gap along the kept directions.
        step = step - kept.T @ (kept @ step)
        length = float(np.linalg.norm(gap))
        self.closed_ = float(np.linalg.norm(step)) / length if length > 0 else 0.0
        if self.closed_ < 1e-9:
            step, self.closed_ = np.zeros_like(step), 0.0
        self.step_ = step
        dim = moments.x.dim
        moved = Affine.fitted(dim, offset=self.amount * step)
        still = "y" if self.move == "x" else "x"
        return {
            (self.move, "document"): moved,
            (self.move, "query"): Affine.fitted(dim),
            (still, "document"): Affine.fitted(dim),
        }

    def _least_noise(self, kept: np.ndarray, gap: np.ndarray) -> np.ndarray:
        """The step s across the kept directions for which (g − s)ᵀC(g − s) is least.

        With v = −s that is 2vᵀCg + vᵀCv ≤ 0 (eq. 42) at its least; without a covariance, and where
        C is a multiple of the identity, the part of the gap across those directions.
        """
        if self.noise_covariance is None:
            return gap - kept.T @ (kept @ gap)
        C = np.asarray(self.noise_covariance, dtype=np.float64)
        if C.shape != (len(gap), len(gap)):
            raise InputValueError(
                f"noise_covariance must be ({len(gap)}, {len(gap)}), as wide as the rows, got "
                f"{C.shape}."
            )
        _, _, turned = np.linalg.svd(kept, full_matrices=True)
        free = turned[len(kept) :].T
        least, *_ = np.linalg.lstsq(free.T @ C @ free, free.T @ (C @ gap), rcond=None)
        return np.asarray(free @ least)

    def nothing_moves(self) -> str:
        """Why no part of the gap is closed; empty where some is."""
        if self.closed_ > 0:
            return ""
        smaller = "explained_variance"
        smaller = f"{smaller}=0.95" if self.explained_variance > 0.95 else f"a smaller {smaller}"
        return (
            f"OrthogonalShift(explained_variance={self.explained_variance:g}) moves nothing: the "
            f"candidates vary in all {self.n_features_in_} dimensions, so no part of the gap is "
            f"orthogonal to them. Use {smaller}, or fewer candidates than dimensions."
        )

    def _n_kept(self, variances: np.ndarray, rank: int) -> int:
        """How many leading directions the shift must be orthogonal to."""
        if self.explained_variance >= 1 or rank == 0:
            return rank
        if self.explained_variance <= 0:
            return 0
        share = variances[:rank] / np.sum(variances[:rank])
        if self.threshold == "each":
            return int(np.sum(share > 1 - self.explained_variance))
        return int(np.searchsorted(np.cumsum(share), self.explained_variance, side="left")) + 1


def _triangle(rows: Embeddings, mean: np.ndarray, unit: bool) -> np.ndarray:
    """The triangular factor of the centred rows, block by block.

    It has their singular values and directions, to full precision and without a copy of the rows;
    the covariance would keep only half of the digits.
    """
    factor = np.zeros((0, len(mean)))
    for batch in rows.batches(max(4096, len(mean))):
        wide = to_numpy(batch).astype(np.float64)
        centred = (unit_rows(wide) if unit else wide) - mean
        factor = np.asarray(np.linalg.qr(np.vstack([factor, centred]), mode="r"))
    return factor


class Whiten(Corrector):
    """Centre each modality and map it to identity covariance, then renormalise (Levi, app. B).

    The map is the symmetric inverse root of (1 − shrinkage)·C + shrinkage·(trace C / d)·I. With
    ``shrinkage=0`` directions without variance, as there are with fewer rows than dimensions,
    are left out rather than blown up.
    """

    def __init__(self, shrinkage: float = 0.1) -> None:
        self.shrinkage = shrinkage

    def _check_params(self) -> None:
        check_finite(self.shrinkage, "shrinkage")
        if not 0 <= self.shrinkage <= 1:
            raise InputValueError(f"shrinkage must be between 0 and 1, got {self.shrinkage}.")

    def _maps_of(self, sides: Mapping[str, RowMoments]) -> Mapping[tuple[str, str], Affine]:
        return {(side, "document"): self._map(rows) for side, rows in sides.items()}

    def _map(self, rows: RowMoments) -> Affine:
        values, vectors = rows.spectrum
        average = float(np.mean(values))
        if average <= 0:
            raise InputValueError(
                "Whitening needs rows that vary: all rows of a side are the same."
            )
        values = (1 - self.shrinkage) * values + self.shrinkage * average
        kept = values > len(values) * np.finfo(np.float64).eps * values[-1]
        roots = np.where(kept, 1 / np.sqrt(np.where(kept, values, 1.0)), 0.0)
        matrix = (vectors * roots) @ vectors.T
        mean = to_numpy(rows.mean)
        return Affine.fitted(len(mean), matrix, offset=-(matrix @ mean), renormalise=True)


class Procrustes(Corrector):
    """The orthogonal map of Y nearest to X over pairs, in least squares (Liang et al., sec. 4.4).

    Row i of X must belong to row i of Y. Rows keep their lengths.
    """

    needs_pairs = True

    def _maps(self, moments: PairMoments) -> Mapping[tuple[str, str], Affine]:
        if moments.cross is None:
            raise InputValueError(self._pairs_needed())
        x, y = moments.x.given, moments.y.given
        # Σ x yᵀ, uncentred: the map is to fit the rows themselves, not their deviations.
        products = to_numpy(moments.cross.given) + x.n * np.outer(
            to_numpy(x.mean), to_numpy(y.mean)
        )
        return {
            ("x", "document"): Affine.fitted(moments.x.dim),
            ("y", "document"): Affine.fitted(moments.x.dim, _nearest_rotation(products)),
        }


def _nearest_rotation(products: np.ndarray) -> np.ndarray:
    """The orthogonal matrix R of largest trace(Rᵀ products), and of those the nearest to identity.

    With fewer pairs than dimensions the pairs say nothing of some directions. Left to the SVD,
    those would be rotated by rounding; here they turn as little as they can.
    """
    left, sizes, right = np.linalg.svd(products)
    rank = int(np.sum(sizes > len(sizes) * np.finfo(np.float64).eps * sizes[0]))
    rotation = left[:, :rank] @ right[:rank]
    if rank < len(sizes):
        free_left, free_right = left[:, rank:], right[rank:].T
        turn, _, back = np.linalg.svd(free_left.T @ free_right)
        rotation = rotation + free_left @ turn @ back @ free_right.T
    return rotation


def offset(vector: Array) -> Affine:
    """The map that adds one vector to every row, and brings it to unit length."""
    added = to_numpy(vector)
    return Affine.fitted(len(added), offset=added, renormalise=True)
