"""One more column that gives documents equal lengths, so that a graph by inner product is sound.

HNSW walks from neighbour to neighbour. By inner product, long rows are everybody's neighbour and
short ones nobody's. One column more brings all documents to one length; queries have a zero there,
so no inner product changes, and neighbours are those of the Euclidean distance.
"""

from __future__ import annotations

import numpy as np

from modgap.core.checks import InputValueError
from modgap.corrections import Affine, Correction, Hubs


def lift_documents(rows: np.ndarray, length: float | None = None) -> np.ndarray:
    """Documents with one more column, √(length² − ‖v‖²), so that all are equally long.

    ``length`` is that of the longest row unless given; give a longer one if longer rows may come.

    >>> lift_documents(np.array([[3.0, 4.0], [3.0, 0.0]])).tolist()
    [[3.0, 4.0, 0.0], [3.0, 0.0, 4.0]]
    """
    squared = np.einsum("ij,ij->i", rows, rows, dtype=np.float64)
    top = float(squared.max())
    if length is not None:
        if length**2 < top:
            raise InputValueError(
                f"length must be at least that of the longest row, {top**0.5:.6g}, got {length}."
            )
        top = length**2
    column = np.sqrt(np.maximum(top - squared, 0.0)).astype(rows.dtype)
    return np.hstack([rows, column[:, None]])


def lift_queries(rows: np.ndarray) -> np.ndarray:
    """Queries with a zero in the added column."""
    return np.hstack([rows, np.zeros((len(rows), 1), dtype=rows.dtype)])


def lifted_lengths(correction: Correction, *, one_graph: bool = False) -> dict[str, float] | None:
    """For each modality a length that no document exceeds, to lift its documents to.

    One for all where they share a graph. None where lifting changes nothing, because every
    document has the same length or the metric looks at none; and where maps take rows of any
    length, so that nothing bounds what may come.
    """
    if correction.metric != "inner_product":
        return None
    maps = {name: correction.affine(name) for name in correction.names}
    lengths = {name: longest_row(affine) for name, affine in maps.items()}
    known = {name: length for name, length in lengths.items() if length is not None}
    even = all(affine.renormalise for affine in maps.values()) and len({*known.values()}) == 1
    if correction.hubs is not None:
        even, known = False, lengths_with_hubs(known, correction.hubs)
    if even or len(known) < len(lengths):
        return None
    return dict.fromkeys(known, max(known.values())) if one_graph else known


def longest_row(affine: Affine, given: float | None = None) -> float | None:
    """A bound of the length of what a map gives; None where rows of any length go in.

    ``given`` is the length of the longest of them, where it is known.

    >>> longest_row(Affine(2, scale=2.0, offset=np.array([3.0, 4.0]), normalise=True))
    7.000007
    """
    if affine.renormalise:
        length = 1.0
    elif affine.normalise or given is not None:
        stretch = 1.0 if affine.matrix is None else float(np.linalg.norm(affine.matrix, 2))
        moved = 0.0 if affine.offset is None else float(np.linalg.norm(affine.offset))
        before = 1.0 if affine.normalise or given is None else given
        length = abs(affine.scale) * stretch * before + moved
    else:
        return None
    factors = (1.0,) if affine.blocks is None else affine.blocks
    # What is stored is float32.
    return round(length * float(np.linalg.norm(factors)) * (1 + 1e-6), 12)


def lengths_with_hubs(lengths: dict[str, float], hubs: Hubs) -> dict[str, float]:
    """The same with the column −α h: h is the mean of k products with rows of the bank."""
    longest = np.sort(np.linalg.norm(hubs.check_bank().astype(np.float64), axis=1))
    share = hubs.weight * float(longest[-hubs.neighbours :].mean())
    return {name: round(length * (1 + share**2) ** 0.5, 12) for name, length in lengths.items()}
