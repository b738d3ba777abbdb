"""Both modalities in two or three dimensions, for looking at."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Literal

import numpy as np

from modgap._arrays import to_numpy, unit
from modgap._results import Result
from modgap._validate import Array, check_choice, check_count, check_two, require
from modgap.moments import PairMoments

ProjectionMethod = Literal["pca", "svd", "umap"]
# UMAP's neighbourhoods, as its authors set them; fewer rows than that get fewer.
_NEIGHBOURS = 15


@dataclass(frozen=True, eq=False)
class Projection(Result):
    """Coordinates of the rows of both modalities, (n, k) and (m, k).

    ``axes`` (k, d) are the directions drawn and ``origin`` (k,) what is subtracted after: a row r
    is drawn at axes @ r − origin. ``share`` is the share of the spread along each. UMAP has no
    such map: both are None, and rows that were not fitted have no place in it.
    """

    method: str
    x: np.ndarray
    y: np.ndarray
    axes: np.ndarray | None
    origin: np.ndarray | None
    share: np.ndarray | None

    @property
    def dims(self) -> int:
        """How many dimensions are drawn."""
        return int(self.x.shape[1])


def projection(
    X: Array,
    Y: Array,
    method: ProjectionMethod = "pca",
    dims: int = 2,
    *,
    moments: PairMoments | None = None,
    seed: int = 0,
) -> Projection:
    """Where the rows lie along the directions in which both modalities vary most.

    Parameters
    ----------
    X, Y : (n, d) and (m, d) arrays
        The rows to place.
    method : {"pca", "svd", "umap"}
        "pca" takes the principal directions of both modalities together, each counting one half
        whatever its number of rows, and centres. "svd" does not centre, so that the origin of the
        space stays in the picture (Liang et al. 2022, fig. 1). "umap" keeps neighbourhoods by
        cosine (needs ``modgap[umap]``).
    dims : int
        How many dimensions to draw.
    moments : PairMoments, optional
        Those of all rows, where X and Y are a sample.
    seed : int
        Seed of UMAP.
    """
    check_choice(method, "method", ("pca", "svd", "umap"))
    X, Y = check_two(X, Y)
    dims = min(check_count(dims, "dims"), X.shape[1])
    if method == "umap":
        return _umap(X, Y, dims, seed)
    if moments is None:
        moments = PairMoments.from_batch(X, Y, unit=False)
    sides = (moments.x.given, moments.y.given)
    means = [to_numpy(side.mean) for side in sides]
    middle = (means[0] + means[1]) / 2
    spread = (to_numpy(sides[0].covariance) + to_numpy(sides[1].covariance)) / 2
    for mean in means:
        away = mean - middle if method == "pca" else mean
        spread = spread + np.outer(away, away) / 2
    axes, sizes = _leading(spread, dims)
    total = float(np.trace(spread))
    coordinates = [to_numpy(rows).astype(np.float64) @ axes.T for rows in (X, Y)]
    origin = axes @ middle if method == "pca" else np.zeros(dims)
    return Projection(
        method=method,
        x=coordinates[0] - origin,
        y=coordinates[1] - origin,
        axes=axes,
        origin=origin,
        share=sizes / total if total > 0 else np.full(dims, np.nan),
    )


def umap_is_installed() -> bool:
    """Whether ``projection(..., "umap")`` can run."""
    return find_spec("umap") is not None


def _leading(spread: np.ndarray, dims: int) -> tuple[np.ndarray, np.ndarray]:
    """The leading directions as rows, each with its largest entry positive, and their sizes."""
    from scipy.linalg import eigh

    d = len(spread)
    sizes, vectors = eigh(spread, subset_by_index=(d - dims, d - 1))
    axes = vectors[:, ::-1].T
    largest = axes[np.arange(dims), np.argmax(np.abs(axes), axis=1)]
    return axes * np.where(largest < 0, -1.0, 1.0)[:, None], np.maximum(sizes[::-1], 0.0)


def _umap(X: Array, Y: Array, dims: int, seed: int) -> Projection:
    umap: Any = _quietly(require)("umap", "umap", 'projection(..., "umap")')
    rows = np.concatenate([to_numpy(unit(X)), to_numpy(unit(Y))])
    # A seed makes UMAP run on one core, and says so in a warning; that is what is wanted.
    reducer = umap.UMAP(
        n_components=dims,
        n_neighbors=min(_NEIGHBOURS, len(rows) - 1),
        metric="cosine",
        init="random" if len(rows) < 2 * _NEIGHBOURS else "spectral",
        random_state=seed,
        n_jobs=1,
    )
    placed = np.asarray(_quietly(reducer.fit_transform)(rows), dtype=np.float64)
    return Projection("umap", placed[: X.shape[0]], placed[X.shape[0] :], None, None, None)


def _quietly(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function without the warnings a library gives about itself."""
    import warnings

    def quiet(*args: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return function(*args)

    return quiet
