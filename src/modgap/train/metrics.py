"""Metrics of held-out rows: gap, uniformity with its n, orthogonality, alignment, retrieval."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from modgap.arrays import row_norms, to_numpy, unit
from modgap.core.checks import Array
from modgap.core.door import check_groups, check_two
from modgap.core.results import Result
from modgap.corrections import Metric
from modgap.evaluation import retrieval
from modgap.measures import alignment, gap_distance, gap_orthogonality, wasserstein_uniformity


@dataclass(frozen=True)
class SplitMetrics(Result):
    """Metrics of a split's unit rows: of all of them, or of ``n_pairs`` random pairs.

    ``gap_distance`` uses every row and ``pairs_gap_distance`` the random pairs, as Yaras et al.
    do with 512. ``uniformity`` is Wasserstein's (their E.2), of the random pairs, and depends on
    their number; ``alignment`` is of them too. ``orthogonality_*`` is the mean absolute cosine of
    a modality's centred rows with the gap vector; it is NaN without a gap. ``norm_*`` is the mean
    length of the rows before they were scaled. ``recall`` comes from ``modgap.retrieval``.
    """

    n_images: int
    n_texts: int
    n_pairs: int
    gap_distance: float
    pairs_gap_distance: float
    uniformity: float
    alignment: float
    orthogonality_image: float
    orthogonality_text: float
    norm_image: float
    norm_text: float
    recall: dict[str, float]

    def flat(self) -> dict[str, Any]:
        """One flat mapping of names to numbers, as loggers take it."""
        values = {k: v for k, v in self.to_dict().items() if k != "recall"}
        return {**values, **self.recall}


def evaluate_rows(
    X: Array,
    Y: Array,
    groups: tuple[Any, Any] | None = None,
    *,
    pairs: int = 512,
    metric: Metric = "cosine",
    seed: int = 0,
) -> SplitMetrics:
    """Measure image rows X (n, d) and text rows Y (m, d), as the towers give them.

    Parameters
    ----------
    X, Y : array (n, d), (m, d)
        Rows of any length; retrieval ranks them as given, the rest uses unit rows.
    groups : tuple of two sequences, optional
        Row i of X matches row j of Y when ``groups[0][i] == groups[1][j]``; without, when i = j.
    pairs : int
        Images drawn with one of their texts each, fewer where there are fewer.
    metric : str
        The metric that retrieval ranks by.
    seed : int
        The same seed draws the same pairs.

    >>> import numpy as np
    >>> metrics = evaluate_rows(np.eye(3), np.eye(3)).flat()
    >>> metrics["gap_distance"], metrics["n_pairs"], metrics["image_retrieval_recall@1"]
    (0.0, 3, 1.0)
    """
    X, Y = check_two(X, Y, names=("image", "text"), nonzero=True)
    if groups is not None or X.shape[0] != Y.shape[0]:
        groups = check_groups(groups, X.shape[0], Y.shape[0])
    ix, iy = draw_pairs(groups, X.shape[0], pairs, seed)
    found = retrieval(X, Y, metric=metric, groups=groups, group_duplicates=False)
    norms = [float(np.mean(to_numpy(row_norms(rows)))) for rows in (X, Y)]
    X, Y = unit(X), unit(Y)
    orthogonality = gap_orthogonality(X, Y)
    return SplitMetrics(
        n_images=int(X.shape[0]),
        n_texts=int(Y.shape[0]),
        n_pairs=len(ix),
        gap_distance=gap_distance(X, Y),
        pairs_gap_distance=gap_distance(X[ix], Y[iy]),
        uniformity=wasserstein_uniformity(X[ix], Y[iy]),
        alignment=alignment(X[ix], Y[iy]),
        orthogonality_image=orthogonality.x.mean_abs,
        orthogonality_text=orthogonality.y.mean_abs,
        norm_image=norms[0],
        norm_text=norms[1],
        recall=found.recall(),
    )


def draw_pairs(
    groups: tuple[Any, Any] | None, n: int, pairs: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Row numbers of ``pairs`` random images, and of one random text of each."""
    rng = np.random.default_rng(seed)
    if groups is None:
        rows = rng.permutation(n)[:pairs]
        return rows, rows
    gx, gy = groups
    matched = np.flatnonzero(np.isin(gx, gy))
    ix = rng.permutation(matched)[:pairs]
    order = np.argsort(gy, kind="stable")
    first = np.searchsorted(gy[order], gx[ix], "left")
    count = np.searchsorted(gy[order], gx[ix], "right") - first
    return ix, order[first + rng.integers(0, count)]
