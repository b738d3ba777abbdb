"""Rows that occur several times on one side, and the groups that they join.

An image with five captions, given as five equal rows beside five texts, is one thing to find. Split
row by row it is fitted on and judged by at once, and four of its five matches count as wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

import numpy as np

from modgap.core.door import as_numpy
from modgap.core.results import spoken
from modgap.io.embeddings import Embeddings
from modgap.io.grouped_rows import GroupedRows

# The cosine of copies is below 1 by at most this; rounding to float16 costs 1e-7.
TOLERANCE = 1e-6
# Rows at unit length that are copies are no further apart than this, nor is any projection of them.
_DISTANCE = float(np.sqrt(2 * TOLERANCE))
_PROJECTIONS = 8
# A tree of so many is searched fastest; the others sort out what it finds.
_IN_TREE = 4
# Modalities of more rows are not looked at: the projections of so many take 64 MB.
MAX_ROWS = 2_000_000
# Rows at unit length with less variance than this are all alike.
_ALL_ALIKE = 10 * TOLERANCE
# Rows that have more neighbours than this in the projections are too much alike to compare.
_MOST_NEIGHBOURS = 20
_MOST_PAIRS = 1_000_000
_BLOCK = 8_192
_Rows = TypeVar("_Rows", bound=GroupedRows)


def with_copies_grouped(data: _Rows) -> _Rows:
    """See ``Modalities.with_duplicates_grouped``."""
    looked_at = all(
        # Rows that workers read are not compared here.
        side.n_rows <= MAX_ROWS and side.matrix.spread_moments is None
        for side in data.sides.values()
    )
    if data.duplicates is not None or not (data.paired and looked_at):
        return data
    asked = {f"{name} queries": side for name, side in data.asking.items()}
    codes = dict(zip(data.names, data.groups, strict=True))
    codes |= {f"{name} queries": own for name, own in data.asking_codes.items()}
    codes, said = groups_joined({**data.sides, **asked}, codes)
    if not said:
        return replace(data, duplicates="")
    found = replace(
        data,
        group_codes=tuple(codes[name] for name in data.names),
        asking_codes={name: codes[f"{name} queries"] for name in data.asking},
        code_keys=data.group_keys,
    )
    sizes = np.stack([np.bincount(own, minlength=len(data.group_keys)) for own in found.groups])
    rows = sizes[:, np.argmax(sizes.sum(axis=0) * np.all(sizes > 0, axis=0))]
    largest = spoken(f"{n:,} {name}" for n, name in zip(rows, data.names, strict=True))
    what = "pairs" if data.row_by_row and len(data.sides) == 2 else "groups"
    return replace(
        found,
        duplicates=f"{spoken(said)}. With copies in one group, {data.n_groups:,} {what} form "
        f"{found.n_groups:,} groups, the largest with {largest} rows.",
    )


def first_copies(side: Embeddings) -> np.ndarray | None:
    """For every row the first row that it is a copy of, its own number where it is none.

    Copies have a cosine of at least 1 − 1e-6 with that first row, which is no copy itself: near
    copies are not chained. None where there are none, and where all rows are alike, as those of an
    encoder that collapsed: they say nothing about who matches whom. Rows without a direction have
    no copies.

    Rows are projected on 8 directions in one pass. Copies lie in one cell of these, or are
    neighbours there; those that do are compared whole, and no others. Where rows are so much alike
    that most have more than 20 such neighbours, those in one cell alone are compared.
    """
    places, scatter = _projected(side)
    if scatter <= _ALL_ALIKE:
        return None
    first, others = _in_cells(side, places)
    _join_neighbours(side, first, others, places)
    return None if np.array_equal(first, np.arange(side.n_rows)) else first


def _projected(side: Embeddings) -> tuple[np.ndarray, float]:
    """The projections of each row, NaN without a direction; the variance of all at unit length."""
    k = min(_PROJECTIONS, side.dim)
    basis = np.linalg.qr(np.random.default_rng(0).normal(size=(side.dim, k)))[0].astype(np.float32)
    places, total = [], np.zeros(side.dim)
    for batch in side.batches():
        rows = as_numpy(batch)
        for start in range(0, len(rows), _BLOCK):
            unit = _directions(rows[start : start + _BLOCK])
            places.append(unit @ basis)
            total += unit.sum(axis=0, where=np.isfinite(unit[:, :1]), dtype=np.float64)
    found = np.concatenate(places)
    n = int(np.isfinite(found[:, 0]).sum())
    return found, 1 - float(np.sum((total / max(n, 1)) ** 2))


def _directions(rows: np.ndarray) -> np.ndarray:
    """Rows at unit length, NaN without one."""
    rows = rows.astype(np.float32, copy=False) if rows.dtype.itemsize < 4 else rows
    with np.errstate(all="ignore"):
        length = np.sqrt(np.einsum("ij,ij->i", rows, rows))
        length = np.where((length > 0) & np.isfinite(length), length, np.nan)
        return (rows / length[:, None]).astype(np.float32, copy=False)


def _are_copies(side: Embeddings, rows: np.ndarray, firsts: np.ndarray) -> np.ndarray:
    """Whether each row is a copy of its first. Differences keep what a cosine near 1 loses."""
    found = np.zeros(len(rows), bool)
    for start in range(0, len(rows), _BLOCK):
        some = slice(start, start + _BLOCK)
        one, other = (_directions(as_numpy(side.take(few[some]))) for few in (rows, firsts))
        apart = one - other
        found[some] = np.einsum("ij,ij->i", apart, apart) <= 2 * TOLERANCE
    return found


def _in_cells(side: Embeddings, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The first copy of each row in its cell of a grid, and the rows that are no such copies."""
    first = np.arange(side.n_rows)
    known = np.flatnonzero(np.isfinite(places).all(axis=1))
    numbers = np.random.default_rng(0).integers(1 << 62, size=places.shape[1]) * 2 + 1
    cells = np.floor(places[known] / (2 * _DISTANCE)).astype(np.int64) @ numbers
    _, at, cell = np.unique(cells, return_index=True, return_inverse=True)
    beside = known[at][cell]
    others = np.flatnonzero(beside != known)
    others = others[_are_copies(side, known[others], beside[others])]
    first[known[others]] = beside[others]
    return first, np.delete(known, others)


def _join_neighbours(
    side: Embeddings, first: np.ndarray, rows: np.ndarray, places: np.ndarray
) -> None:
    """Join copies that lie in different cells, into the first copies that are given."""
    from scipy.spatial import cKDTree

    if len(rows) < 2:
        return
    tree = cKDTree(places[rows, :_IN_TREE])
    reach = _DISTANCE * (1 + 1e-3)  # of single precision
    n_pairs = (tree.count_neighbors(tree, reach) - len(rows)) // 2
    if n_pairs > max(_MOST_PAIRS, _MOST_NEIGHBOURS * len(rows)):
        return
    pairs = rows[tree.query_pairs(reach, output_type="ndarray")]
    near = np.abs(places[pairs[:, 0]] - places[pairs[:, 1]]).max(axis=1, initial=0) <= reach
    pairs = pairs[near]
    pairs = pairs[_are_copies(side, pairs[:, 1], pairs[:, 0])]
    for i, j in pairs[np.lexsort(pairs.T)].tolist():  # by j: whether i is a copy is known
        if first[i] == i and first[j] == j:
            first[j] = i
    moved = np.flatnonzero(first[first] != first)
    further = first[first[moved]]
    first[moved] = np.where(_are_copies(side, moved, further), further, moved)


def groups_joined(
    sides: Mapping[str, Embeddings], codes: Mapping[str, np.ndarray]
) -> tuple[dict[str, np.ndarray], list[str]]:
    """The groups after those that hold copies of one row became one, and a count of the copies.

    A joined group has the least of the numbers of its groups. Nothing is said, and nothing joined,
    where copies are in one group already.

    Parameters
    ----------
    sides : mapping of str to Embeddings
        The rows of each modality, by name.
    codes : mapping of str to arrays of numbers
        The group of every row, numbers from 0 that mean the same on every side.

    >>> rows = Embeddings.from_array(np.eye(3)[[0, 0, 1, 1]])
    >>> groups_joined({"image": rows}, {"image": np.arange(4)})
    ({'image': array([0, 0, 2, 2])}, ['2 image rows occur 2 times each'])
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    said, links = [], []
    for name, side in sides.items():
        first, own = first_copies(side), codes[name]
        if first is None or np.array_equal(own, own[first]):
            continue
        links.append(np.stack([own, own[first]]))
        said.append(_counted(np.bincount(first)[np.unique(first)], name))
    if not links:
        return dict(codes), []
    ends = np.concatenate(links, axis=1)
    n = 1 + max(int(own.max()) for own in codes.values())
    graph = coo_array((np.ones(ends.shape[1]), tuple(ends)), shape=(n, n))
    joined = connected_components(graph, directed=False)[1]
    _, least, place = np.unique(joined, return_index=True, return_inverse=True)
    return {name: least[place][own] for name, own in codes.items()}, said


def _counted(copies: np.ndarray, name: str) -> str:
    """How often the rows of a side stand there."""
    if copies.min() == copies.max():
        return f"{len(copies):,} {name} rows occur {copies[0]:,} times each"
    return (
        f"{copies.sum():,} {name} rows are {len(copies):,} distinct rows, one of them "
        f"{copies.max():,} times"
    )
