"""The one exact search: every other search is compared with it."""

from __future__ import annotations

from typing import Any

import numpy as np

from modgap.arrays import cached_blocks, like, paired_dots, to_numpy, top_k
from modgap.core.checks import Array, InputValueError, check_choice, check_count, check_same_space
from modgap.core.door import check_rows
from modgap.corrections import METRICS, Metric
from modgap.search.scores import document_bias, rows_to_multiply, to_scores


def search(
    queries: Array,
    documents: Array,
    k: int = 10,
    metric: Metric = "cosine",
    *,
    leave_out: Any = None,
    names: tuple[str, str] = ("queries", "documents"),
) -> tuple[np.ndarray, np.ndarray]:
    """Row numbers and scores of the k best documents of each query, best first.

    Looks at every document, in blocks. Equal scores go to the earlier document; what is near the
    k-th place is scored again in float64, so neither rounding nor block size changes a result.

    Parameters
    ----------
    queries, documents : (n, d) and (m, d) arrays
        Rows of any length.
    k : int
        How many documents to find; all of them where there are fewer.
    metric : {"cosine", "inner_product", "euclidean"}
        What the score is: the cosine, the inner product, or −‖q − d‖².
    leave_out : (n,) integers, optional
        For each query the row of a document that it must not find (itself, say), −1 for none.
    names : pair of str
        What errors call the queries and the documents.

    Returns
    -------
    rows, scores : (n, min(k, m)) arrays
        Where a query has fewer results, the row is −1 and the score −∞.

    >>> rows, scores = search([[0.0, 0.0]], [[0.0, 1.0], [3.0, 0.0]], 2, "euclidean")
    >>> rows.tolist(), scores.tolist()
    ([[0, 1]], [[-1.0, -9.0]])
    """
    check_count(k, "k")
    queries, documents = check_searched(queries, documents, metric, names)
    own = None if leave_out is None else np.asarray(leave_out)
    if own is not None and own.shape != (queries.shape[0],):
        raise InputValueError(
            f"leave_out must give one row number per query: {queries.shape[0]} queries, "
            f"got shape {own.shape}."
        )
    return best_documents(queries, documents, k, metric, own)


def best_documents(
    queries: Array, documents: Array, k: int, metric: Metric, own: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """``search`` in checked rows; ``own`` are the documents to leave out."""
    Q, D = rows_to_multiply(queries, documents, metric)
    if own is None:
        rows, products = top_k(Q, D, k, document_bias(D, metric))
        return rows, to_scores(products, Q, metric)
    rows, products = top_k(Q, D, k + 1, document_bias(D, metric))
    is_own = rows == own[:, None]
    # The row to leave out goes behind the others, where it is cut off or marked as missing.
    order = np.argsort(is_own, axis=1, kind="stable")[:, : min(k, D.shape[0])]
    gone = np.take_along_axis(is_own, order, axis=1)
    rows = np.where(gone, -1, np.take_along_axis(rows, order, axis=1))
    scores = to_scores(np.take_along_axis(products, order, axis=1), Q, metric)
    return rows, np.where(gone, -np.inf, scores)


def given_scores(
    queries: Array, documents: Array, asked_by: np.ndarray, metric: Metric
) -> np.ndarray:
    """The score (m,) of each document for the one query that asks for it, in checked rows.

    ``asked_by`` (m,) is the row of that query.
    """
    Q, D = rows_to_multiply(queries, documents, metric)
    bias = document_bias(D, metric)
    found = np.empty(D.shape[0])
    for rows in cached_blocks(D):
        asking = Q[like(asked_by[rows], Q)]
        products = to_numpy(paired_dots(asking, D[rows]))
        if bias is not None:
            products = products + to_numpy(bias[rows])
        found[rows] = to_scores(products[:, None], asking, metric)[:, 0]
    return found


def check_searched(
    queries: Any, documents: Any, metric: Metric, names: tuple[str, str]
) -> tuple[Array, Array]:
    """Rows of one space to search with and in; with a direction each where cosines rank them."""
    check_choice(metric, "metric", METRICS)
    nonzero = metric == "cosine"
    queries = check_rows(queries, names[0], nonzero=nonzero)
    documents = check_rows(documents, names[1], nonzero=nonzero)
    check_same_space(queries, documents, names)
    return queries, documents
