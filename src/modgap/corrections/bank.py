"""The bank of queries that a correction with hubs carries.

Which rows it holds, whether they are fit for it, and which of them are a document's own: those must
not count towards its hubness.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from modgap.arrays import to_numpy, top_mean
from modgap.core.checks import Array, InputValueError
from modgap.core.results import changed
from modgap.corrections.correction import Correction
from modgap.corrections.hubs import MIN_BANK, Hubs, kept_in_bank
from modgap.corrections.recognition import RecognitionWarning, recognise
from modgap.io import Embeddings, Modalities
from modgap.io.group_keys import document_keys, named_keys, row_keys
from modgap.moments.modality import moments_of_rows

# A bank whose hubs fall short of those of the query rows by more than this is foreign.
FOREIGN_BANK = 0.25
_SAMPLE, _DRAWS, _NEIGHBOURS = 1_000, 5, 10
# Over fewer documents, ten classes say, a rank correlation is chance.
_MIN_DOCUMENTS = 50


class ForeignBankWarning(RecognitionWarning):
    """A bank may not hold the kind of queries that are asked."""


def check_bank(correction: Correction, bank: Array | Embeddings, data: Modalities) -> None:
    """Refuse a bank that is too small, of another model or modality; warn of a foreign one.

    Parameters
    ----------
    correction : Correction
        The one it is to be used with, which knows the rows it was fitted on.
    bank : (n, d) array
        Queries as the model gives them.
    data : Modalities
        Documents, and query rows, like those of your users.
    """
    (asking,) = correction.queries
    source = Embeddings.of(bank, "bank")
    if source.n_rows < MIN_BANK:
        raise InputValueError(
            f"A bank must have at least {MIN_BANK} queries, got {source.n_rows}. "
            "Take a query log, or captions like the queries of your users."
        )
    if source.dim != correction.dim_in:
        raise InputValueError(
            f"The bank must have the {correction.dim_in} columns of the rows, got {source.dim}. "
            "Embed it with the same model."
        )
    bad = sum(int(np.sum(~np.isfinite(to_numpy(batch)).all(axis=1))) for batch in source.batches())
    if bad:
        rows = "1 row" if bad == 1 else f"{bad} rows"
        raise InputValueError(f"The bank has {rows} with NaN or infinity. Drop them.")
    found = recognise(correction, source, asking, "query")
    if found.refused:
        said = found.sentence.replace(f"The {asking} rows", "its rows", 1)
        raise InputValueError(f"The bank cannot be used as {asking} queries: {said}")
    short = shortfall(correction, source, data)
    if short > FOREIGN_BANK:
        warnings.warn(
            f"The bank finds other hubs than the {asking} rows of the data do (their rank "
            f"correlation is {short:.2f} below that of two draws of these rows; {FOREIGN_BANK} is "
            "the limit): it may not hold the kind of queries that are asked, and hubs may then "
            "cost recall.",
            ForeignBankWarning,
            stacklevel=3,
        )


def shortfall(correction: Correction, bank: Array | Embeddings, data: Modalities) -> float:
    """How far the hubs that a bank finds are from those that the rows which ask find.

    ρ₀ − ρ: ρ is the rank correlation, over documents, of their hubness by the bank and by a draw of
    the query rows; ρ₀ that of two such draws. About 0 for queries of the same kind, and above
    0.25 for at most 3 % of proper banks and most foreign ones, see hubs.md. NaN where there
    are too few rows to tell.

    Parameters
    ----------
    correction, bank, data
        As for ``check_bank``.
    """
    from scipy.stats import rankdata

    (asking,) = correction.queries
    rng = np.random.default_rng(0)
    given, rows = _sample(bank, "bank", rng), _sample(data.queries_of(asking), asking, rng)
    size = min(len(given), len(rows) // 2)
    if size < MIN_BANK // 2:
        return float("nan")
    documents = np.concatenate(
        [
            to_numpy(correction.affine(name).mapped(_sample(side, name, rng), name))
            for name, side in data.sides.items()
            if name != asking
        ]
    )
    if len(documents) < _MIN_DOCUMENTS:
        return float("nan")
    k = min(_NEIGHBOURS, size // 2)
    mapped = {
        "bank": to_numpy(correction.affine(asking, "query").mapped(given, "bank")),
        "rows": to_numpy(correction.affine(asking, "query").mapped(rows, asking)),
    }

    def hubness(of: str, chosen: np.ndarray) -> np.ndarray:
        return rankdata(top_mean(documents, mapped[of][chosen], k))

    shorts = []
    for _ in range(_DRAWS):
        drawn = rng.permutation(len(rows))[: 2 * size]
        first, second = hubness("rows", drawn[:size]), hubness("rows", drawn[size:])
        other = hubness("bank", rng.permutation(len(given))[:size])
        if any(np.ptp(one) == 0 for one in (first, second, other)):
            return float("nan")  # all documents alike
        same, strange = (np.corrcoef(first, one)[0, 1] for one in (second, other))
        shorts.append(same - strange)
    return float(np.mean(shorts))


def _sample(rows: Any, name: str, rng: np.random.Generator) -> np.ndarray:
    side = Embeddings.of(rows, name)
    chosen = np.sort(rng.permutation(side.n_rows)[:_SAMPLE])
    return to_numpy(side.take(chosen))


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
    chosen = kept_in_bank(source.n_rows)
    keys: Any = None
    if not given:
        keys = data.query_keys(asking)
    elif data.keyed_by in ("id", "group"):  # a bank may say whose queries its rows are
        keys = document_keys(source, asking, data.keyed_by)
    mapped = correction.affine(asking, "query").mapped(source.take(chosen), "bank")
    hubs = Hubs(
        float(weight),
        int(neighbours),
        to_numpy(mapped),
        None if keys is None else keys[chosen],
        None if keys is None else data.keyed_by,
    )
    return changed(correction, hubs=hubs)


_MISSING = {"id": "ids", "group": "labels of groups (--groups, or a column called group)"}


class OwnQueriesWarning(UserWarning):
    """Documents may be measured by queries of their own."""


def own_keys(
    correction: Correction,
    rows: Embeddings,
    modality: str,
    *,
    first_row: int = 0,
    numbers: Sequence[int | str] | None = None,
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
    numbers : sequence of int or str, optional
        Instead of it, the number of each row; what is no number has none.
    """
    hubs = correction.hubs
    if hubs is None or not hubs.weight or hubs.keys is None or hubs.keyed_by is None:
        return None
    if numbers is not None and hubs.keyed_by in ("row", "own row"):
        return named_keys([str(number) for number in numbers], modality, hubs.keyed_by)
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
    if hubs is None or not hubs.weight or hubs.keys is None:
        return None
    if fitted is None or len(rows) != fitted.n:
        return None
    found = moments_of_rows(rows, modality, detail="mean", unit=correction.unit_rows)
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
