"""Write embeddings in any known format: one modality, or two. An interrupted run leaves nothing."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from modgap.core.checks import InputValueError, check_names
from modgap.core.files import atomic_path
from modgap.io._contents import EMBEDDING
from modgap.io._row_stream import RowStream, check_columns, check_lengths
from modgap.io.formats.npy import write_npy
from modgap.io.formats.npz import write_npz
from modgap.io.formats.parquet import write_parquet
from modgap.io.formats.safetensors_file import write_safetensors
from modgap.io.formats.torch_file import write_torch

Writer = Callable[[Path, Mapping[str, RowStream], Mapping[str, np.ndarray]], None]

WRITERS: Mapping[str, Writer] = {
    ".npy": write_npy,
    ".npz": write_npz,
    ".safetensors": write_safetensors,
    ".pt": write_torch,
    ".pth": write_torch,
    ".parquet": write_parquet,
}


def write_embeddings(
    path: str | os.PathLike[str],
    rows: Any,
    *,
    ids: Any = None,
    captions: Any = None,
    labels: Any = None,
    groups: Any = None,
    dtype: Any = None,
) -> None:
    """Write the rows of one modality; the suffix of ``path`` is the format.

    .npy and .parquet are streamed, the others collected in memory first.

    Parameters
    ----------
    path : path
        Where to write; the file is written atomically.
    rows : matrix, Embeddings, path, table or iterable of batches
        The rows, called ``embedding`` in the file. The number of batches need not be known.
    ids, captions, labels, groups : sequences, optional
        One entry per row, in the columns ``id``, ``caption``, ``label`` and ``group``.
    dtype : dtype, optional
        Values that do not fit it are refused.
    """
    columns = {"ids": ids, "captions": captions, "labels": labels, "groups": groups}
    with begun_embeddings(path, rows, dtype=dtype, **columns):
        pass


def begun_embeddings(
    path: str | os.PathLike[str], rows: Any, *, dtype: Any = None, **columns: Any
) -> ExitStack:
    """``write_embeddings`` but for its end: the rows are written, and not yet on the disk.

    Once what is given is closed, which waits for the disk, the file has its place.
    """
    singular = {kind.removesuffix("s"): values for kind, values in columns.items()}
    return _begun(path, {EMBEDDING: rows}, singular, {}, dtype)


def write_pair(
    path: str | os.PathLike[str],
    x: Any,
    y: Any,
    *,
    ids: Any = None,
    captions: Any = None,
    labels: Any = None,
    groups: tuple[Any, Any] | None = None,
    dtype: Any = None,
    names: tuple[str, str] = ("image", "text"),
) -> None:
    """Write two modalities into one file, each under its name; .npy stacks them as (2, n, d).

    .npy and .parquet need as many rows on both sides.

    Parameters
    ----------
    path, dtype
        As for ``write_embeddings``.
    x, y : matrices, Embeddings or iterables of batches
        The rows of the two modalities.
    ids, captions, labels : sequences, optional
        One entry per pair.
    groups : (gx, gy), optional
        One label per row of each side.
    names : pair of str
        What the two matrices are called in the file.
    """
    names = check_names(names)
    gx, gy = (None, None) if groups is None else groups
    x_group, y_group = (f"{name}_group" for name in names)
    columns = {"id": ids, "caption": captions, "label": labels, x_group: gx, y_group: gy}
    with _begun(path, {names[0]: x, names[1]: y}, columns, {x_group: 0, y_group: 1}, dtype):
        pass


def write_vectors(
    path: str | os.PathLike[str],
    vectors: Mapping[str, Any],
    *,
    ids: Any = None,
    captions: Any = None,
    labels: Any = None,
    dtype: Any = None,
) -> None:
    """Write several vectors of the same rows into one file, each under its name.

    Parameters
    ----------
    path, ids, captions, labels, dtype
        As for ``write_embeddings``.
    vectors : mapping of str to matrices, Embeddings or iterables of batches
        As many rows of each; their columns may differ.
    """
    columns = {"id": ids, "caption": captions, "label": labels}
    with _begun(path, vectors, columns, {}, dtype, one_space=False):
        pass


def _begun(
    path: str | os.PathLike[str],
    matrices: Mapping[str, Any],
    columns: Mapping[str, Any],
    owners: Mapping[str, int],
    dtype: Any,
    *,
    one_space: bool = True,
) -> ExitStack:
    target = Path(path)
    suffix = target.suffix.lower()
    if suffix not in WRITERS:
        raise InputValueError(f"{target} must end in {', '.join(WRITERS)}, got {suffix!r}.")
    checked = check_columns(columns)
    streams = {name: RowStream(rows, name, dtype) for name, rows in matrices.items()}
    dims = [stream.dim for stream in streams.values()]
    if one_space and len(set(dims)) > 1:
        raise InputValueError(
            f"{' and '.join(streams)} must have the same number of columns, "
            f"got {dims[0]} and {dims[1]}. Embed both with the same model."
        )
    with ExitStack() as begun:
        temporary = begun.enter_context(atomic_path(target))
        WRITERS[suffix](temporary, streams, checked)
        check_lengths(streams.values(), checked, owners)
        return begun.pop_all()
