"""Which queries of a bank are a document's own: they must not count towards its hubness."""

from __future__ import annotations

import warnings

import numpy as np

from modgap.corrections.correction import Correction
from modgap.io import Embeddings
from modgap.io.keys import document_keys

_MISSING = {"id": "ids", "group": "labels of groups (--groups, or a column called group)"}


class OwnQueriesWarning(UserWarning):
    """Documents may be measured by queries of their own."""


def own_keys(
    correction: Correction, rows: Embeddings, modality: str, *, first_row: int = 0
) -> np.ndarray | None:
    """The keys of documents that are stored with a column of hubs; None where none are needed.

    A query of the bank that has the key of a document is left out of its hubness. It warns where
    the bank has keys that the rows do not say.

    Parameters
    ----------
    correction : Correction
        The one that maps the rows.
    rows : Embeddings
        The documents, with the ids or groups that the correction was fitted with; it may also go
        by row numbers, which are at hand.
    modality : str
        What they are.
    first_row : int
        The number of the first row, where rows go on with what was stored before.
    """
    hubs = correction.hubs
    if hubs is None or hubs.keys is None or hubs.keyed_by is None:
        return None
    keys = document_keys(rows, modality, hubs.keyed_by, first_row=first_row)
    if keys is None:
        warnings.warn(
            f"The {modality} rows have no {_MISSING[hubs.keyed_by]}, so queries of the bank that "
            "are their own are not left out of their hubness. Give them, unless these are rows "
            "that the correction was not fitted on.",
            OwnQueriesWarning,
            stacklevel=3,
        )
    return keys
