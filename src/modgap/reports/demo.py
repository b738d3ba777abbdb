"""The search that ``modgap demo`` shows: one index that holds scans and captions."""

from __future__ import annotations

import numpy as np

from modgap.corrections import Correction
from modgap.datasets import DigitPairs
from modgap.search import search_corrected

SHOWN = 4
_SHADES = " ░▒▓█"


class DigitIndex:
    """Each scan represented by its image or by one of its captions, drawn by seed."""

    def __init__(self, digits: DigitPairs, seed: int) -> None:
        self.digits = digits
        n = len(digits.X)
        as_image = np.random.default_rng(seed).permutation(n) < n // 2
        self.images = np.flatnonzero(as_image)
        first = np.flatnonzero(digits.wording == 0)
        self.captions = first[~as_image]
        self.groups = np.concatenate(
            [digits.groups[0][self.images], digits.groups[1][self.captions]]
        )
        asks = (digits.wording == 1) & np.isin(digits.groups[1], digits.groups[0][self.images])
        self.queries = np.flatnonzero(asks)

    def search(self, queries: np.ndarray, correction: Correction | None) -> np.ndarray:
        """The documents nearest to caption queries, as they are or corrected."""
        digits = self.digits
        fix = correction or Correction.identity(digits.X.shape[1])
        documents = {
            "image": fix.x(digits.X[self.images]), "text": fix.y(digits.Y[self.captions])
        }  # fmt: skip
        found = search_corrected(fix, digits.Y[queries], documents, SHOWN, modality="text")
        return np.where(found.modalities == "text", len(self.images), 0) + found.ids

    def query_that_is_mended(self, correction: Correction) -> int:
        """The first query whose scan comes first once corrected; else the first query."""
        best = self.search(self.queries, correction)
        mended = self.groups[best[:, 0]] == self.digits.groups[1][self.queries]
        return int(self.queries[np.argmax(mended)])

    def results(self, query: int, correction: Correction | None) -> list[tuple[str, bool]]:
        """Each document found, as a caption or a drawn scan, and whether it matches the query."""
        found = []
        for place in self.search(np.array([query]), correction)[0]:
            if place < len(self.images):
                text = draw_scan(self.digits.images[self.images[place]])
            else:
                text = self.digits.captions[self.captions[place - len(self.images)]]
            found.append((text, bool(self.groups[place] == self.digits.groups[1][query])))
        return found


def scan_pixels(images: np.ndarray) -> np.ndarray:
    """Scans as grey pixels from 0 to 255, dark ink on a light ground."""
    return 255 - images * (255 / 16)


def draw_scan(image: np.ndarray) -> str:
    """An 8 × 8 scan in characters, two to a pixel."""
    levels = np.clip(image / 16 * len(_SHADES), 0, len(_SHADES) - 1).astype(int)
    return "\n".join("".join(_SHADES[level] * 2 for level in line) for line in levels)
