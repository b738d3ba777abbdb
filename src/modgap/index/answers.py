"""What databases answer, in one shape: their hits, and what they complain of."""

from __future__ import annotations

from typing import Any

import numpy as np

from modgap.search.hits import Hits

Id = int | str
# One result: its id, its modality and its score.
Hit = tuple[Id, str, float]


def one_line(error: BaseException) -> str:
    """What a database said, short enough for a sentence."""
    told = getattr(error, "message", None) or error
    lines = [line.strip() for line in str(told).splitlines() if line.strip()]
    said = lines[0] if lines else type(error).__name__
    return said.rstrip(".")[:300]


def to_hits(found: list[list[Hit]], kind: str) -> Hits:
    """The results of each query as arrays, filled up where one has fewer than another."""
    k = max(map(len, found))
    full = all(len(line) == k for line in found)
    missing: tuple[None, str, float] = (None, "", -np.inf)
    lines = [sorted(line, key=lambda hit: -hit[2]) for line in found]
    cells: list[Any] = [cell for line in lines for cell in (*line, *[missing] * (k - len(line)))]
    shape = (len(lines), k)
    dtypes = ((np.int64 if kind == "int" else np.str_) if full else object, np.str_, np.float64)
    columns: list[np.ndarray] = [
        np.array([cell[place] for cell in cells], dtype=dtype).reshape(shape)
        for place, dtype in enumerate(dtypes)
    ]
    return Hits(ids=columns[0], scores=columns[2], modalities=columns[1])
