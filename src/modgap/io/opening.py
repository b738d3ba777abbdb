"""Open embeddings of any known format: one modality, two, or any number by name."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from modgap._validate import InputValueError, check_choice, check_modalities, check_names
from modgap.io._contents import Contents, listed
from modgap.io.clip_retrieval import (
    EMBEDDED,
    in_order,
    is_clip_retrieval,
    open_clip_retrieval,
    open_npy_shards,
)
from modgap.io.companions import PAIR_NAMES, companions, fields, matrix_names, own_prefixes
from modgap.io.embedded import pictures
from modgap.io.embeddings import Embeddings
from modgap.io.fusing import open_fused
from modgap.io.groups import find_groups, labels_of
from modgap.io.modalities import DEFAULT_NAMES, Modalities, Thumbnail
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
    .npy shards, or what clip-retrieval writes. ``image.npy+text.npy`` are the fused rows of
    documents whose parts are in two files; see ``fuse``. ``column`` is the name of the array or
    column, and may be left out where there is only one; ``groups`` that of the labels, or a file of
    them.
    """
    contents = open_contents(path)
    name = contents.only_embedding() if column is None else column
    matrix = contents.matrix(name)
    n_rows, columns = matrix.shape[0], contents.columns
    found = Embeddings(
        str(contents.path), matrix, companions(columns, n_rows), fields(columns, n_rows)
    )
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
        What the modalities are called, by default as the file or folder says, if it does.
    """
    first, second = check_names(names)
    x_contents = open_contents(path_x)
    if path_y is None and tuple(names) == DEFAULT_NAMES and x_contents.names is not None:
        first, second = x_contents.names
    if path_y is None:
        y_contents = x_contents
        columns = _two_columns(x_contents, x_column, y_column, (first, second))
    else:
        y_contents = open_contents(path_y)
        columns = (
            x_contents.only_embedding() if x_column is None else x_column,
            y_contents.only_embedding() if y_column is None else y_column,
        )
    return _paired_up(
        {
            first: _Source(x_contents, columns[0], (first, "image", "img", "x")),
            second: _Source(y_contents, columns[1], (second, "text", "txt", "y")),
        },
        groups,
        paired,
    )


def open_modalities(
    paths: Mapping[str, str | os.PathLike[str]],
    *,
    columns: Mapping[str, str] | None = None,
    groups: Any = None,
    paired: bool | None = None,
) -> Modalities:
    """The rows of two or more modalities, each in a file or folder; several may share one.

    No row is read yet. ``pairing`` of the result says how rows were paired.

    Parameters
    ----------
    paths : mapping of str to paths
        The file or folder of each modality by its name, such as
        ``{"image": "image.npy", "text": "text.npy", "audio": "audio.npy"}``.
    columns : mapping of str to str, optional
        The array or column of a modality. Without it, the one that is called like the modality
        (``audio``, ``audio_features`` …), else the only one.
    groups : str, path, or one for each modality, optional
        Which rows match: a column or a file of labels for all, or one for each, by name or in
        order, as for ``open_pair``.
    paired : bool, optional
        False: rows are not pairs, even if their numbers are equal. True: they must be.
    """
    names, chosen = check_modalities(tuple(paths)), columns or {}
    for name in chosen:
        check_choice(name, "modality", names)
    held = {path: open_contents(path) for path in dict.fromkeys(map(Path, paths.values()))}
    sources: dict[str, _Source] = {}
    for name in names:
        contents = held[Path(paths[name])]
        column = chosen.get(name) or _own_column(contents, name)
        for other, source in sources.items():
            if source.contents is contents and source.column == column:
                raise InputValueError(
                    f"{other} and {name} are both {column!r} of {contents.path}. Give each a file, "
                    "or an array or column of its own."
                )
        sources[name] = _Source(contents, column, own_prefixes(name))
    return _paired_up(sources, groups, paired)


def open_queries(
    data: Modalities,
    paths: Mapping[str, str | os.PathLike[str]],
    groups: Mapping[str, Any] | None = None,
) -> Modalities:
    """The same data, asked by queries of their own; see ``Modalities.with_queries``.

    Parameters
    ----------
    data : Modalities
        The documents.
    paths : mapping of str to paths
        The file or folder with the queries of a modality, by its name.
    groups : mapping of str to columns, paths or labels, optional
        Which documents the queries of a modality match. Without it, a column called ``group`` or
        ``groups`` is used where documents are paired by group, and ids where they are by id.
    """
    given = dict(groups or {})
    for name in given:
        check_choice(name, "modality of queries", tuple(paths))
    rows: dict[str, Embeddings] = {}
    labels: dict[str, Any] = {}
    for name, path in paths.items():
        check_choice(name, "modality", data.names)
        contents = open_contents(path)
        source = _Source(contents, _own_column(contents, name), ())
        rows[name] = side = source.embeddings(alone=True)
        if name in given:
            labels[name] = labels_of(given[name], contents, side)
        elif data.keyed_by == "group" and side.groups is not None:
            labels[name] = side.groups
        elif data.keyed_by == "id" and side.ids is not None:
            labels[name] = side.ids
    return data.with_queries(rows, labels)


@dataclass(frozen=True, eq=False)
class _Source:
    """Where the rows of a modality are, and what names of its columns may start with."""

    contents: Contents
    column: str
    prefixes: tuple[str, ...]

    def embeddings(self, *, alone: bool, others: Sequence[str] = ()) -> Embeddings:
        """The rows; ``alone`` where the file holds no other modality's.

        Names of columns that belong to other modalities start with one of ``others``.
        """
        matrix, columns = self.contents.matrix(self.column), self.contents.columns
        own = () if alone else tuple(dict.fromkeys((self.column, *self.prefixes)))
        described = companions(columns, matrix.shape[0], own)
        beside = fields(columns, matrix.shape[0], own, others)
        return Embeddings(str(self.contents.path), matrix, described, beside)


def open_modality(
    path: str | os.PathLike[str], modality: str, *, column: str | None = None
) -> Embeddings:
    """The rows of one modality of a file or folder that may hold others as well.

    ``column`` is the name of the array or column, by default the one that is called like the
    modality, else the only one.
    """
    contents = open_contents(path)
    found = column or _own_column(contents, modality)
    source = _Source(contents, found, own_prefixes(modality))
    return source.embeddings(alone=len(contents.embeddings) == 1)


def _paired_up(sources: Mapping[str, _Source], groups: Any, paired: bool | None) -> Modalities:
    """The modalities as one value: rows of one space, and which of them match."""
    shared = Counter(id(source.contents) for source in sources.values())
    sides = {
        name: source.embeddings(
            alone=shared[id(source.contents)] == 1, others=_prefixes_of_others(source, sources)
        )
        for name, source in sources.items()
    }
    first, *others = sides
    for name in others:
        if sides[name].dim != sides[first].dim:
            raise InputValueError(
                f"{first} and {name} must have the same number of columns, "
                f"got {sides[first].dim} and {sides[name].dim}. Embed both with the same model."
            )
    labels = groups
    if paired is not False:
        labels = find_groups(groups, sides, {n: source.contents for n, source in sources.items()})
    found = Modalities.of(sides, groups=labels, paired=paired)
    return replace(found, thumbnails=_thumbnails(sources, sides))


def _prefixes_of_others(source: _Source, sources: Mapping[str, _Source]) -> tuple[str, ...]:
    """What names of columns start with that belong to other modalities of the same file."""
    return tuple(
        prefix
        for other in sources.values()
        if other is not source and other.contents is source.contents
        for prefix in (other.column, *other.prefixes)
        if prefix not in source.prefixes
    )


def _thumbnails(
    sources: Mapping[str, _Source], sides: Mapping[str, Embeddings]
) -> dict[str, Thumbnail]:
    """Pictures of images that `modgap embed` embedded, where the images still are."""
    found: dict[str, Thumbnail] = {}
    for name, source in sources.items():
        note, side = source.contents.note, sides[name]
        if note is not None and "ids" in side.columns and source.column == EMBEDDED["image"]:
            picture = pictures(note, side, source.contents.path)
            found |= {name: picture} if picture else {}
    return found


def open_contents(path: str | os.PathLike[str]) -> Contents:
    """Everything a file or folder holds, by name."""
    path = Path(path)
    if path.is_dir():
        return _open_folder(path)
    if parts := fused_parts(path):
        return open_fused(path, open_contents(parts[0]), open_contents(parts[1]))
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


def fused_parts(path: str | os.PathLike[str]) -> tuple[Path, Path] | None:
    """The two files of "image.npy+text.npy", where there is no file of that name."""
    first, plus, second = str(path).partition("+")
    if not plus or Path(path).exists() or not (Path(first).exists() and Path(second).exists()):
        return None
    return Path(first), Path(second)


def _open_folder(folder: Path) -> Contents:
    if is_clip_retrieval(folder):
        return open_clip_retrieval(folder)
    if shards := in_order(folder, ".parquet"):
        return open_parquet(shards, folder)
    if in_order(folder, ".npy"):
        return open_npy_shards(folder)
    raise InputValueError(
        f"{folder} must be a folder of .parquet shards, of .npy shards, or one that clip-retrieval "
        "wrote (img_emb, text_emb, metadata), got none of these. Pictures are embedded first: "
        f"modgap embed MODEL {folder} -o rows"
    )


def _own_column(contents: Contents, modality: str) -> str:
    """The matrix that is called like the modality, else the only one."""
    named = [name for name in matrix_names(modality) if name in contents.embeddings]
    return named[0] if named else contents.only_embedding()


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
