"""Results of a search: as a database gives them, and as arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from modgap.search import Hits

Id = int | str
IdType = Literal["int", "str"]
# One result: its id, its modality, and its nearness as the database states it.
Hit = tuple[Id, str, float]


def to_hits(
    found: list[list[Hit]], k: int, score: Callable[[float], float], id_type: IdType
) -> Hits:
    """The k best results of each query as arrays, filled up where one has fewer than another."""
    lines = [[(key, name, score(nearness)) for key, name, nearness in line] for line in found]
    lines = [sorted(line, key=lambda hit: -hit[2])[:k] for line in lines]
    width = max(map(len, lines))
    full = all(len(line) == width for line in lines)
    missing: tuple[None, str, float] = (None, "", -np.inf)
    cells: list[Any] = [cell for line in lines for cell in line + [missing] * (width - len(line))]
    dtypes = ((np.int64 if id_type == "int" else np.str_) if full else object, np.str_, np.float64)
    columns: list[np.ndarray] = [
        np.array([cell[place] for cell in cells], dtype=dtype).reshape(len(lines), width)
        for place, dtype in enumerate(dtypes)
    ]
    return Hits(ids=columns[0], modalities=columns[1], scores=columns[2])
