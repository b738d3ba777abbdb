"""Finds by name which matrix is which modality, and which columns are ids, captions and so on.

Other columns are fields of a row, such as a date or a source.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from modgap.core.checks import InputTypeError, InputValueError
from modgap.io._contents import Column, Contents, listed

# Tried in this order.
COLUMN_NAMES: Mapping[str, tuple[str, ...]] = {
    "ids": ("id", "ids", "uid", "image_path"),
    "captions": ("caption", "captions", "text", "texts"),
    "labels": ("label", "labels"),
    "groups": ("group", "groups"),
}

_ROLE_NAMES = frozenset(name for names in COLUMN_NAMES.values() for name in names)

# How names of matrices end, after the name of their modality.
_ENDINGS = ("", "s", "_features", "_embeddings", "_embedding", "_embeds", "_embed", "_emb")
# Other names of a modality.
_SHORT = {"image": ("img",), "text": ("txt",)}
# Names of matrices that say they belong together, the first tower's before the second's.
PAIR_NAMES: tuple[tuple[str, str], ...] = tuple(
    (f"{x}{end}", f"{y}{end}")
    for x, y in (("image", "text"), ("img", "txt"), ("img", "text"), ("x", "y"), ("X", "Y"))
    for end in _ENDINGS
)


def model_pairs(names: Sequence[str]) -> dict[str, tuple[str, str]]:
    """The matrices of both modalities of each model, whose names differ in the modality alone.

    >>> model_pairs(["b32_img", "b32_txt", "l14_img", "l14_txt"])
    {'b32': ('b32_img', 'b32_txt'), 'l14': ('l14_img', 'l14_txt')}
    """
    others = {"image": "text", "img": "txt"}
    found = {}
    for name in names:
        parts = name.split("_")
        for place, part in enumerate(parts):
            other = "_".join([*parts[:place], others.get(part, ""), *parts[place + 1 :]])
            if part in others and other in names:
                model = "_".join(parts[:place] + parts[place + 1 :])
                found[model] = (name, other)
    return found


def own_prefixes(modality: str) -> tuple[str, ...]:
    """What the names of a modality's matrix and columns may start with."""
    return (modality, *_SHORT.get(modality, ()))


def column_roles(
    columns: Mapping[str, Column], n_rows: int, own: Iterable[str] = (), others: Iterable[str] = ()
) -> tuple[dict[str, Column], dict[str, Column]]:
    """The ids, captions, labels and groups of the rows of one matrix; and its fields, by name.

    Where a file holds several modalities, ``own`` are names of this one and ``others`` those of the
    rest. ``text_groups`` goes before ``groups`` for the texts, and a column without a prefix
    belongs to a modality only if it has as many entries as that has rows. A field is a number, a
    truth value or a text for each row: ``text_language`` is the field ``language`` of the texts,
    and no field of the images.

    >>> names = ("id", "year", "image_width", "text_language", "text_label")
    >>> columns = {name: Column.of(np.array([1, 2])) for name in names}
    >>> roles, fields = column_roles(columns, 2, own=("text", "y"), others=("image", "x"))
    >>> list(roles), list(fields)
    (['ids', 'labels'], ['year', 'language'])
    """
    own = tuple(own)
    roles: dict[str, Column] = {}
    for role, names in COLUMN_NAMES.items():
        wanted = [f"{prefix}_{name}" for prefix in own for name in names] + [*names]
        for name in wanted:
            column = columns.get(name)
            if column is None or (role == "captions" and not _is_text(column)):
                continue
            if name not in names or not own or column.length == n_rows:
                roles[role] = column
                break
    fields: dict[str, Column] = {}
    used = {id(column) for column in roles.values()}
    for name, column in columns.items():
        if id(column) in used or column.length != n_rows or not _PLAIN.fullmatch(column.dtype):
            continue
        if _without(name, others) is None:
            short = _without(name, own)
            fields[name if short is None or short in columns else short] = column
    return roles, fields


def field_column(values: Any, name: str) -> Column:
    """A field that was given as a sequence."""
    try:
        array = np.asarray(values)
    except ValueError as error:  # lists of several lengths
        raise InputTypeError(f"Field {name!r} must have one value per row, got lists.") from error
    if array.ndim != 1 or not _PLAIN.fullmatch(str(array.dtype)):
        raise InputTypeError(
            f"Field {name!r} must have a number, a truth value or a text for every row, got "
            f"{array.dtype} of shape {array.shape}."
        )
    return Column.of(array)


# Names of dtypes in NumPy and in Arrow. Bytes in Arrow are pictures and the like.
_PLAIN = re.compile(
    r"bool|u?int\d+|float\d*|halffloat|double|decimal\d+\(.*\)|[<>=|]?[USM]\d*(\[.*\])?|object"
    r"|(large_)?string(_view)?|dictionary<values=.*|date\d+\[.*\]|timestamp\[.*\]"
    r"|datetime64.*"
)


def _without(name: str, prefixes: Iterable[str]) -> str | None:
    """A name without the modality it begins with; None where it begins with none of them."""
    for prefix in prefixes:
        start, short = name[: len(prefix) + 1], name[len(prefix) + 1 :]
        # "x_min" and "y_min" are two fields of both modalities, "y_labels" are of one.
        if start == f"{prefix}_" and short and (len(prefix) > 1 or short in _ROLE_NAMES):
            return short
    return None


def _is_text(column: Column) -> bool:
    # "text" may also name numbers: token ids, scores.
    dtype = column.dtype.removeprefix("large_")
    return dtype.startswith(("string", "dictionary", "<U", "|S", ">U", "object"))


def own_column(contents: Contents, modality: str) -> str:
    """The matrix that is called like the modality, else its own of the only model's, else the only.

    ``b32_img`` is the image's where ``b32_txt`` is beside it.
    """
    known = [f"{name}{end}" for name in own_prefixes(modality) for end in _ENDINGS]
    named = [name for name in known if name in contents.embeddings]
    if not named and len(models := model_pairs(contents.embeddings)) == 1:
        (pair,) = models.values()
        named = [name for name in pair if {*own_prefixes(modality)} & {*name.split("_")}]
    return named[0] if named else contents.only_embedding()


def two_columns(
    contents: Contents, x_column: str | None, y_column: str | None, names: tuple[str, str]
) -> tuple[str, str]:
    """The two matrices of one file."""
    if x_column is not None and y_column is not None:
        return x_column, y_column
    found = contents.embeddings
    if x_column is None and y_column is None:
        for pair in (contents.pair,) if contents.pair else ((*names,), *PAIR_NAMES):
            if all(name in found for name in pair):
                return pair[0], pair[1]
        if models := model_pairs(found):
            *others, pair = models.values()
            if not others:
                return pair
            raise InputValueError(
                f"{contents.path} holds rows of several models: {', '.join(models)}. "
                f"{_how_to_choose(*pair)}"
            )
    elif len(found) == 2 and x_column is not None:
        return x_column, found[1] if found[0] == x_column else found[0]
    elif len(found) == 2 and y_column is not None:
        return found[1] if found[0] == y_column else found[0], y_column
    if not found:
        raise InputValueError(
            f"{contents.path} must hold two modalities as rows of floats, got "
            f"{contents.listing()}. {contents.how_to_get_rows()}"
        )
    if len(found) < 2:
        raise InputValueError(
            f"{contents.path} must hold two modalities, got {contents.listing()}. "
            "Pass the other modality as the second path or table, or name the column that says "
            "which modality a row is: modgap.open_pair(…, modality_column=…) (--modality-column)."
        )
    texts = [name for name in found if "text" in name or "txt" in name]
    rest = [name for name in found if name not in texts]
    x, y = (rest[0], texts[0]) if rest and texts else found[:2]
    raise InputValueError(
        f"{contents.path} does not say which matrix is which: it holds {listed(found)}. "
        f"{_how_to_choose(x, y)}"
    )


def _how_to_choose(x: str, y: str) -> str:
    return (
        f"Choose with modgap.open_pair(…, x_column={x!r}, y_column={y!r}) "
        f"(--x-column {x} --y-column {y})."
    )
