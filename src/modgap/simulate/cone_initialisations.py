"""Every random initialisation has a cone of its own (Liang et al., sec. 2.3, figs 2c, 5, 7, 13)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from modgap._arrays import row_blocks, rows_per_block, to_numpy, unit
from modgap._results import Result
from modgap._validate import Array, InputValueError, check_choice, check_count, check_rows
from modgap.measures.cone import cone
from modgap.towers import (
    Kind,
    Size,
    digit_inputs,
    embed,
    fit_classifier,
    make_tower,
    noise_inputs,
    without_normalisation,
)

Data = Literal["noise", "digits"]

# Neighbours are looked up among at most this many rows of all encoders together.
MAX_ROWS = 5_000


@dataclass(frozen=True)
class ConeComparison(Result):
    """The cones of several encoders on the same inputs, and how far apart they are.

    Per encoder: ``mean_cosine`` and ``min_cosine`` over all pairs of its rows, the ``centres`` of
    its unit rows, and its ``radius``, the root mean square distance to the centre.
    ``distances`` are between the centres. ``separation`` is the mean, and ``least_separation``
    the least over two encoders, of their distance over the sum of their radii: above 1 the cones
    are farther apart than they are wide. ``told_apart`` is the share of rows nearest to the
    centre of their own encoder, ``neighbours`` the share whose most similar other row comes from
    their own encoder, as a map by neighbours such as UMAP would show it, and ``between`` the
    share of the variance of all unit rows that lies between encoders (near 1 when cones are
    narrow and apart).
    """

    mean_cosine: np.ndarray
    min_cosine: np.ndarray
    centres: np.ndarray
    radius: np.ndarray
    distances: np.ndarray
    separation: float
    least_separation: float
    told_apart: float
    neighbours: float
    between: float
    n_inputs: int

    def to_dict(self) -> dict[str, Any]:
        """The figures, without the centres."""
        figures = super().to_dict()
        del figures["centres"]
        return figures


def compare_cones(embeddings: Sequence[Array]) -> ConeComparison:
    """How separate the cones of several encoders are, from their rows of the same inputs.

    >>> import numpy as np
    >>> right, up = np.array([[1.0, 0.1], [1.0, -0.1]]), np.array([[0.1, 1.0], [-0.1, 1.0]])
    >>> apart = compare_cones([right, up])
    >>> round(float(apart.distances[0, 1]), 2), apart.told_apart, round(apart.between, 2)
    (1.41, 1.0, 0.98)
    """
    sides = [
        np.asarray(to_numpy(check_rows(X, f"embeddings[{k}]", min_rows=2, nonzero=True)))
        for k, X in enumerate(embeddings)
    ]
    if len(sides) < 2 or len({X.shape for X in sides}) > 1:
        raise InputValueError(
            "embeddings must be two or more matrices of one shape, "
            f"got {[X.shape for X in sides]}. Embed the same inputs with every encoder."
        )
    cones = [cone(X) for X in sides]
    rows = np.stack([unit(X.astype(np.float64)) for X in sides])
    centres = rows.mean(axis=1)
    squares = np.mean(np.sum((rows - centres[:, None]) ** 2, axis=2), axis=1)
    radius = np.sqrt(squares)
    distances = np.linalg.norm(centres[:, None] - centres[None], axis=2)
    two = np.triu_indices(len(sides), k=1)
    widths = (radius[:, None] + radius[None])[two]
    # Cones that are points: apart by any distance, they are infinitely separate.
    ratios = np.divide(
        distances[two], widths, out=np.where(distances[two] > 0, np.inf, 0.0), where=widths > 0
    )
    spread = float(np.mean(np.sum((centres - centres.mean(axis=0)) ** 2, axis=1)))
    total = spread + float(squares.mean())
    return ConeComparison(
        mean_cosine=np.array([c.mean for c in cones]),
        min_cosine=np.array([c.min for c in cones]),
        centres=centres,
        radius=radius,
        distances=distances,
        separation=float(ratios.mean()),
        least_separation=float(ratios.min()),
        told_apart=_told_apart(rows, centres),
        neighbours=_own_neighbours(rows),
        between=spread / total if total > 0 else float("nan"),
        n_inputs=rows.shape[1],
    )


def _told_apart(rows: np.ndarray, centres: np.ndarray) -> float:
    """Share of rows (encoders, inputs, d) nearest to their own encoder's centre."""
    # ‖u − c‖² ranks as c·u − ‖c‖²/2 does, the other way round.
    scores = rows @ centres.T - np.sum(centres**2, axis=1) / 2
    return float(np.mean(np.argmax(scores, axis=2) == np.arange(len(rows))[:, None]))


def _own_neighbours(rows: np.ndarray) -> float:
    """Share of rows whose nearest other row is of their own encoder; at most MAX_ROWS of them."""
    per_encoder = max(2, min(rows.shape[1], MAX_ROWS // len(rows)))
    picked = np.linspace(0, rows.shape[1] - 1, per_encoder).astype(np.int64)
    together = rows[:, picked].reshape(-1, rows.shape[2])
    encoder = np.repeat(np.arange(len(rows)), per_encoder)
    own = 0
    for block in row_blocks(len(together), rows_per_block(len(together))):
        cosines = together[block] @ together.T
        places = np.arange(len(together))[block]
        cosines[np.arange(len(places)), places] = -np.inf  # itself
        own += int(np.sum(encoder[np.argmax(cosines, axis=1)] == encoder[places]))
    return own / len(together)


def random_cones(
    kind: Kind,
    data: Data = "noise",
    initialisations: int = 25,
    n_inputs: int = 200,
    preset: Size = "tiny",
    normalisation: bool = True,
    seed: int = 0,
) -> ConeComparison:
    """Cones of one architecture under many random initialisations (figs 2c, 5, 7, and 15).

    Every initialisation sees the same inputs: noise, or the digits' scans and captions.
    ``normalisation=False`` takes out every normalisation layer and leaves the pixels of the
    digits as they are. Needs the extra ``towers``.
    """
    initialisations = check_count(initialisations, "initialisations", at_least=2)
    inputs = _inputs(kind, data, n_inputs, preset, normalisation, seed)
    rows = []
    for k in range(initialisations):
        tower = make_tower(kind, preset, seed + k)
        if not normalisation and kind != "mlp":  # the MLP has no such layer
            tower = without_normalisation(tower)
        rows.append(embed(tower, inputs))
    return compare_cones(rows)


def trained_cones(
    kind: Literal["mlp", "resnet", "vision"] = "resnet",
    initialisations: int = 11,
    n_inputs: int = 500,
    epochs: int = 5,
    preset: Size = "tiny",
    seed: int = 0,
) -> tuple[ConeComparison, np.ndarray]:
    """Cones of one architecture trained from different initialisations, and their accuracies.

    Each learns to tell the digits' classes apart, with the same batches: only the initial
    weights differ (fig. 13, at a small scale; its caption says 25 models, then 11). Rows of one
    network stay together (``neighbours``), as the figure shows; but training spreads them out,
    and batch norms with ReLU bring the centres of different networks together.
    """
    check_choice(kind, "kind", ("mlp", "resnet", "vision"))
    initialisations = check_count(initialisations, "initialisations", at_least=2)
    from modgap.datasets.digits import load_scans

    inputs = _inputs(kind, "digits", n_inputs, preset, True, seed)
    labels = load_scans()[1][:n_inputs]
    rows, accuracies = [], []
    for k in range(initialisations):
        tower, accuracy = fit_classifier(
            make_tower(kind, preset, seed + k), inputs, labels, epochs=epochs, seed=seed
        )
        rows.append(embed(tower, inputs))
        accuracies.append(accuracy)
    return compare_cones(rows), np.array(accuracies)


def _inputs(
    kind: Kind, data: Data, n: int, preset: Size, standardise: bool, seed: int
) -> np.ndarray:
    n = check_count(n, "n_inputs", at_least=2)
    if check_choice(data, "data", get_args(Data)) == "noise":
        return noise_inputs(kind, n, preset, seed)
    return digit_inputs(kind, n, preset, standardise)
