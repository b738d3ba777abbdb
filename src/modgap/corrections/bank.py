"""The bank of queries that a correction with hubs carries: which rows, and are they fit for it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from modgap._arrays import to_numpy
from modgap._validate import Array, InputValueError
from modgap.corrections.correction import Correction
from modgap.corrections.hubs import MAX_BANK, MIN_BANK, Hubs
from modgap.corrections.recognise import check_recognised
from modgap.io import Embeddings, Modalities
from modgap.io.keys import document_keys


def with_hubs(
    correction: Correction,
    data: Modalities,
    weight: float,
    neighbours: int,
    bank: Array | Embeddings | None = None,
) -> Correction:
    """The correction with a column of hubs, from a bank of the queries that it serves.

    Parameters
    ----------
    correction : Correction
        One that ranks by inner product and serves the queries of one modality.
    data : Modalities
        Where the bank comes from unless given: the rows of that modality which ask.
    weight, neighbours : float and int
        α and k: α times the mean of a document's k largest scores is subtracted.
    bank : (n, d) array, optional
        Unlabelled queries as the model gives them. At most 2,000 are kept, spread over them.
    """
    (asking,) = correction.queries
    given = bank is not None
    source = Embeddings.of(bank, "bank") if given else data.queries_of(asking)
    if source.n_rows < MIN_BANK:
        raise InputValueError(
            f"A bank must have at least {MIN_BANK} queries, got {source.n_rows}. "
            "Take a query log, or captions of the kind that will be asked."
        )
    if source.dim != correction.dim_in:
        raise InputValueError(
            f"The bank must have the {correction.dim_in} columns of the rows, got {source.dim}. "
            "Embed it with the same model."
        )
    if given:
        check_recognised(correction, source, asking, role="query")
    chosen = _spread_out(source.n_rows)
    keys: Any = None
    if not given:
        keys = data.query_keys(asking)
    elif data.keyed_by in ("id", "group"):  # a bank may say whose queries its rows are
        keys = document_keys(source, asking, data.keyed_by)
    mapped = correction.affine(asking, "query")(source.take(chosen), "bank")
    hubs = Hubs(
        float(weight),
        int(neighbours),
        to_numpy(mapped),
        None if keys is None else keys[chosen],
        None if keys is None else data.keyed_by,
    )
    return replace(correction, hubs=hubs)


def _spread_out(n: int) -> np.ndarray:
    """At most as many rows as a bank may have, evenly over all."""
    return np.unique(np.round(np.linspace(0, n - 1, min(n, MAX_BANK))).astype(np.int64))
