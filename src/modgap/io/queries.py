"""Queries that are not documents, and which documents they match."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from modgap._validate import Array, InputTypeError, InputValueError, check_choice
from modgap.io.embeddings import Embeddings
from modgap.io.group_keys import label_keys, row_keys

if TYPE_CHECKING:
    from modgap.io.modalities import Modalities


def queries_apart(
    data: Modalities, rows: Mapping[str, Array | Embeddings], labels: Mapping[str, Any]
) -> tuple[dict[str, Embeddings], dict[str, np.ndarray], np.ndarray]:
    """The queries of each modality, the codes of their groups, and the keys of all codes.

    Queries of no known group get codes that no document has.
    """
    documents = data.group_keys
    asking: dict[str, Embeddings] = {}
    keys: dict[str, np.ndarray] = {}
    for name, given in rows.items():
        check_choice(name, "modality", data.names)
        side = asking[name] = Embeddings.of(given, f"{name} queries", modality=name)
        if side.dim != data.dim:
            raise InputValueError(
                f"The {name} queries must have the {data.dim} columns of the documents, got "
                f"{side.dim}. Embed both with the same model."
            )
        keys[name] = row_keys(side.n_rows, f"{name} queries")
        if name in labels:
            keys[name] = _keys_of(data, labels[name], side.n_rows, name)
            if data.paired and not np.any(np.isin(keys[name], documents)):
                raise InputValueError(
                    f"No label of the {name} queries is one of the documents, which are paired "
                    f"{data.pairing}."
                )
    new = np.setdiff1d(np.concatenate([*keys.values(), documents[:0]]), documents)
    every = np.concatenate([documents, new])
    order = np.argsort(every)
    codes = {name: order[np.searchsorted(every, own, sorter=order)] for name, own in keys.items()}
    return asking, codes, every


def _keys_of(data: Modalities, labels: Any, n: int, name: str) -> np.ndarray:
    """The keys of the labels of queries, as those of the documents are made."""
    found = np.asarray(labels)
    if found.shape != (n,):
        raise InputValueError(
            f"groups must give one label per {name} query: {n} queries, got shape {found.shape}."
        )
    if data.keyed_by != "row":
        return label_keys(found)
    if found.dtype.kind not in "iu":
        raise InputTypeError(
            f"Documents are paired row by row, so the groups of {name} queries must be row "
            f"numbers, got {found.dtype}."
        )
    return found.astype(np.int64)
