"""The rows that are drawn, and where."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from modgap.arrays import to_numpy
from modgap.arrays import unit as at_unit_length
from modgap.core.results import by_side
from modgap.io import Modalities
from modgap.measures import Projection, projection
from modgap.moments import Moments
from modgap.reports.assemble import data_json
from modgap.reports.rows import RowPictures, label_text, row_ids, row_labels
from modgap.reports.terms import Term, terms

MAX_DRAWN = 2_000
_DIGITS = 6
# Labels of the drawn rows of a modality: the more there are, the shorter each is cut.
_LABEL_LETTERS, _LABEL_LENGTH, _SHORT_LABEL = 240_000, 300, 20


@dataclass(frozen=True, eq=False)
class Drawn:
    """Row numbers that are drawn and the rows themselves, by modality.

    The first ``n_pairs`` of every modality match.
    """

    numbers: Mapping[str, np.ndarray]
    n_pairs: int
    rows: Mapping[str, np.ndarray]


def choose_drawn(
    data: Modalities, seed: int, most: int = MAX_DRAWN, *, unit: bool = False
) -> Drawn:
    """A seeded sample of pairs first, then of rows without a match while there is room.

    Parameters
    ----------
    data : Modalities
        Where the rows are from.
    seed : int
        Seed of the sample.
    most : int
        Draw at most this many rows of each modality.
    unit : bool
        Whether to bring the rows to unit length, as the moves do where the metric is cosine.
    """
    rng = np.random.default_rng(seed)
    n_pairs = 0
    picked: list[np.ndarray] = [np.zeros(0, dtype=np.int64)] * len(data.names)
    if data.paired:
        matches = data.matches()
        chosen = _some(rng, len(matches[0]), most)
        picked, n_pairs = [side[chosen] for side in matches], len(chosen)
    for place, groups in enumerate(data.groups):
        single = np.flatnonzero(~np.isin(groups, data.matched_groups))
        room = most - len(picked[place])
        picked[place] = np.concatenate([picked[place], single[_some(rng, len(single), room)]])
    numbers = dict(zip(data.names, picked, strict=True))
    rows = {name: to_numpy(data.sides[name].take(some)) for name, some in numbers.items()}
    if unit:
        rows = {name: at_unit_length(some) for name, some in rows.items()}
    return Drawn(numbers, n_pairs, rows)


def _some(rng: np.random.Generator, n: int, most: int) -> np.ndarray:
    return np.sort(rng.choice(n, min(n, max(most, 0)), replace=False)).astype(np.int64)


def projections(
    drawn: Drawn, moments: Sequence[Moments], *, umap: bool, seed: int
) -> list[Projection]:
    """PCA and SVD from the moments of every row, and UMAP of the drawn ones on request."""
    found = [
        projection(drawn.rows, None, method, 3, moments=moments, seed=seed)
        for method in ("pca", "svd")
    ]
    enough = sum(len(rows) for rows in drawn.rows.values()) > 2  # UMAP needs two neighbours
    if umap and enough:
        found.append(projection(drawn.rows, None, "umap", 2, seed=seed))
    return found


def picture_document(data: Modalities, drawn: Drawn, found: Sequence[Projection]) -> dict[str, Any]:
    """What the page needs to draw the rows, but for their pictures; see ``add_thumbnails``."""
    words = terms(data.names)
    sides = [_side(data, name, drawn) for name in data.names]
    lines = [[i] * len(data.names) for i in range(drawn.n_pairs)]
    return {
        "projections": [_projection(one, words[one.method]) for one in found],
        **by_side(sides),
        "lines": lines or None,
    }


def _projection(one: Projection, words: Term) -> dict[str, Any]:
    origin = np.zeros(one.dims) if one.origin is None else one.origin
    return {
        "key": one.method,
        "label": words["label"],
        "about": words["definition"],
        "share": one.share,
        "moves": one.axes is not None,
        "origin": short(origin),
        # Before centring: the page moves the rows, then subtracts the origin.
        **by_side([[short(column) for column in (side + origin).T] for side in one.sides]),
    }


def _side(data: Modalities, name: str, drawn: Drawn) -> dict[str, Any]:
    rows, side = drawn.numbers[name], data.sides[name]
    most = min(_LABEL_LENGTH, _LABEL_LETTERS // max(len(rows), 1))
    return {
        "rows": rows,
        "labels": row_labels(side, rows, most),
        "labelled_by": next((kind for kind in ("captions", "ids") if kind in side.columns), None),
        "ids": row_ids(side, rows),
        "squares": short(np.sum(drawn.rows[name].astype(np.float64) ** 2, axis=1)),
    }


def shorten_labels(document: dict[str, Any], excess: int) -> int:
    """Halve the longest labels until ``excess`` bytes are saved; the bytes that were."""
    sides = [document["x"], document["y"]] if "x" in document else document["sides"]
    labelled = [side for side in sides if side["labels"] is not None]
    size = start = _bytes(labelled)
    most = _LABEL_LENGTH
    while start - size < excess and most > _SHORT_LABEL:
        most //= 2
        for side in labelled:
            side["labels"] = [label_text(label, most) for label in side["labels"]]
        size = _bytes(labelled)
    return start - size


def _bytes(labelled: Sequence[Mapping[str, Any]]) -> int:
    return sum(len(data_json({"labels": side["labels"]}).encode()) for side in labelled)


def add_thumbnails(
    document: dict[str, Any], data: Modalities, drawn: Drawn, pictures: RowPictures, room: int
) -> None:
    """Add pictures of the drawn rows, those that match first, while there is room in bytes."""
    sides = [document["x"], document["y"]] if "x" in document else document["sides"]
    places: list[tuple[int, str, list[str | None]]] = []
    for name, side in zip(data.names, sides, strict=True):
        n_drawn = len(drawn.numbers[name])
        side["thumbnails"] = [None] * n_drawn if name in data.thumbnails else None
        if name in data.thumbnails:
            places += [(place, name, side["thumbnails"]) for place in range(n_drawn)]
    for place, name, shown in sorted(places, key=lambda one: one[0]):
        if room <= 0:
            break
        one = pictures(name, int(drawn.numbers[name][place]))
        if len(one or "") < room:
            shown[place] = one
        room -= len(one or "")


def short(values: np.ndarray) -> list[float]:
    """Numbers to six digits: what a picture can show, in half the bytes."""
    return [float(f"{value:.{_DIGITS}g}") for value in np.asarray(values).tolist()]
