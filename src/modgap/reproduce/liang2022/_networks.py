"""Rows of small networks under many initialisations, and their place in a picture."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext

import numpy as np

from modgap._arrays import unit
from modgap._validate import require
from modgap.reproduce.entry import Setting
from modgap.simulate.cone_initialisations import ConeData, random_rows
from modgap.simulate.cone_networks import Network, Size

# The three networks of the figures, by the names they have there.
NETWORKS: tuple[tuple[Network, str], ...] = (
    ("resnet", "ResNet"),
    ("vit", "image transformer"),
    ("transformer", "text transformer"),
)
_POINTS = 40


def preset_of(setting: Setting) -> Size:
    """How large the networks are."""
    return "small" if setting.full else "tiny"


@contextmanager
def one_thread() -> Iterator[None]:
    """Networks this small lose more to waiting for threads than they gain by them."""
    torch = require("torch", "towers", "A tower")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def initialised_rows(
    setting: Setting,
    kind: Network,
    data: ConeData,
    initialisations: int,
    n_inputs: int,
    normalisation: bool = True,
) -> list[np.ndarray]:
    """Rows of the same inputs under different random weights, one matrix per initialisation."""
    preset = preset_of(setting)
    with one_thread() if preset == "tiny" else nullcontext():
        return random_rows(
            kind,
            data,
            initialisations,
            n_inputs,
            preset,
            normalisation,
            setting.seed,
            progress=setting.say,
        )


def in_plane(groups: Sequence[np.ndarray], method: str = "pca", seed: int = 0) -> list[np.ndarray]:
    """The unit rows of all groups in one plane; at most 40 of each, evenly taken."""
    picked = [
        unit(rows.astype(np.float64))[
            np.linspace(0, len(rows) - 1, min(len(rows), _POINTS)).astype(np.int64)
        ]
        for rows in groups
    ]
    together = np.concatenate(picked)
    if method == "umap":
        from modgap.measures.projection import projection

        half = len(together) // 2
        placed = projection(together[:half], together[half:], "umap", seed=seed)
        flat = np.concatenate([placed.x, placed.y])
    else:
        centred = together - together.mean(axis=0)
        _, _, axes = np.linalg.svd(centred, full_matrices=False)
        flat = centred @ axes[:2].T
    return np.split(flat, np.cumsum([len(rows) for rows in picked])[:-1])
