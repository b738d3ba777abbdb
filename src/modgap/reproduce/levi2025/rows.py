"""The rows that stand in for the paper's, and small helpers the entries share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np

from modgap.datasets import load_digits
from modgap.datasets.digits import DigitSplit, measure_scans
from modgap.reproduce.entry import Check, Paper, Setting

PAPER = Paper("levi2025", "The Double-Ellipsoid Geometry of CLIP (Levi and Gilboa 2025)")

# Histograms hang on their bins, and the paper does not print its number.
BINS = 50

CLIP = (
    "CLIP ViT-B/16 on 500 MS-COCO pairs, unit rows "
    "(the paper: ViT-B/32 on 5,000 pairs, rows before normalisation)"
)
DIGITS = (
    "the embedded digits before normalisation: 1,797 scans and a caption of each, 64 dimensions"
)
UNSEEN = "the 1,000 embedded digits the model never saw, before normalisation, 64 dimensions"
VIDEO = "VideoCLIP on 100 pairs, 768 dimensions, unit rows (the paper: CLIP ViT-L/14, 5,000 pairs)"

HOW_COCO = (
    "The paper's own rows are those of {model} before normalisation (encode_image and encode_text "
    "with normalize=False in open_clip) on the 5,000 images of the MS-COCO validation set with one "
    "caption each. Saved as image.npy and text.npy, `modgap measure image.npy text.npy` prints "
    "these quantities for them."
)
HOW_B32 = HOW_COCO.format(model="CLIP ViT-B/32")


@dataclass(frozen=True, eq=False)
class Digits:
    """Scans and one caption of each: embedded rows as the towers gave them, and the scans."""

    X: np.ndarray
    Y: np.ndarray
    images: np.ndarray
    labels: np.ndarray
    captions: tuple[str, ...]
    temperature: float


@cache
def digits(split: DigitSplit = "all") -> Digits:
    """The digits before normalisation, each scan with its caption in the first wording."""
    loaded = load_digits(split, unit=False)
    n = len(loaded.X)
    wordings = len(loaded.Y) // n
    return Digits(
        X=loaded.X.astype(np.float64),
        Y=loaded.Y.reshape(n, wordings, -1)[:, 0].astype(np.float64),
        images=loaded.images,
        labels=loaded.labels,
        captions=loaded.captions[::wordings],
        temperature=float(loaded.recipe["temperature"]),
    )


def embeddings(setting: Setting, system: str) -> tuple[np.ndarray, np.ndarray]:
    """The authors' rows of one system in double precision."""
    X, Y = setting.arrays(system)
    return X.astype(np.float64), Y.astype(np.float64)


def extremeness(images: np.ndarray) -> np.ndarray:
    """How unusual each scan is by its own pixels: 0 in the middle of every property, ½ at an end.

    The mean, over everything that is measured in a scan, of how far its rank is from the middle.
    It knows nothing of any embedding.
    """
    ranks = [_ranks(values) for values in measure_scans(images).values()]
    return np.mean([np.abs(rank - 0.5) for rank in ranks], axis=0)


def _ranks(values: np.ndarray) -> np.ndarray:
    from scipy.stats import rankdata

    return (rankdata(values) - 0.5) / len(values)


def rank_correlation(a: np.ndarray, b: np.ndarray) -> float:
    """Spearman's rank correlation."""
    return float(np.corrcoef(_ranks(a), _ranks(b))[0, 1])


def by_chance(n: int) -> float:
    """Four standard errors of a rank correlation of unrelated values: more is not chance."""
    return 4 / (n - 1) ** 0.5


def check(statement: str, holds: object) -> Check:
    """A statement and whether it held, as a plain truth value."""
    return Check(statement, bool(holds))


def some(rows: np.ndarray, count: int = 600) -> np.ndarray:
    """At most ``count`` rows, evenly spaced: as many as a picture can show."""
    if len(rows) <= count:
        return rows
    return rows[np.linspace(0, len(rows) - 1, count).round().astype(np.int64)]


def limits(points: Mapping[str, np.ndarray]) -> list[tuple[float, float]]:
    """From where to where each axis runs: a line drawn through x = 0 must not stretch it."""
    rows = np.concatenate(list(points.values()))
    low, high = rows.min(axis=0), rows.max(axis=0)
    room = 0.03 * (high - low)
    return list(zip((low - room).tolist(), (high + room).tolist(), strict=True))


def counted(
    groups: Mapping[str, np.ndarray], bins: int = BINS, tail: float = 0.0
) -> dict[str, object]:
    """Histograms of several groups over shared bins, ready to draw; a share at the top left out."""
    together = np.concatenate(list(groups.values()))
    edges = np.linspace(together.min(), np.quantile(together, 1 - tail), bins + 1)
    return {
        "edges": edges,
        "counts": {name: np.histogram(values, edges)[0] for name, values in groups.items()},
    }
