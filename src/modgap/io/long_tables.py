"""Long tables: one row a document of any modality, and a column that says which it is."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from modgap.core.checks import InputTypeError, InputValueError, did_you_mean
from modgap.core.text import same_text
from modgap.io._contents import Contents, listed

MODALITY = "modality"
# A column of more values says something else.
_MOST = 20
# Modalities are named in this order; others come between, as they come in the table.
_FIRST, _LAST = ("image", "img", "images"), ("text", "txt", "texts")
_BETWEEN = ("audio", "sound", "video", "fused")


def modality_column_of(contents: Contents, asked: str | None = None) -> str | None:
    """The column that says which modality a row has: the one asked for, else ``modality``.

    None where there is none, or where each modality has a column of vectors.
    """
    if asked is None:
        found = MODALITY in contents.columns and len(contents.embeddings) == 1
        return MODALITY if found else None
    if asked not in contents.columns:
        raise InputValueError(
            f"{contents.path} has no column {asked!r} of modalities."
            f"{did_you_mean(asked, contents.columns)} It holds {contents.listing()}."
        )
    return asked


def by_modality(contents: Contents, column: str) -> dict[str, Contents]:
    """The rows of each modality by its name, with all their columns."""
    values = contents.columns[column].load()
    if values.dtype.kind not in "UOiu":
        raise InputTypeError(
            f"{column!r} of {contents.path} must name the modality of each row, got {values.dtype}."
        )
    missing = [row for row, value in enumerate(values.tolist()) if value is None or value == ""]
    if missing:
        raise InputValueError(
            f"Every row of {contents.path} must have a modality, but {column!r} is missing in "
            f"row {missing[0]}. Drop such rows, or fill them in."
        )
    names, codes = np.unique(values.astype(str), return_inverse=True)
    if len(names) > _MOST:
        raise InputValueError(
            f"{column!r} of {contents.path} has {len(names):,} different values, {names[0]!r} for "
            f"instance: more than {_MOST} are no modalities. Name the column that says which "
            "modality a row is (modality=…, --modality-column)."
        )
    rows = {same_text(str(name)): np.flatnonzero(codes == k) for k, name in enumerate(names)}

    def place(name: str) -> tuple[int, int]:
        return 0 if name in _FIRST else 2 if name in _LAST else 1, int(rows[name][0])

    return {name: contents.subset(rows[name]) for name in sorted(rows, key=place)}


def of_modality(contents: Contents, name: str) -> Contents:
    """The rows of one modality, where a long table holds several; else all that there is."""
    if MODALITY not in contents.columns:
        return contents
    parts = _several(contents, name)
    return wanted_modalities(parts, (name,))[name] if parts else contents


def refuse_long(contents: Contents) -> None:
    """Refuse rows of several modalities where those of one are wanted."""
    if parts := _several(contents):
        names = list(parts)
        raise InputValueError(
            f"{contents.path} holds rows of {' and '.join(names)}, where one modality is expected. "
            f"Take one: modgap.open_embeddings(…, modality={names[0]!r})."
        )


def _several(contents: Contents, name: str | None = None) -> dict[str, Contents]:
    """The modalities of a long table; none where its rows are of one.

    Scans have a column of that name too, CT or MRI: it counts where it names modalities that are
    known, or the one that is wanted.
    """
    column = modality_column_of(contents)
    if column is None:
        return {}
    said = {str(value) for value in contents.columns[column].load().tolist()}
    known = said & {*_FIRST, *_BETWEEN, *_LAST, name}
    return by_modality(contents, column) if known and len(said) > 1 else {}


def wanted_modalities(
    parts: Mapping[str, Contents], names: tuple[str, ...] | None
) -> dict[str, Contents]:
    """The modalities of a long table that are wanted, in that order; all where none is named."""
    if names is None:
        return dict(parts)
    path = next(iter(parts.values())).path
    for name in names:
        if name not in parts:
            raise InputValueError(
                f"{path} has no rows of {name!r}.{did_you_mean(name, parts)} It has rows of "
                f"{listed(list(parts))}."
            )
    return {name: parts[name] for name in names}
