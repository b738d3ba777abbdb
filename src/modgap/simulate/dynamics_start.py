"""Where a descent starts: clusters with a gap, collapsed ones, three pairs in a plane."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

from modgap.core.checks import check_choice, check_count, check_positive

ArrayPair = tuple[np.ndarray, np.ndarray]


def make_clusters(
    n: int,
    dimension: int = 2,
    gap: float = 1.0,
    spread: float = 0.01,
    *,
    sphere: bool = False,
    seed: int = 0,
) -> ArrayPair:
    """Two isotropic clusters of ``n`` points, N(±(gap/2) e, spread² I), e the last axis.

    Chowers et al., sec. H.1; fig. 4 top is n = 10, dimension = 2, gap = 1, spread = 0.01.

    Parameters
    ----------
    n, dimension : int
        How many points per modality, and of how many numbers.
    gap, spread : float
        X lies at +gap/2, Y at −gap/2, each with this standard deviation per coordinate.
    sphere : bool, default False
        Normalise the rows: figs 4 bottom and 16 are N(±e, 0.01² I), so gap = 2. A wide cluster
        then comes out with a smaller gap (dimension 64, spread 0.1: 1.57).
    seed : int, default 0
        Of the points.

    >>> X, Y = make_clusters(500, 3, gap=1.0, spread=0.01)
    >>> X.shape, round(float((X - Y).mean(axis=0)[2]), 2)
    ((500, 3), 1.0)
    """
    n, dimension = check_count(n, "n", at_least=2), check_count(dimension, "dimension", at_least=2)
    gap, spread = _gap(gap), check_positive(spread, "spread")
    rng = np.random.default_rng(seed)
    X, Y = rng.normal(scale=spread, size=(2, n, dimension))
    X[:, -1] += gap / 2
    Y[:, -1] -= gap / 2
    if sphere:
        X, Y = (A / np.linalg.norm(A, axis=1, keepdims=True) for A in (X, Y))
    return X, Y


def collapsed(
    n: int, dimension: int = 2, gap: float = 1.0, spread: float = 1.0, *, seed: int = 0
) -> ArrayPair:
    """Two clusters whose whole variance lies on one line orthogonal to the gap (fig. 11).

    The first coordinate is N(0, spread²), the last ±gap/2, all others 0 (Chowers et al., C).

    Parameters
    ----------
    n, dimension, gap, spread, seed
        As in ``make_clusters``.

    >>> X, Y = collapsed(5)
    >>> X[:, 1].tolist()
    [0.5, 0.5, 0.5, 0.5, 0.5]
    """
    n, dimension = check_count(n, "n", at_least=2), check_count(dimension, "dimension", at_least=2)
    gap, spread = _gap(gap), check_positive(spread, "spread")
    rng = np.random.default_rng(seed)
    both = np.zeros((2, n, dimension))
    both[:, :, 0] = rng.normal(scale=spread, size=(2, n))
    both[0, :, -1], both[1, :, -1] = gap / 2, -gap / 2
    return both[0], both[1]


Arrangement = Literal["crossed", "crowded", "aligned", "gap"]


def three_pairs(arrangement: Arrangement) -> ArrayPair:
    """Three points per modality in R², arranged in four ways (after Chowers et al., fig. 3).

    ``crossed``: each point's nearest neighbour is another's pair; ``crowded``: all six close
    together; ``aligned``: pairs coincide, pairs far from each other; ``gap``: the same, with one
    modality moved by a vector orthogonal to the line of points. The last two have practically
    the same loss and gradient, close to zero, at temperature 0.1: relative alignment is enough.

    >>> from modgap.simulate.dynamics_loss import contrastive_gradient
    >>> for name in ("crossed", "crowded", "aligned", "gap"):
    ...     g = contrastive_gradient(*three_pairs(name), temperature=0.1)
    ...     print(f"{name:8} {g.loss:9.5f} {g.norm:9.5f}")
    crossed   40.00012  46.18697
    crowded    1.94993   2.28717
    aligned    0.00012   0.00121
    gap        0.00012   0.00121
    """
    check_choice(arrangement, "arrangement", get_args(Arrangement))
    X = np.array([[-1.0, 0.0], [0.0, 0.0], [1.0, 0.0]])
    if arrangement == "crossed":
        return X, X[[1, 2, 0]]
    if arrangement == "crowded":
        return 0.1 * X, 0.1 * X + np.array([0.0, 0.1])
    return X, X.copy() if arrangement == "aligned" else X + np.array([0.0, 1.0])


def _gap(gap: float) -> float:
    """A gap may be zero."""
    return 0.0 if gap == 0 else check_positive(gap, "gap")
