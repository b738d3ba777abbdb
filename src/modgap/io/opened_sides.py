"""Sides of opened files and tables: which column holds the rows, and which rows match."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from modgap.core.checks import InputValueError, check_modalities
from modgap.io._contents import Contents
from modgap.io._shards import BadShards
from modgap.io.column_roles import column_roles, own_column, own_prefixes
from modgap.io.embedded import pictures_inside
from modgap.io.embeddings import Embeddings
from modgap.io.file_formats import open_contents, open_together
from modgap.io.formats.clip_retrieval import EMBEDDED
from modgap.io.formats.tables import is_opened, is_table
from modgap.io.group_labels import find_groups
from modgap.io.long_tables import by_modality, of_modality, wanted_modalities
from modgap.io.modalities import Modalities, Thumbnail


@dataclass(frozen=True, eq=False)
class Source:
    """The rows of a modality: a matrix of a file, or ``rows`` in memory.

    Names of its columns may start with one of ``prefixes``.
    """

    contents: Contents
    column: str
    prefixes: tuple[str, ...] = ()
    rows: Embeddings | None = None

    def embeddings(self, *, alone: bool = True, others: Sequence[str] = ()) -> Embeddings:
        """The rows; ``alone`` where the file holds no other modality's.

        Names of columns that belong to other modalities start with one of ``others``.
        """
        if self.rows is not None:
            return self.rows
        matrix, columns = self.contents.matrix(self.column), self.contents.columns
        if not columns:
            return Embeddings(str(self.contents.path), matrix)
        own = () if alone else tuple(dict.fromkeys((self.column, *self.prefixes)))
        roles, fields = column_roles(columns, matrix.shape[0], own, others)
        return Embeddings(str(self.contents.path), matrix, roles, fields)


def open_sides(
    given: Mapping[str, Any],
    columns: Mapping[str, str | None],
    prefixes: Mapping[str, tuple[str, ...]],
    bad_shards: BadShards,
) -> dict[str, Source]:
    """The rows of each modality by name; a file or table that several share is opened once."""
    keys = {name: id(one) if is_table(one) else str(one) for name, one in given.items()}
    first_of = {key: name for name, key in reversed(keys.items())}
    once = {name: given[name] for name in given if first_of[keys[name]] == name}
    held = open_together(once, bad_shards)
    sources: dict[str, Source] = {}
    for name, one in given.items():
        if not is_opened(one):  # rows in memory have no columns that could be named
            sources[name] = Source(Contents(Path(name), {}), "", rows=Embeddings.of(one, name))
            continue
        contents = of_modality(held[first_of[keys[name]]], name)
        column = columns.get(name) or own_column(contents, name)
        sources[name] = Source(contents, column, prefixes[name])
    return sources


def open_modality(path: Any, modality: str, *, column: str | None = None) -> Embeddings:
    """The rows of one modality of a file, folder or table that may hold others as well.

    ``column`` is the name of the array or column, by default the one that is called like the
    modality, else the only one.
    """
    contents = of_modality(open_contents(path, modality), modality)
    found = column or own_column(contents, modality)
    source = Source(contents, found, own_prefixes(modality))
    return source.embeddings(alone=len(contents.embeddings) == 1)


def open_long(
    contents: Contents,
    column: str,
    embedding: str | None,
    names: tuple[str, ...] | None,
    groups: Any,
    paired: bool | None,
) -> Modalities:
    """The modalities of a long table, paired by group or by id, and not by place."""
    parts = wanted_modalities(by_modality(contents, column), names)
    if len(parts) < 2:
        raise InputValueError(
            f"{contents.path} must hold two modalities, but {column!r} says {', '.join(parts)} "
            "throughout. Pass the other modality as the second path or table."
        )
    check_modalities(tuple(parts))
    sources = {
        name: Source(part, embedding or part.only_embedding()) for name, part in parts.items()
    }
    return paired_up(sources, groups, paired, by_place=False)


def paired_up(
    sources: Mapping[str, Source], groups: Any, paired: bool | None, *, by_place: bool = True
) -> Modalities:
    """The modalities as one value: rows of one space, and which of them match."""
    sides: dict[str, Embeddings] = {}
    for name, source in sources.items():
        beside = [one for one in sources.values() if one.contents is source.contents]
        # Columns of other modalities of the same file start with their names.
        others = {prefix for one in beside for prefix in (one.column, *one.prefixes)}
        others -= {source.column, *source.prefixes}
        sides[name] = source.embeddings(alone=len(beside) == 1, others=tuple(others))
    (first, own), *rest = sides.items()
    for name, side in rest:
        if side.matrix.shape[1] != own.matrix.shape[1]:
            for one in (own, side):
                next(one.batches(), None)  # says so where its own rows differ in length
            raise InputValueError(
                f"{first} and {name} must have the same number of columns, "
                f"got {own.dim} and {side.dim}. Embed both with the same model."
            )
    labels = groups
    by_group = groups is not None or all("groups" in side.columns for side in sides.values())
    if by_group and paired is not False:
        labels = find_groups(groups, sides, {n: source.contents for n, source in sources.items()})
    found = Modalities.of_sides(sides, labels, paired, by_place=by_place)
    # Pictures of images that `modgap embed` embedded, where the images still are.
    thumbnails: dict[str, Thumbnail] = {}
    for name, source in sources.items():
        note, path = source.contents.note, source.contents.path
        if note is None or source.column != EMBEDDED["image"]:
            continue
        # Only what was named is fetched: no images from a store far away.
        if "ids" in sides[name].columns and isinstance(path, Path):
            picture = pictures_inside(note, sides[name], path)
            thumbnails |= {name: picture} if picture else {}
    return replace(found, thumbnails=thumbnails)
