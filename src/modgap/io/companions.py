"""Which columns of a file are the ids, captions, labels and groups of its rows: told by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from modgap.io._contents import Column

# Tried in this order.
COLUMN_NAMES: Mapping[str, tuple[str, ...]] = {
    "ids": ("id", "ids", "uid", "image_path"),
    "captions": ("caption", "captions", "text", "texts"),
    "labels": ("label", "labels"),
    "groups": ("group", "groups"),
}

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

    >>> import numpy as np
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


def _length(columns: Mapping[str, Column], name: str) -> int | None:
    return columns[name].length if name in columns else None


def _is_text(column: Column) -> bool:
    # "text" may also name numbers: token ids, scores.
    dtype = column.dtype.removeprefix("large_")
    return dtype.startswith(("string", "dictionary", "<U", "|S", ">U", "object"))
