"""What a correction does to approximate search: HNSW against exact search, graphs built alike.

HNSW walks from neighbour to neighbour. By inner product with rows of unequal length the graph is
poor: long rows are everybody's neighbour, short ones nobody's. `lift_documents` adds one column
that gives all documents the same length; queries get a zero there, so no inner product changes,
and Euclidean distance ranks as the inner product does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from modgap._arrays import to_numpy, unit
from modgap._results import Result
from modgap._validate import Array, InputValueError, check_count, check_names, check_two, require
from modgap.corrections import Calibrate, Center, Correction, Metric
from modgap.search import search


@dataclass(frozen=True)
class HnswRecall(Result):
    """Recall of one HNSW graph for queries of one modality, at each ``ef_search``.

    ``recall`` is the share of the k exact best documents, of the same corrected vectors and by the
    same metric, that the graph finds; ``comparisons`` how many documents a query was compared
    with. ``documents`` is what the graph holds: a modality's name or ``"mixed"``.
    """

    correction: str
    documents: str
    queries: str
    n_documents: int
    ef_search: tuple[int, ...]
    recall: tuple[float, ...]
    comparisons: tuple[float, ...]


def hnsw_recall(
    X: Array,
    Y: Array,
    corrections: Mapping[str, Correction] | None = None,
    *,
    k: int = 10,
    M: int = 32,
    ef_construction: int = 80,
    ef_search: Sequence[int] = (16, 32, 64, 128, 256),
    n_queries: int = 500,
    names: Sequence[str] = ("image", "text"),
    seed: int = 0,
) -> tuple[HnswRecall, ...]:
    """Recall@k of HNSW graphs built alike on raw and on corrected documents.

    For each correction three graphs are built: one per modality, asked by the other, and one of
    both, asked by each. ``n_queries`` rows of each side are held out as queries. ``corrections``
    are fitted ones by name, by default none (``"raw"``), `Center` and `Calibrate` in its form of
    d columns, (v − μ)/σ, fitted on the documents. Each is ranked by its own metric; those of
    inner products are measured a second time, lifted.
    """
    faiss = require("faiss", "faiss", "An HNSW graph")
    first, second = check_names(names)
    X, Y = (np.asarray(to_numpy(rows)) for rows in check_two(X, Y, names=(first, second)))
    check_count(n_queries, "n_queries", at_most=min(len(X), len(Y)) - 1)
    check_count(M, "M", at_least=2)
    check_count(ef_construction, "ef_construction")
    widths = tuple(check_count(width, "ef_search") for width in ef_search)
    rng = np.random.default_rng(seed)
    documents, queries = {}, {}
    for name, rows in ((first, X), (second, Y)):
        order = rng.permutation(len(rows))
        queries[name], documents[name] = rows[order[:n_queries]], rows[order[n_queries:]]
    check_count(k, "k", at_most=min(len(rows) for rows in documents.values()))
    if corrections is None:
        corrections = default_corrections(documents[first], documents[second], (first, second))
    found = []
    for label, correction in corrections.items():
        if set(correction.names) != {first, second}:
            raise InputValueError(
                f"The correction {label!r} is for {correction.names}, but the rows are "
                f"{(first, second)}."
            )
        stored = {name: correction.apply(rows, name) for name, rows in documents.items()}
        stored["mixed"] = np.concatenate([stored[first], stored[second]])
        asked = {name: correction.apply(rows, name, "query") for name, rows in queries.items()}
        kinds: list[tuple[str, Metric]] = [(label, correction.metric)]
        if correction.metric == "inner_product":
            kinds.append((f"{label}, lifted", "euclidean"))
        for kind, metric in kinds:
            for corpus, rows in stored.items():
                lifted = metric != correction.metric
                rows = lift_documents(rows) if lifted else rows
                graph = _graph(faiss, metric, rows, M, ef_construction)
                for asker in (first, second):
                    if asker == corpus:
                        continue
                    ask = lift_queries(asked[asker]) if lifted else asked[asker]
                    recall, comparisons = _ask(faiss, graph, metric, ask, rows, k, widths)
                    found.append(
                        HnswRecall(kind, corpus, asker, len(rows), widths, recall, comparisons)
                    )
    return tuple(found)


def lift_documents(rows: np.ndarray, length: float | None = None) -> np.ndarray:
    """Documents with one more column, √(length² − ‖v‖²), so that all are equally long.

    ``length`` is that of the longest row unless given; give a longer one if longer rows may come.

    >>> lift_documents(np.array([[3.0, 4.0], [3.0, 0.0]])).tolist()
    [[3.0, 4.0, 0.0], [3.0, 0.0, 4.0]]
    """
    squared = np.einsum("ij,ij->i", rows, rows, dtype=np.float64)
    top = float(squared.max())
    if length is not None:
        if length**2 < top:
            raise InputValueError(
                f"length must be at least that of the longest row, {top**0.5:.6g}, got {length}."
            )
        top = length**2
    column = np.sqrt(np.maximum(top - squared, 0.0)).astype(rows.dtype)
    return np.hstack([rows, column[:, None]])


def lift_queries(rows: np.ndarray) -> np.ndarray:
    """Queries with a zero in the added column."""
    return np.hstack([rows, np.zeros((len(rows), 1), dtype=rows.dtype)])


def default_corrections(
    X: np.ndarray, Y: np.ndarray, names: tuple[str, str]
) -> dict[str, Correction]:
    """None, centring, and calibration in the form of d columns."""
    return {
        "raw": Correction.identity(X.shape[1], names),
        "Center": Center().fit(X, Y, names=names).correction_,
        "Calibrate": Calibrate(form="compromise").fit(X, Y, names=names).correction_,
    }


def _graph(faiss: Any, metric: Metric, rows: np.ndarray, M: int, ef_construction: int) -> Any:
    by = faiss.METRIC_L2 if metric == "euclidean" else faiss.METRIC_INNER_PRODUCT
    graph = faiss.IndexHNSWFlat(rows.shape[1], M, by)
    graph.hnsw.efConstruction = ef_construction
    graph.add(_for_faiss(rows, metric))
    return graph


def _ask(
    faiss: Any,
    graph: Any,
    metric: Metric,
    queries: np.ndarray,
    rows: np.ndarray,
    k: int,
    widths: Sequence[int],
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    best, _ = search(queries, rows, k, metric)
    asked = _for_faiss(queries, metric)
    recall, comparisons = [], []
    for width in widths:
        graph.hnsw.efSearch = width
        faiss.cvar.hnsw_stats.reset()
        _, ids = graph.search(asked, k)
        comparisons.append(faiss.cvar.hnsw_stats.ndis / len(asked))
        same = [len(np.intersect1d(a, b)) for a, b in zip(ids, best, strict=True)]
        recall.append(float(np.sum(same)) / best.size)
    return tuple(recall), tuple(comparisons)


def _for_faiss(rows: np.ndarray, metric: Metric) -> np.ndarray:
    """Unit rows for cosines, else the rows, in the precision that FAISS takes."""
    return np.ascontiguousarray(unit(rows) if metric == "cosine" else rows, dtype=np.float32)
