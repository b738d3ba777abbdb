"""Every random initialisation has a cone of its own (Liang et al., sec. 2.3, figs 2c, 5, 7, 13)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np

from modgap.arrays import to_numpy, unit
from modgap.core.checks import Array, InputValueError, check_choice, check_count, require
from modgap.core.door import check_rows
from modgap.core.results import NOT_IN_JSON, Progress, Result
from modgap.datasets.digits import load_scans
from modgap.measures.cone import cone
from modgap.search import search
from modgap.simulate.cone_networks import (
    Network,
    Size,
    digit_inputs,
    fit_classifier,
    make_network,
    network_rows,
    noise_inputs,
)

ConeData = Literal["noise", "digits"]

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
    centres: np.ndarray = field(metadata=NOT_IN_JSON)
    radius: np.ndarray
    distances: np.ndarray
    separation: float
    least_separation: float
    told_apart: float
    neighbours: float
    between: float


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
    # ‖u − c‖² ranks as c·u − ‖c‖²/2 does, the other way round.
    scores = rows @ centres.T - np.sum(centres**2, axis=1) / 2
    cones = [cone(X) for X in sides]
    return ConeComparison(
        mean_cosine=np.array([found.mean for found in cones]),
        min_cosine=np.array([found.min for found in cones]),
        centres=centres,
        radius=radius,
        distances=distances,
        separation=float(ratios.mean()),
        least_separation=float(ratios.min()),
        told_apart=float(np.mean(np.argmax(scores, axis=2) == np.arange(len(rows))[:, None])),
        neighbours=_own_neighbours(rows),
        between=spread / total if total > 0 else float("nan"),
    )


def _own_neighbours(rows: np.ndarray) -> float:
    """Share of rows whose nearest other row is of their own encoder; at most MAX_ROWS of them."""
    per_encoder = max(2, min(rows.shape[1], MAX_ROWS // len(rows)))
    picked = np.linspace(0, rows.shape[1] - 1, per_encoder).astype(np.int64)
    together = rows[:, picked].reshape(-1, rows.shape[2])
    encoder = np.repeat(np.arange(len(rows)), per_encoder)
    nearest, _ = search(together, together, 1, leave_out=np.arange(len(together)))
    return float(np.mean(encoder[nearest[:, 0]] == encoder))


def random_rows(
    kind: Network,
    data: ConeData = "noise",
    initialisations: int = 25,
    n_inputs: int = 200,
    preset: Size = "tiny",
    normalisation: bool = True,
    seed: int = 0,
    progress: Progress | None = None,
) -> list[np.ndarray]:
    """Rows of the same inputs under different random weights, one matrix per initialisation.

    ``compare_cones`` of them shows figs 2c, 5, 7 and 15. Needs the extra ``towers``.

    Parameters
    ----------
    kind : {"mlp", "resnet", "vit", "transformer"}
        The architecture.
    data : {"noise", "digits"}
        What goes in: noise, or the digits' scans and captions.
    initialisations, n_inputs : int
        How many networks, and how many inputs each of them sees.
    preset : {"tiny", "small"}
        How large the networks are.
    normalisation : bool, default True
        False takes out every normalisation layer, and leaves the pixels of the digits as they are.
    seed : int, default 0
        Of the noise and of the first network; the next ones have the seeds after it.
    progress : callable, optional
        Called with what is being done, how many networks are done, and of how many.
    """
    initialisations = check_count(initialisations, "initialisations")
    n_inputs = check_count(n_inputs, "n_inputs", at_least=2)
    if check_choice(data, "data", get_args(ConeData)) == "noise":
        inputs = noise_inputs(kind, n_inputs, preset, seed)
    else:
        inputs = digit_inputs(kind, n_inputs, preset, standardise=normalisation)
    require("torch", "towers", "A network")
    from modgap.train.towers.normalisation import without_normalisation

    rows = []
    for k in range(initialisations):
        if progress is not None:
            progress(f"{kind} on {data}", k, initialisations)
        network = make_network(kind, preset, seed + k)
        if not normalisation and kind != "mlp":  # the MLP has no such layer
            network = without_normalisation(network)
        rows.append(network_rows(network, inputs))
    return rows


def trained_rows(
    kind: Literal["mlp", "resnet", "vit"] = "resnet",
    initialisations: int = 11,
    n_inputs: int = 500,
    epochs: int = 5,
    preset: Size = "tiny",
    seed: int = 0,
    progress: Progress | None = None,
) -> tuple[list[np.ndarray], np.ndarray]:
    """Rows of networks that learned to tell the digits apart, and their accuracies.

    All see the same batches: only the initial weights differ (Liang et al., fig. 13, at a small
    scale; its caption says 25 models, then 11). Rows of one network stay together (``neighbours``
    of ``compare_cones``), as the figure shows; but training spreads them out, and batch norms
    with ReLU bring the centres of different networks together. Needs the extra ``towers``.

    Parameters
    ----------
    kind : {"mlp", "resnet", "vit"}
        The architecture.
    initialisations, n_inputs : int
        How many networks, and how many scans each of them learns from.
    epochs : int, default 5
        How often each of them sees every scan.
    preset : {"tiny", "small"}
        How large the networks are.
    seed : int, default 0
        Of the batches and of the first network; the next ones have the seeds after it.
    progress : callable, optional
        Called with what is being done, how many networks are done, and of how many.
    """
    check_choice(kind, "kind", ("mlp", "resnet", "vit"))
    initialisations = check_count(initialisations, "initialisations")
    epochs = check_count(epochs, "epochs")
    inputs = digit_inputs(kind, check_count(n_inputs, "n_inputs", at_least=2), preset)
    labels = load_scans()[1][:n_inputs]
    rows, accuracies = [], []
    for k in range(initialisations):
        if progress is not None:
            progress(f"training a {kind}", k, initialisations)
        network = make_network(kind, preset, seed + k)
        network, accuracy = fit_classifier(network, inputs, labels, epochs, seed)
        rows.append(network_rows(network, inputs))
        accuracies.append(accuracy)
    return rows, np.array(accuracies)
