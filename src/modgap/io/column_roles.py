"""Which columns of a file are the ids, captions, labels and groups of its rows: told by name.

The others are fields: what else is known of a row.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from modgap._validate import InputTypeError
from modgap.io._contents import Column

# Tried in this order.
COLUMN_NAMES: Mapping[str, tuple[str, ...]] = {
    "ids": ("id", "ids", "uid", "image_path"),
    "captions": ("caption", "captions", "text", "texts"),
    "labels": ("label", "labels"),
    "groups": ("group", "groups"),
}

_COMPANION_NAMES = frozenset(name for names in COLUMN_NAMES.values() for name in names)

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


def matrix_names(modality: str) -> list[str]:
    """What the matrix of a modality may be called.

    >>> matrix_names("audio")[:3]
    ['audio', 'audios', 'audio_features']
    """
    return [f"{name}{end}" for name in own_prefixes(modality) for end in _ENDINGS]


def own_prefixes(modality: str) -> tuple[str, ...]:
    """What the names of a modality's matrix and columns may start with."""
    return (modality, *_SHORT.get(modality, ()))


def companions(
    columns: Mapping[str, Column], n_rows: int, prefixes: Iterable[str] = ()
) -> dict[str, Column]:
    """The columns that describe the rows of one matrix, by kind.

    ``prefixes`` are the names of one side of a pair: ``text_groups`` goes before ``groups``, and
    a column without a prefix belongs to that side only if it has as many entries as it has rows.

    >>> column = Column(2, "int64", lambda: np.array([1, 2]))
    >>> list(companions({"y_labels": column, "ids": column}, 2, prefixes=("text", "y")))
    ['ids', 'labels']
    """
    prefixes = tuple(prefixes)
    found = {}
    for kind, names in COLUMN_NAMES.items():
        own = [f"{prefix}_{name}" for prefix in prefixes for name in names]
        shared = [name for name in names if not prefixes or _length(columns, name) == n_rows]
        for name in own + shared:
            if name in columns and (kind != "captions" or _is_text(columns[name])):
                found[kind] = columns[name]
                break
    return found


def fields(
    columns: Mapping[str, Column],
    n_rows: int,
    own: Iterable[str] = (),
    others: Iterable[str] = (),
) -> dict[str, Column]:
    """The columns that are none of the companions: a number, a truth value or a text for each row.

    Where a file holds several modalities, ``own`` are names of this one and ``others`` those of the
    rest: ``text_language`` is the field ``language`` of the texts, and no field of the images.

    >>> names = ("id", "year", "image_width", "text_language")
    >>> columns = {name: Column.of(np.array([1, 2])) for name in names}
    >>> list(fields(columns, 2, own=("image", "x"), others=("text", "y")))
    ['year', 'width']
    """
    used = {id(column) for column in companions(columns, n_rows, own).values()}
    found: dict[str, Column] = {}
    for name, column in columns.items():
        if id(column) in used or column.length != n_rows or not _is_plain(column.dtype):
            continue
        if _without(name, others) is not None:
            continue
        short = _without(name, own)
        found[name if short is None or short in columns else short] = column
    return found


def field_column(values: Any, name: str) -> Column:
    """A field that was given as a sequence."""
    try:
        array = np.asarray(values)
    except ValueError as error:  # lists of several lengths
        raise InputTypeError(f"Field {name!r} must have one value per row, got lists.") from error
    if array.ndim != 1 or not _is_plain(str(array.dtype)):
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


def _is_plain(dtype: str) -> bool:
    return _PLAIN.fullmatch(dtype) is not None


def _without(name: str, prefixes: Iterable[str]) -> str | None:
    """A name without the modality it begins with; None where it begins with none of them."""
    for prefix in prefixes:
        start, short = name[: len(prefix) + 1], name[len(prefix) + 1 :]
        # "x_min" and "y_min" are two fields of both modalities, "y_labels" are of one.
        if start == f"{prefix}_" and short and (len(prefix) > 1 or short in _COMPANION_NAMES):
            return short
    return None


def _length(columns: Mapping[str, Column], name: str) -> int | None:
    return columns[name].length if name in columns else None


def _is_text(column: Column) -> bool:
    # "text" may also name numbers: token ids, scores.
    dtype = column.dtype.removeprefix("large_")
    return dtype.startswith(("string", "dictionary", "<U", "|S", ">U", "object"))
