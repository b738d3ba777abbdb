"""Every initialisation has a cone of its own (figs 5, 7, 13 and 15)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from modgap.arrays import unit
from modgap.measures.projection import projection, umap_is_installed
from modgap.reproduce.entry import Check, Number, Outcome
from modgap.reproduce.flickr8k.results import CONES
from modgap.reproduce.liang2022 import PAPER
from modgap.reproduce.setting import Setting
from modgap.reproduce.statistics import gap_beside_chance
from modgap.reproduce.threads import one_thread
from modgap.simulate.cone_initialisations import (
    ConeComparison,
    ConeData,
    compare_cones,
    random_rows,
    trained_rows,
)
from modgap.simulate.cone_networks import Network

INITIALISATIONS = 25
# The three networks of the figures, by the names they have there.
NETWORKS: tuple[tuple[Network, str], ...] = (
    ("resnet", "ResNet"),
    ("vit", "image transformer"),
    ("transformer", "text transformer"),
)
# "Distinctively different" cones do not overlap: so many rows are nearest to their own centre.
DISTINCT = 0.95
# An image and a text tower of one model.
_PAIRED: tuple[Network, Network] = ("vit", "transformer")
# What is kept of the cones of models that were trained on Flickr8k → what it is called.
_OF_PHOTOS = {
    "models": "models",
    "separation": "distance over width of two cones",
    "told_apart": "nearest centre is the own one",
    "neighbours": "nearest row has the same weights",
}
_FULL_SIZE = "ResNet-18, trained on CIFAR-10"
# As many rows of each initialisation as a picture can show.
_POINTS = 40


@PAPER.run("fig5")
def fig5(setting: Setting) -> Outcome:
    """Noise through three kinds of network, or both towers of your model, 25 times."""
    return _cones(setting, "noise", _neighbour_map(setting))


@PAPER.run("fig7")
def fig7(setting: Setting) -> Outcome:
    """Digits and captions through three kinds of network, or your data through your towers."""
    return _cones(setting, "digits", "pca")


@PAPER.run("fig13")
def fig13(setting: Setting) -> Outcome:
    """ResNets trained to tell digits apart, with the same batches from different weights."""
    models, n, epochs = (11, 1797, 20) if setting.full else (5, 500, 5)
    with one_thread():
        rows, accuracies = trained_rows(
            "resnet", models, n, epochs, seed=models * setting.seed, progress=setting.say
        )
    rows = setting.read("trained rows", rows)
    found = compare_cones(rows)
    without = compare_cones([unit(X) - unit(X).mean(axis=0) for X in rows])
    runs = setting.runs()
    photos = runs.of(CONES)[0] if CONES in runs else {}
    cifar = setting.networks()["cifar-cones"]
    return Outcome(
        {
            "models": models,
            "accuracy, least": float(accuracies.min()),
            **cone_values(found, "trained ResNet"),
            "share of variance between models": found.between,
            **_unseen_values(rows, "trained ResNet", setting.seed),
            "nearest row has the same weights, means taken off": without.neighbours,
            **{f"{name}, Flickr8k": photos[key] for key, name in _OF_PHOTOS.items() if photos},
            "models, CIFAR-10": cifar["initialisations"],
            f"unseen rows nearest to the own centre, {_FULL_SIZE}": cifar["unseen_told_apart"],
        },
        [
            *cone_checks(rows, "trained ResNet", setting.seed),
            PAPER.above(
                "own_centre_nearest", cifar["unseen_told_apart"], DISTINCT, label=_FULL_SIZE
            ),
            PAPER.above("map_shows_more", found.neighbours, without.neighbours),
        ],
        _panels({"trained ResNets": rows}, _neighbour_map(setting), setting.seed),
    )


@PAPER.run("fig15")
def fig15(setting: Setting) -> Outcome:
    """The gap of pairs by random towers, or your model's, with and without normalisation.

    Beside it that of towers trained on Flickr8k.
    """
    measured: dict[str, Number] = {}
    checks: list[Check] = []
    panels: list[dict[str, Any]] = []
    for normalisation, label, prefix in (
        (True, "with normalisation", "normalised"), (False, "without", "unnormalised")
    ):  # fmt: skip
        pairs = [(unit(X), unit(Y)) for X, Y in _random_towers(setting, normalisation)]
        rng = np.random.default_rng([setting.seed, 1])
        beside = [gap_beside_chance(*both, rng, setting.seed) for both in pairs]
        found = {
            label: {name: np.array([one[name] for one in beside]) for name in beside[0]},
            f"trained, {label}": setting.after_passes(f"{prefix}_"),
        }
        measured["dimension"] = pairs[0][0].shape[1]
        for said, of in ((said, of) for said, of in found.items() if of):
            gap, apart = of["gap"].min(), of["told_apart"].min()
            by_chance, apart_by_chance = of["gap_by_chance"].max(), of["told_apart_by_chance"].max()
            measured |= {
                f"gap, mean, {said}": of["gap"].mean(),
                f"gap, least, {said}": gap,
                f"gap, sides at random, {said}": by_chance,
                f"told apart, least, {said}": apart,
                f"told apart, sides at random, {said}": apart_by_chance,
            }
            words = {"said": said.capitalize()}
            checks += [
                PAPER.above("gap_beyond_sides_at_random", gap, by_chance, **words),
                PAPER.above("told_beyond_sides_at_random", apart, apart_by_chance, **words),
            ]
        shown = projection(*pairs[0], "pca")
        panels.append({"title": f"{label} (PCA)", "x": shown.x, "y": shown.y})
    return Outcome(measured, checks, {"panels": panels})


def _random_towers(setting: Setting, normalisation: bool) -> list[tuple[np.ndarray, np.ndarray]]:
    """Pairs by each initialisation: your data by your model, or digits by small transformers."""
    initialisations, n = (5, 200) if setting.full else (2, 100)
    if (model := setting.model) is not None:
        seeds = range(initialisations * setting.seed, initialisations * (setting.seed + 1))
        return model.initialised(seeds, n, normalisation=normalisation, progress=setting.say)
    images, texts = (
        initialised_rows(setting, kind, "digits", initialisations, n, normalisation)
        for kind in _PAIRED
    )
    return list(zip(images, texts, strict=True))


def initialised_rows(
    setting: Setting,
    kind: Network,
    data: ConeData,
    initialisations: int,
    n_inputs: int,
    normalisation: bool = True,
) -> list[np.ndarray]:
    """Rows of the same inputs under different random weights, one matrix per initialisation."""
    with nullcontext() if setting.full else one_thread():
        rows = random_rows(
            kind,
            data,
            initialisations,
            n_inputs,
            "small" if setting.full else "tiny",
            normalisation,
            # So that no two seeds share an initialisation.
            initialisations * setting.seed,
            progress=setting.say,
        )
    return setting.read(f"{kind} on {data}", rows)


def cone_values(found: ConeComparison, label: str) -> dict[str, Number]:
    """The metrics of a comparison under a label."""
    return {
        f"mean cosine, {label}": float(found.mean_cosine.mean()),
        f"distance over width of two cones, {label}": found.separation,
        f"nearest centre is the own one, {label}": found.told_apart,
        f"nearest row has the same weights, {label}": found.neighbours,
    }


def cone_checks(rows: Sequence[np.ndarray], label: str, seed: int) -> list[Check]:
    """What "a cone of its own" means in numbers, beside what one cone for all would give."""
    told_apart, apart, within = unseen_cones(rows, seed)
    return [
        PAPER.above("own_centre_nearest", told_apart, DISTINCT, label=label),
        PAPER.above("centres_apart", apart, within, label=label),
    ]


def unseen_cones(groups: Sequence[np.ndarray], seed: int) -> tuple[float, float, float]:
    """Cones of networks that all saw the same inputs, row by row, by centres of half of these.

    The share of rows of the other half nearest to their own network's centre; and the mean distance
    of that centre to those of the other half of another network, and of its own.
    """
    rows = np.stack([unit(X.astype(np.float64)) for X in groups])
    order = np.random.default_rng([seed, 2]).permutation(rows.shape[1])
    first, second = (rows[:, half] for half in np.array_split(order, 2))
    centres, others = first.mean(axis=1), second.mean(axis=1)
    distances = np.linalg.norm(centres[:, None] - others[None], axis=2)
    own = np.eye(len(rows), dtype=bool)
    # ‖u − c‖² ranks as c·u − ‖c‖²/2 does, the other way round.
    scores = second @ centres.T - np.sum(centres**2, axis=1) / 2
    told_apart = np.mean(np.argmax(scores, axis=2) == np.arange(len(rows))[:, None])
    return float(told_apart), float(distances[~own].mean()), float(distances[own].mean())


def _unseen_values(rows: Sequence[np.ndarray], label: str, seed: int) -> dict[str, Number]:
    told_apart, apart, within = unseen_cones(rows, seed)
    return {
        f"unseen rows nearest to the own centre, {label}": told_apart,
        f"distance of two centres over that of two halves, {label}": apart / within,
    }


def in_plane(groups: Sequence[np.ndarray], method: str = "pca", seed: int = 0) -> list[np.ndarray]:
    """Some unit rows of each group, evenly taken, in one plane."""
    count = min(len(groups[0]), _POINTS)
    picked = np.linspace(0, len(groups[0]) - 1, count).astype(np.int64)
    together = np.concatenate([unit(rows.astype(np.float64))[picked] for rows in groups])
    if method == "umap":
        half = len(together) // 2
        placed = projection(together[:half], together[half:], "umap", seed=seed)
        flat = np.concatenate([placed.x, placed.y])
    else:
        centred = together - together.mean(axis=0)
        _, _, axes = np.linalg.svd(centred, full_matrices=False)
        flat = centred @ axes[:2].T
    return np.split(flat, len(groups))


def _neighbour_map(setting: Setting) -> str:
    """UMAP where there is time for it and it is installed."""
    return "umap" if setting.full and umap_is_installed() else "pca"


def _panels(rows: Mapping[str, list[np.ndarray]], method: str, seed: int) -> dict[str, Any]:
    """What is drawn of several networks: each with all its initialisations in one plane."""
    panels = [
        {"title": label, "groups": in_plane(groups, method, seed)} for label, groups in rows.items()
    ]
    return {"method": method, "shown_by": method.upper(), "panels": panels}


def _cones(setting: Setting, data: ConeData, method: str) -> Outcome:
    """What the cones of several initialisations of each network are like, on the same inputs."""
    rows = _initialised(setting, data)
    measured: dict[str, Number] = {"initialisations": INITIALISATIONS}
    checks: list[Check] = []
    for label, groups in rows.items():
        measured |= cone_values(compare_cones(groups), label)
        measured |= _unseen_values(groups, label, setting.seed)
        checks += cone_checks(groups, label, setting.seed)
    return Outcome(measured, checks, _panels(rows, method, setting.seed))


def _initialised(setting: Setting, data: ConeData) -> dict[str, list[np.ndarray]]:
    """Rows of every initialisation by network: both towers of your model, or the figures' three."""
    n_inputs = 200 if setting.full else 40
    if (model := setting.model) is None:
        return {
            label: initialised_rows(setting, kind, data, INITIALISATIONS, n_inputs)
            for kind, label in NETWORKS
        }
    seeds = range(INITIALISATIONS * setting.seed, INITIALISATIONS * (setting.seed + 1))
    found = model.initialised(seeds, n_inputs, noise=data == "noise", progress=setting.say)
    return {"image tower": [X for X, _ in found], "text tower": [Y for _, Y in found]}
