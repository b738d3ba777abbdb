"""FAISS's own objects: rows removed, files written and told apart, query maps as transforms."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from modgap.core.checks import require
from modgap.index.metadata import Graphs
from modgap.index.stored_vectors import StoredVector

_ENDS = 1 << 20


def searched_index(index: Any) -> Any:
    """The index that is searched, behind its transforms where it has any."""
    faiss = require("faiss", "faiss", "A FAISS index")
    index = faiss.downcast_index(index)
    if isinstance(index, faiss.IndexPreTransform):
        return faiss.downcast_index(index.index)
    return index


def keep_rows(index: Any, kept: np.ndarray) -> None:
    """Leave in a FAISS index the rows that ``kept`` says; the others close up.

    A graph cannot lose rows: it is built again of those it holds.
    """
    faiss = require("faiss", "faiss", "A FAISS index")
    if np.all(kept):
        return
    searched = faiss.downcast_index(index)
    if isinstance(searched, faiss.IndexPreTransform):
        keep_rows(searched.index, kept)
        index.ntotal = searched.index.ntotal
        return
    if isinstance(searched, faiss.IndexHNSW):
        rows = faiss.downcast_index(searched.storage).reconstruct_batch(np.flatnonzero(kept))
        searched.reset()
        searched.add(rows)
        return
    searched.remove_ids(faiss.IDSelectorBatch(np.flatnonzero(~kept)))
    if isinstance(searched, faiss.IndexIVF):  # its lists hold numbers of rows, which close up
        numbers = np.cumsum(kept) - 1
        for one in range(searched.nlist):
            size = searched.invlists.list_size(one)
            if size:
                held = faiss.rev_swig_ptr(searched.invlists.get_ids(one), size)
                held[:] = numbers[held]


def write_indexes(path: Path, indexes: Iterable[Any]) -> None:
    """Write FAISS indexes one after the other; its own writer hides what fails on closing."""
    faiss = require("faiss", "faiss", "A FAISS index")
    with path.open("wb") as file:
        writer = faiss.PyCallbackIOWriter(file.write)
        for index in indexes:
            faiss.write_index(index, writer)


def file_fingerprint(path: Path) -> list[int]:
    """Size and checksums of both ends of a file, enough to tell one index from the next."""
    size = path.stat().st_size
    with path.open("rb") as file:
        first = file.read(_ENDS)
        file.seek(max(size - _ENDS, 0))
        return [size, zlib.crc32(first), zlib.crc32(file.read(_ENDS))]


def query_transforms(vector: StoredVector, modality: str) -> list[Any]:
    """The query map of a modality as FAISS transforms, to be applied in this order."""
    faiss = require("faiss", "faiss", "A FAISS transform")
    affine = vector.correction.affine(modality, "query").dense()
    steps: list[Any] = []
    if affine.normalise:
        steps.append(faiss.NormalizationTransform(affine.dim_in, 2.0))
    if affine.matrix is not None or affine.offset is not None:
        matrix = np.eye(affine.dim_in) if affine.matrix is None else affine.matrix
        steps.append(_linear(affine.scale * matrix, affine.offset))
    if affine.renormalise or vector.correction.metric == "cosine":
        steps.append(faiss.NormalizationTransform(affine.dim_out, 2.0))
    if vector.dim > affine.dim_out:
        added = np.zeros(vector.dim)
        if vector.correction.hubs is not None:
            added[affine.dim_out] = 1.0
        steps.append(_linear(np.eye(vector.dim, affine.dim_out), added))
    return steps


def _linear(matrix: np.ndarray, offset: np.ndarray | None) -> Any:
    faiss = require("faiss", "faiss", "A FAISS transform")
    step = faiss.LinearTransform(matrix.shape[1], matrix.shape[0], offset is not None)
    faiss.copy_array_to_vector(np.ascontiguousarray(matrix, np.float32).ravel(), step.A)
    if offset is not None:
        faiss.copy_array_to_vector(offset.astype(np.float32), step.b)
    step.is_trained = True
    return step


def indexes_of(
    vectors: Iterable[str], names: Iterable[str], graphs: Graphs | None
) -> Iterator[tuple[str, str | None]]:
    """The FAISS indexes of a file in their order: by vector, and by modality if it has graphs."""
    each: list[str | None] = [*names] if graphs == "each" else [None]
    return ((name, part) for name in vectors for part in each)
