"""The rows that stand in for the paper's, and small helpers the entries share."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from modgap.datasets import load_digits
from modgap.datasets.digits import DigitSplit, measure_scans
from modgap.reproduce.setting import Setting

# Histograms depend on their bins, and the paper does not print its number.
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
