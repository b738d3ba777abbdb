"""What an index may be given: rows that fit its correction, ids, and files of named modalities."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from modgap.core.checks import InputTypeError, InputValueError, check_choice
from modgap.corrections import Correction, Role
from modgap.index.hits import Id, IdType
from modgap.index.stored_vectors import check_storable
from modgap.io import Embeddings, open_embeddings, open_pair
from modgap.io.formats.tables import is_opened


def as_embeddings(
    rows: Any, modality: str, correction: Correction, role: Role = "document"
) -> Embeddings:
    """Rows of a modality of the correction, with as many columns as it takes in this role."""
    check_choice(modality, "modality", correction.names)
    if is_opened(rows):
        rows = Embeddings.of(rows, modality)
    found = rows if isinstance(rows, Embeddings) else Embeddings.from_array(rows, source=modality)
    taken = correction.maps.get((modality, role), correction.maps[modality, "document"])
    if found.dim != taken.dim_in:
        raise InputValueError(
            f"The correction is for rows of {taken.dim_in} columns, but {modality} has "
            f"{found.dim}. It must be fitted on embeddings of the same model."
        )
    return found


def check_ids(ids: Any, n_rows: int, modality: str) -> tuple[list[Id], IdType]:
    """One id per row, no two alike, all of them whole numbers or all text."""
    given = np.asarray(ids)
    if given.ndim != 1 or len(given) != n_rows:
        raise InputValueError(
            f"ids must have one entry per row of {modality}: {n_rows} rows, got shape "
            f"{given.shape}."
        )
    keys: list[Any] = given.tolist()
    types = {type(key) for key in keys}
    # NumPy makes text of numbers that stand beside text.
    listed = isinstance(ids, (list, tuple))
    mixed = listed and types == {str} and not all(isinstance(key, str) for key in ids)
    if types not in ({int}, {str}) or mixed:
        what = "both" if mixed else given.dtype
        raise InputTypeError(f"ids must all be whole numbers or all be text, got {what}.")
    if types == {int} and max(keys) >= 2**63:
        raise InputValueError("ids must be below 2**63. Pass larger ones as text.")
    if types == {str}:
        check_storable(keys, "An id")
    (key, times), *_ = Counter(keys).most_common(1)
    if times > 1:
        raise InputValueError(
            f"ids must be unique within {modality}, but {key!r} comes more than once."
        )
    return keys, "int" if types == {int} else "str"


def check_id_types(types: Mapping[str, IdType]) -> None:
    """Refuse ids of an index that are whole numbers here and text there."""
    words = {"int": "whole numbers", "str": "text"}
    (first, kind), *others = types.items()
    for name, other in others:
        if other != kind:
            raise InputTypeError(
                f"The ids of {first} are {words[kind]}, got {words[other]} for {name}."
            )


def stored_lines(sources: Mapping[str, Embeddings], stored: Mapping[str, int]) -> list[str]:
    """How many documents of each modality were stored, and how many were there before."""
    lines = []
    for name, count in stored.items():
        there = sources[name].n_rows - count
        kept = f", {there:,} were there already" if there else ""
        lines.append(f"stored {count:,} documents of {name}{kept}")
    return lines


def open_documents(
    given: Sequence[str],
    correction: Correction,
    *,
    column: str | None = None,
    groups: str | Mapping[str, str] | None = None,
    ids: str | Mapping[str, str] | None = None,
    role: Role = "document",
) -> dict[str, Embeddings]:
    """The embeddings of each modality, from ``modality=path`` texts or one file of both.

    Parameters
    ----------
    given : sequence of str
        ``image=image.npy`` and so on, or the path of one file that holds both modalities.
    correction : Correction
        Names the modalities, and says how many columns the rows must have.
    column : str, optional
        Array or column to read, where each modality has a file of its own.
    groups : str or mapping of str to str, optional
        Labels by which the correction was fitted, where its bank goes by groups: the name of a
        column, or a file; one for all modalities or for each by name. Columns called ``group`` are
        found without it.
    ids : str or mapping of str to str, optional
        The same for what the documents are called; columns called ``id`` are found without it.
    role : {"document", "query"}
        What they are; queries may have other columns, those of a newer model.
    """
    names = correction.names
    labels, called = (
        dict.fromkeys(names, one) if isinstance(one, str) else dict(one or {})
        for one in (groups, ids)
    )
    found: dict[str, Embeddings] = {}
    if len(given) == 1 and "=" not in given[0] and len(names) == 2:
        if column is not None:
            raise InputValueError(
                "column chooses from files of one modality. Name the modality of each, as in "
                f"{names[0]}={given[0]}, to use it."
            )
        if labels or called:
            raise InputValueError(
                "groups and ids name the labels of files of one modality. Name the modality of "
                f"each, as in {names[0]}={given[0]}, to use them."
            )
        pair = open_pair(given[0], names=(names[0], names[1]), paired=False)
        found = {names[0]: pair.x, names[1]: pair.y}
    else:
        for text in given:
            name, _, path = text.partition("=")
            if not path:
                raise InputValueError(
                    f"Embeddings are given as MODALITY=PATH, such as {names[0]}=vectors.npy, got "
                    f"{text!r}."
                )
            check_choice(name, "modality", names)
            if name in found:
                raise InputValueError(f"{name} is given twice. Put its rows into one file.")
            found[name] = open_embeddings(
                path, column=column, groups=labels.get(name), ids=called.get(name), modality=name
            )
    if not found:
        paths = " and ".join(f"{name}=PATH" for name in names)
        both = ", or one file of both" if len(names) == 2 else ""
        raise InputValueError(f"There is nothing to read: give {paths}{both}.")
    return {name: as_embeddings(rows, name, correction, role) for name, rows in found.items()}
