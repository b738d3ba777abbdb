"""Open embeddings of any known format: one modality, or two."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from modgap._validate import InputValueError, check_names
from modgap.io._contents import Contents, listed
from modgap.io.clip_retrieval import (
    in_order,
    is_clip_retrieval,
    open_clip_retrieval,
    open_npy_shards,
)
from modgap.io.companions import PAIR_NAMES, companions
from modgap.io.embeddings import Embeddings
from modgap.io.groups import find_groups, labels_of
from modgap.io.modalities import DEFAULT_NAMES, Modalities
from modgap.io.npy import open_npy
from modgap.io.npz import open_npz
from modgap.io.parquet import open_parquet
from modgap.io.safetensors_file import open_safetensors
from modgap.io.torch_file import open_torch

OPENERS: Mapping[str, Callable[[Path], Contents]] = {
    ".npy": open_npy,
    ".npz": open_npz,
    ".safetensors": open_safetensors,
    ".pt": open_torch,
    ".pth": open_torch,
    ".parquet": lambda path: open_parquet([path], path),
}


def open_embeddings(
    path: str | os.PathLike[str], *, column: str | None = None, groups: str | None = None
) -> Embeddings:
    """The rows of one modality in a file or folder.

    Files end in .npy, .npz, .safetensors, .pt, .pth or .parquet; a folder holds Parquet shards,
    .npy shards, or what clip-retrieval writes. ``column`` is the name of the array or column, and
    may be left out where there is only one; ``groups`` that of the labels, or a file of them.
    """
    contents = open_contents(path)
    name = contents.only_embedding() if column is None else column
    matrix = contents.matrix(name)
    held = companions(contents.columns, matrix.shape[0])
    found = Embeddings(str(contents.path), matrix, held)
    if groups is None:
        return found
    return found.with_column("groups", labels_of(groups, contents, found))


def open_pair(
    path_x: str | os.PathLike[str],
    path_y: str | os.PathLike[str] | None = None,
    *,
    x_column: str | None = None,
    y_column: str | None = None,
    groups: Any = None,
    paired: bool | None = None,
    names: Sequence[str] = DEFAULT_NAMES,
) -> Modalities:
    """The rows of two modalities, in one file or folder that holds both or in two.

    No row is read yet; ids are where both sides have their own. ``pairing`` of the result says how
    rows were paired.

    Parameters
    ----------
    path_x, path_y : paths
        The files or folders; one path where it holds both.
    x_column, y_column : str, optional
        The arrays or columns. In one file they are found by ``names``, or by the names in common
        use (``image_features`` and ``text_features`` …).
    groups : str, path, sequence or two of them, optional
        Which rows match: a column on both sides, a file with one label per row (see
        `modgap.io.groups`), or the labels. Without it, columns called ``group`` or ``groups`` are
        used where both sides have one; else ids, where both sides have them; else equal numbers
        of rows are pairs, row by row.
    paired : bool, optional
        False: rows are not pairs, even if their numbers are equal. True: they must be.
    names : pair of str
        What the modalities are called.
    """
    first, second = check_names(names)
    x_contents = open_contents(path_x)
    if path_y is None:
        y_contents = x_contents
        columns = _two_columns(x_contents, x_column, y_column, (first, second))
    else:
        y_contents = open_contents(path_y)
        columns = (
            x_contents.only_embedding() if x_column is None else x_column,
            y_contents.only_embedding() if y_column is None else y_column,
        )
    x = _side(x_contents, columns[0], (first, "image", "img", "x"), one_file=path_y is None)
    y = _side(y_contents, columns[1], (second, "text", "txt", "y"), one_file=path_y is None)
    if x.dim != y.dim:
        raise InputValueError(
            f"{first} and {second} must have the same number of columns, "
            f"got {x.dim} and {y.dim}. Embed both with the same model."
        )
    labels = groups
    if paired is not False:
        labels = find_groups(groups, (x, y), (x_contents, y_contents))
    return Modalities.of(x, y, (first, second), groups=labels, paired=paired)


def open_contents(path: str | os.PathLike[str]) -> Contents:
    """Everything a file or folder holds, by name."""
    path = Path(path)
    if path.is_dir():
        return _open_folder(path)
    if not path.exists():
        raise InputValueError(f"There is no file or folder {str(path)!r}. Check the path.")
    if path.suffix.lower() not in OPENERS:
        raise InputValueError(
            f"{path} must end in {', '.join(OPENERS)}, or be a folder of shards, "
            f"got {path.suffix!r}."
        )
    if path.stat().st_size == 0:
        raise InputValueError(f"{path} is empty (0 bytes). Write or download it again.")
    return OPENERS[path.suffix.lower()](path)


def _open_folder(folder: Path) -> Contents:
    if is_clip_retrieval(folder):
        return open_clip_retrieval(folder)
    if shards := in_order(folder, ".parquet"):
        return open_parquet(shards, folder)
    if in_order(folder, ".npy"):
        return open_npy_shards(folder)
    raise InputValueError(
        f"{folder} must be a folder of .parquet shards, of .npy shards, or one that clip-retrieval "
        "wrote (img_emb, text_emb, metadata), got none of these."
    )


def _side(
    contents: Contents, column: str, prefixes: tuple[str, ...], *, one_file: bool
) -> Embeddings:
    matrix = contents.matrix(column)
    own = dict.fromkeys((column, *prefixes)) if one_file else ()
    return Embeddings(
        str(contents.path), matrix, companions(contents.columns, matrix.shape[0], own)
    )


def _two_columns(
    contents: Contents, x_column: str | None, y_column: str | None, names: tuple[str, str]
) -> tuple[str, str]:
    """The two matrices of one file: as told, else as their names tell."""
    if x_column is not None and y_column is not None:
        return x_column, y_column
    found = contents.embeddings
    if x_column is None and y_column is None:
        for pair in (contents.pair,) if contents.pair else ((*names,), *PAIR_NAMES):
            if all(name in found for name in pair):
                return pair[0], pair[1]
    elif len(found) == 2 and x_column is not None:
        return x_column, found[1] if found[0] == x_column else found[0]
    elif len(found) == 2 and y_column is not None:
        return found[1] if found[0] == y_column else found[0], y_column
    if len(found) < 2:
        raise InputValueError(
            f"{contents.path} must hold two modalities, got {contents.listing()}. "
            "Pass the file of the other modality as the second path."
        )
    raise InputValueError(
        f"{contents.path} does not say which matrix is which: it holds {listed(found)}. "
        "Choose with x_column and y_column (--x-column, --y-column)."
    )
