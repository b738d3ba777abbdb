"""Open embeddings of any known format: one modality, two, or any number by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from modgap.core.checks import (
    InputTypeError,
    InputValueError,
    check_choice,
    check_modalities,
    check_names,
    did_you_mean,
)
from modgap.core.text import same_text
from modgap.io._shards import BadShards
from modgap.io.column_roles import own_column, own_prefixes, two_columns
from modgap.io.embeddings import Embeddings
from modgap.io.file_formats import open_contents
from modgap.io.formats.tables import is_opened
from modgap.io.group_labels import labels_of
from modgap.io.long_tables import MODALITY, modality_column_of, of_modality, refuse_long
from modgap.io.modalities import DEFAULT_NAMES, Modalities
from modgap.io.opened_sides import Source, open_long, open_sides, paired_up


def open_embeddings(
    path: Any,
    *,
    column: str | None = None,
    groups: str | None = None,
    ids: str | None = None,
    modality: str | None = None,
    bad_shards: BadShards = "refuse",
) -> Embeddings:
    """The rows of one modality in a file, a folder, at a URL or in a table.

    Files end in .npy, .npz, .safetensors, .pt, .pth or .parquet; a folder holds shards of Parquet,
    .npy or .npz, what clip-retrieval writes, a Lance dataset or a saved dataset of Hugging Face; a
    URL is any that fsspec knows; see inputs.md and shards.md. ``image.npy+text.npy`` are
    the fused rows of documents whose parts are in two files; see ``fuse``.

    Parameters
    ----------
    path : path or table
        The file, folder or table.
    column : str, optional
        The array or column, which may be left out where there is only one.
    groups : str, optional
        The column of the labels, or a file of them.
    ids : str, optional
        The same for what the rows are called; columns called ``id`` are found without it.
    modality : str, optional
        The modality to take of a table that has rows of several, one below the other.
    bad_shards : "refuse" or "skip"
        What to do about shards that cannot be used: name the first, or leave them all out, with a
        warning that says how many rows are missing; each shard is then read through once first.
    """
    contents = open_contents(path, bad_shards=bad_shards)
    if modality is None:
        refuse_long(contents)
    else:
        contents = of_modality(contents, modality)
    found = Source(contents, column or contents.only_embedding()).embeddings()
    for kind, given in (("groups", groups), ("ids", ids)):
        if given is not None:
            found = found.with_column(kind, labels_of(given, contents, found, kind))
    return found


def open_pair(
    path_x: Any,
    path_y: Any = None,
    *,
    x_column: str | None = None,
    y_column: str | None = None,
    modality_column: str | None = None,
    groups: Any = None,
    paired: bool | None = None,
    names: Sequence[str] = DEFAULT_NAMES,
    bad_shards: BadShards = "refuse",
) -> Modalities:
    """The rows of two modalities, in one file, folder, URL or table that holds both or in two.

    No row is read yet; ids are where both sides have their own. ``pairing`` of the result says how
    rows were paired.

    Parameters
    ----------
    path_x, path_y : paths or tables
        The files, folders, URLs or tables; one where it holds both. See docs/reference/inputs.md.
    x_column, y_column : str, optional
        The arrays or columns. In one file they are found by ``names``, or by the names in common
        use (``image_features`` and ``text_features`` …).
    modality_column : str, optional
        The column that says which modality a row is, in a table with a row for each document; see
        ``from_table``. A column called ``modality`` is found without it.
    groups : str, path, sequence or two of them, optional
        Which rows match: a column on both sides, a file with one label per row (see
        `modgap.io.group_labels`), or the labels. Without it, columns called ``group`` or
        ``groups`` are used where both sides have one; else ids, where both sides have them; else
        equal numbers of rows are pairs, row by row.
    paired : bool, optional
        False: rows are not pairs, even if their numbers are equal. True: they must be.
    names : pair of str
        What the modalities are called, by default as the file or folder says, if it does.
    bad_shards : "refuse" or "skip"
        As for ``open_embeddings``; a shard that is bad on one side is left out of both.
    """
    first, second = check_names(names)
    prefixes = {first: (first, "image", "img", "x"), second: (second, "text", "txt", "y")}
    if path_y is None:
        contents = open_contents(path_x, bad_shards=bad_shards)
        long = modality_column_of(contents, modality_column)
        if long is not None and y_column is None:
            wanted = None if tuple(names) == DEFAULT_NAMES else (first, second)
            return open_long(contents, long, x_column, wanted, groups, paired)
        if tuple(names) == DEFAULT_NAMES and contents.names is not None:
            prefixes = dict(zip(contents.names, prefixes.values(), strict=True))
        columns = two_columns(contents, x_column, y_column, (first, second))
        sources = {
            name: Source(contents, column, (name, *own))
            for column, (name, own) in zip(columns, prefixes.items(), strict=True)
        }
        return paired_up(sources, groups, paired)
    if modality_column is not None:
        raise InputValueError(
            "A column that says which modality a row is belongs to one table of all; give no "
            "second one beside it."
        )
    chosen = {first: x_column, second: y_column}
    sources = open_sides({first: path_x, second: path_y}, chosen, prefixes, bad_shards)
    return paired_up(sources, groups, paired)


def from_table(
    table: Any,
    *,
    modality: str = MODALITY,
    id: str | None = None,  # noqa: A002 - what the column is called
    embedding: str | None = None,
    groups: Any = None,
    paired: bool | None = None,
    names: Sequence[str] | None = None,
) -> Modalities:
    """The modalities of a long table: one row a document, and a column that says which it is.

    Rows of the same id match, whatever their order. Without ids or groups no rows do, even if
    there are as many of each modality.

    Parameters
    ----------
    table : table or path
        A DataFrame, an Arrow table, a Hugging Face dataset, or a file or folder.
    modality : str
        The column that names the modality of each row.
    id : str, optional
        The column whose values say which rows match; ``id``, ``ids`` or ``uid`` without it. One
        image may have several texts; several of both need ``groups``.
    embedding : str, optional
        The column of the vectors, where there is more than one.
    groups : str, path or mapping, optional
        A column of labels instead of ids; see ``open_pair``.
    paired : bool, optional
        False: rows are not pairs. True: those in the same place are, where no ids say otherwise.
    names : sequence of str, optional
        The modalities to take, in this order; all of them without it.

    >>> import pyarrow as pa
    >>> rows = {"modality": ["text", "image", "text"], "id": [7, 7, 8]}
    >>> data = from_table(pa.table({**rows, "embedding": [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]}))
    >>> data.names, data.pairing
    (('image', 'text'), 'by id: 1 of 1 image rows and 1 of 2 text rows match')
    """
    contents = open_contents(table)
    column = modality_column_of(contents, modality)
    assert column is not None
    if id is not None:
        if id not in contents.columns:
            raise InputValueError(
                f"{contents.path} has no column {id!r} of ids.{did_you_mean(id, contents.columns)} "
                f"It holds {contents.listing()}."
            )
        contents = replace(contents, columns={**contents.columns, "id": contents.columns[id]})
    wanted = None if names is None else check_modalities(tuple(names))
    return open_long(contents, column, embedding, wanted, groups, paired)


def open_modalities(
    paths: Mapping[str, Any],
    *,
    columns: Mapping[str, str] | None = None,
    groups: Any = None,
    paired: bool | None = None,
    bad_shards: BadShards = "refuse",
) -> Modalities:
    """The rows of two or more modalities, each in a file, folder, URL or table; some may share one.

    No row is read yet. ``pairing`` of the result says how rows were paired.

    Parameters
    ----------
    paths : mapping of str to paths or tables
        Where the rows of each modality are, by its name, such as
        ``{"image": "image.npy", "text": "text.npy", "audio": "audio.npy"}``.
    columns : mapping of str to str, optional
        The array or column of a modality. Without it, the one that is called like the modality
        (``audio``, ``audio_features`` …), else the only one.
    groups : str, path, or one for each modality, optional
        Which rows match: a column or a file of labels for all, or one for each, by name or in
        order, as for ``open_pair``.
    paired : bool, optional
        False: rows are not pairs, even if their numbers are equal. True: they must be.
    bad_shards : "refuse" or "skip"
        As for ``open_embeddings``; a shard that is bad in one modality is left out of all.
    """
    chosen = {same_text(name): column for name, column in (columns or {}).items()}
    names = check_modalities(tuple(paths))
    given = dict(zip(names, paths.values(), strict=True))
    for name in chosen:
        check_choice(name, "modality", names)
    sources = open_sides(given, chosen, {name: own_prefixes(name) for name in names}, bad_shards)
    seen: dict[tuple[int, str], str] = {}
    for name, source in sources.items():
        key = id(source.contents), source.column
        if key in seen:
            raise InputValueError(
                f"{seen[key]} and {name} are both {source.column!r} of {source.contents.path}. "
                "Give each a file, or an array or column of its own."
            )
        seen[key] = name
    return paired_up(sources, groups, paired)


def open_queries(
    data: Modalities,
    paths: Mapping[str, Any],
    groups: Mapping[str, Any] | None = None,
) -> Modalities:
    """The same data, asked by queries of their own; see ``Modalities.with_queries``.

    Parameters
    ----------
    data : Modalities
        The documents.
    paths : mapping of str to paths or tables
        Where the queries of a modality are, by its name.
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
        contents = of_modality(open_contents(path, f"{name} queries"), name)
        rows[name] = side = Source(contents, own_column(contents, name)).embeddings()
        if name in given:
            labels[name] = labels_of(given[name], contents, side)
        elif data.keyed_by == "group" and side.groups is not None:
            labels[name] = side.groups
        elif data.keyed_by == "id" and side.ids is not None:
            labels[name] = side.ids
    return data.with_queries(rows, labels)


# Names of parameters, which say nothing about the modality.
_PARAMETERS = ("X", "Y", "rows")


def rows_of(given: Any, name: str) -> Any:
    """The whole rows of one modality; arrays and the like as they are."""
    if isinstance(given, Modalities):
        first = given.names[0]
        raise InputTypeError(
            f"{name} must be the rows of one modality, got Modalities of "
            f"{' and '.join(given.names)}. Pass one: data.sides[{first!r}]."
        )
    if is_opened(given) and name in _PARAMETERS:
        return open_embeddings(given).rows()
    if is_opened(given) or isinstance(given, Embeddings):
        return Embeddings.of(given, name).rows()
    return given


def batches_of(given: Any, name: str) -> Any:
    """The rows of one modality in batches; arrays and the like as they are."""
    if is_opened(given) or isinstance(given, Embeddings):
        return Embeddings.of(given, name).batches()
    return given


def two_of(X: Any, Y: Any, names: Sequence[str], *, matched: bool) -> tuple[Any, Any]:
    """The whole rows of two modalities; see `modgap.core.door.opened_two`."""
    has_ids = isinstance(X, Embeddings | Modalities | Mapping) or isinstance(Y, Embeddings)
    if Y is not None and not (has_ids or is_opened(X) or is_opened(Y)):
        return X, Y
    called = DEFAULT_NAMES if tuple(names) == ("X", "Y") else tuple(names)
    data = X
    if not isinstance(X, Modalities) or Y is not None:
        data = Modalities.of(X, Y, called, paired=None if matched else False)
    if not matched:
        return data.X, data.Y
    if not data.paired:
        sizes = " and ".join(str(side.n_rows) for side in data.two())
        raise InputValueError(
            f"It must be known which rows of {' and '.join(data.names)} match, and it is not "
            f"({sizes} rows). Give both an id, or use modgap.open_pair(…, groups=…)."
        )
    pairs = data.pairs()
    return pairs.X, pairs.Y
