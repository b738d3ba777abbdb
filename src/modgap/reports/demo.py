"""The search that ``modgap demo`` shows: one index that holds scans and captions."""

from __future__ import annotations

import numpy as np

from modgap.core.results import changed
from modgap.corrections import Background, Correction
from modgap.corrections.expected_wrong import list_of_batches
from modgap.datasets import DigitPairs
from modgap.io.group_keys import label_keys
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
        groups = digits.groups[0][self.images], digits.groups[1][self.captions]
        self.groups = np.concatenate(groups)
        self.rows = {"image": digits.X[self.images], "text": digits.Y[self.captions]}
        self.keys = dict(zip(self.rows, map(label_keys, groups), strict=True))
        asks = (digits.wording == 1) & np.isin(digits.groups[1], digits.groups[0][self.images])
        self.queries = np.flatnonzero(asks)

    def search(self, queries: np.ndarray, correction: Correction | None) -> np.ndarray:
        """The documents nearest to caption queries, as they are or corrected."""
        fix = correction or Correction.identity(self.digits.X.shape[1])
        if fix.background is not None:  # that of this index, which holds half of the documents
            lists = {
                name: list_of_batches(fix, name, iter([rows]), self.keys[name])
                for name, rows in self.rows.items()
            }
            fix = changed(fix, background=Background(lists))
        documents = {
            name: fix.apply(rows, name, keys=self.keys[name]) for name, rows in self.rows.items()
        }
        asked = self.digits.Y[queries]
        found = search_corrected(fix, asked, documents, SHOWN, modality="text")
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
