"""Which queries of a bank are a document's own: they must not count towards its hubness."""

from __future__ import annotations

import warnings

import numpy as np

from modgap._arrays import to_numpy
from modgap._validate import Array
from modgap.corrections.correction import Correction
from modgap.io import Embeddings
from modgap.io.group_keys import document_keys, row_keys
from modgap.moments.modality import moments_of

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


def keys_of_fitted_rows(correction: Correction, rows: Array, modality: str) -> np.ndarray | None:
    """The keys of rows in memory, where they are all that the correction was fitted on.

    It warns where keys are of ids or labels, which the rows alone do not have.

    Parameters
    ----------
    correction, modality
        As for ``own_keys``.
    rows : (n, d) array
        The documents, checked.
    """
    hubs, fitted = correction.hubs, correction.fitted.get(modality)
    if hubs is None or hubs.keys is None or fitted is None or len(rows) != fitted.n:
        return None
    found = moments_of(rows, modality, detail="mean", unit=correction.unit_rows)
    mean = found.unit_rows().mean if correction.unit_rows else found.given.mean
    spread = float(np.sqrt(np.sum(fitted.variance)))
    if float(np.linalg.norm(to_numpy(mean) - fitted.mean)) > 1e-5 * spread:
        return None
    if hubs.keyed_by == "row":
        return row_keys(fitted.n)
    if hubs.keyed_by == "own row":
        return row_keys(fitted.n, modality)
    warnings.warn(
        f"The {modality} rows are those that the correction was fitted on, and its bank has "
        f"queries of their own, known by {hubs.keyed_by}. Pass keys=data.keys_of({modality!r}), "
        "data being the Modalities it was fitted on, to leave them out of their hubness.",
        OwnQueriesWarning,
        stacklevel=4,
    )
    return None
