"""The modalities in two or three dimensions, for looking at."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Literal

import numpy as np

from modgap.arrays import to_numpy, unit
from modgap.core.checks import Array, check_choice, check_count, check_modalities, require
from modgap.core.door import check_two
from modgap.core.results import HasFigure, Result, by_side
from modgap.moments import Moments, PairMoments
from modgap.moments.modality import moments_of_rows

ProjectionMethod = Literal["pca", "svd", "umap"]
# UMAP's neighbourhoods, as its authors set them; fewer rows than that get fewer.
_NEIGHBOURS = 15


@dataclass(frozen=True, eq=False)
class Projection(HasFigure, Result):
    """Coordinates of the rows of each modality, ``sides`` of shape (n, k), (m, k) and so on.

    ``axes`` (k, d) are the directions drawn and ``origin`` (k,) what is subtracted after: a row r
    is drawn at axes @ r − origin. ``share`` is the share of the spread along each. UMAP has no
    such map: both are None, and rows that were not fitted have no place in it. ``names`` are those
    of the modalities.
    """

    method: str
    sides: tuple[np.ndarray, ...]
    axes: np.ndarray | None
    origin: np.ndarray | None
    share: np.ndarray | None
    names: tuple[str, ...] = ()

    def _brief(self) -> str:
        rows = " and ".join(f"{len(side):,}" for side in self.sides)
        spread = "" if self.share is None else f", {float(np.sum(self.share)):.0%} of the spread"
        return f"{self.method}, {rows} rows in {self.dims} dimensions{spread}"

    @property
    def x(self) -> np.ndarray:
        """The rows of the first modality."""
        return self.sides[0]

    @property
    def y(self) -> np.ndarray:
        """The rows of the second modality."""
        return self.sides[1]

    @property
    def dims(self) -> int:
        """How many dimensions are drawn."""
        return int(self.x.shape[1])

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain values; the rows of two modalities under x and y."""
        found = super().to_dict()
        method, sides = found.pop("method"), found.pop("sides")
        return {"method": method, **by_side(sides), **found}


def projection(
    X: Array | Mapping[str, Array],
    Y: Array | None = None,
    method: ProjectionMethod = "pca",
    dims: int = 2,
    *,
    moments: PairMoments | Sequence[Moments] | None = None,
    seed: int = 0,
) -> Projection:
    """Where the rows lie along the directions in which the modalities vary most.

    Parameters
    ----------
    X, Y : (n, d) and (m, d) arrays
        The rows to place. ``X`` may also be a mapping of names to rows, with any number of
        modalities.
    method : {"pca", "svd", "umap"}
        "pca" takes the principal directions of all modalities together, each counting the same
        whatever its number of rows, and centres. "svd" does not centre, so that the origin of the
        space stays in the picture (Liang et al. 2022, fig. 1). "umap" keeps neighbourhoods by
        cosine (needs ``modgap[umap]``).
    dims : int
        How many dimensions to draw.
    moments : PairMoments or the Moments of each modality, optional
        Those of all rows, where the rows are a sample.
    seed : int
        Seed of UMAP.
    """
    check_choice(method, "method", ("pca", "svd", "umap"))
    rows = _each_side(X, Y)
    names = tuple(X) if isinstance(X, Mapping) else ("X", "Y")
    dims = min(check_count(dims, "dims"), rows[0].shape[1])
    if method == "umap":
        return _umap(rows, names, dims, seed)
    if moments is None:
        moments = [moments_of_rows(one, unit=False) for one in rows]
    elif isinstance(moments, PairMoments):
        moments = [moments.x, moments.y]
    means = [to_numpy(side.given.mean) for side in moments]
    middle = np.mean(means, axis=0)
    spread = np.mean([to_numpy(side.given.covariance) for side in moments], axis=0)
    for mean in means:
        away = mean - middle if method == "pca" else mean
        spread = spread + np.outer(away, away) / len(means)
    axes, sizes = _leading(spread, dims)
    total = float(np.trace(spread))
    origin = axes @ middle if method == "pca" else np.zeros(dims)
    return Projection(
        method=method,
        sides=tuple(to_numpy(one).astype(np.float64) @ axes.T - origin for one in rows),
        axes=axes,
        origin=origin,
        share=sizes / total if total > 0 else np.full(dims, np.nan),
        names=names,
    )


def _each_side(X: Array | Mapping[str, Array], Y: Array | None) -> list[Array]:
    if not isinstance(X, Mapping):
        return list(check_two(X, Y))
    names = check_modalities(tuple(X))
    return [check_two(X[names[0]], X[name], names=(names[0], name))[1] for name in names]


def umap_is_installed() -> bool:
    """Whether ``projection(..., "umap")`` can run."""
    return find_spec("umap") is not None


def check_umap() -> None:
    """Refuse early where UMAP is asked for and not installed, and say what brings it."""
    if not umap_is_installed():
        require("umap", "umap", "UMAP")


def _leading(spread: np.ndarray, dims: int) -> tuple[np.ndarray, np.ndarray]:
    """The leading directions as rows, each with its largest entry positive, and their sizes."""
    from scipy.linalg import eigh

    d = len(spread)
    sizes, vectors = eigh(spread, subset_by_index=(d - dims, d - 1))
    axes = vectors[:, ::-1].T
    largest = axes[np.arange(dims), np.argmax(np.abs(axes), axis=1)]
    return axes * np.where(largest < 0, -1.0, 1.0)[:, None], np.maximum(sizes[::-1], 0.0)


def _umap(sides: Sequence[Array], names: tuple[str, ...], dims: int, seed: int) -> Projection:
    umap: Any = _quietly(require)("umap", "umap", 'projection(..., "umap")')
    rows = np.concatenate([to_numpy(unit(one)) for one in sides])
    # A seed makes UMAP run on one core, and says so in a warning; that is intended.
    reducer = umap.UMAP(
        n_components=dims,
        n_neighbors=min(_NEIGHBOURS, len(rows) - 1),
        metric="cosine",
        init="random" if len(rows) < 2 * _NEIGHBOURS else "spectral",
        random_state=seed,
        n_jobs=1,
    )
    placed = np.asarray(_quietly(reducer.fit_transform)(rows), dtype=np.float64)
    ends = np.cumsum([one.shape[0] for one in sides])[:-1]
    return Projection("umap", tuple(np.split(placed, ends)), None, None, None, names)


def _quietly(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function without the warnings a library gives about itself."""
    import warnings

    def quiet(*args: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return function(*args)

    return quiet
