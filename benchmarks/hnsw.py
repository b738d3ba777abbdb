"""What a correction does to approximate search: HNSW against exact search, graphs built alike.

    python benchmarks/hnsw.py            the table of databases.md, on made-up embeddings

HNSW walks from neighbour to neighbour. By inner product with rows of unequal length the graph is
poor: long rows are everybody's neighbour, short ones nobody's. `modgap.index.equal_lengths` adds
one column that gives all documents the same length; queries get a zero there, so no inner product
changes, and Euclidean distance ranks as the inner product does.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from modgap.arrays import to_numpy, unit
from modgap.core.checks import Array, InputValueError, check_count, check_names, require
from modgap.core.door import check_two
from modgap.core.results import Result
from modgap.corrections import Calibrate, Center, Correction, Metric, own_keys
from modgap.index import evaluate_index, open_index
from modgap.index.equal_lengths import lift_documents, lift_queries
from modgap.io import Embeddings
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
        asked = {
            name: correction.apply(rows, name, "query")
            for name, rows in queries.items()
            if name in correction.queries
        }
        kinds: list[tuple[str, Metric]] = [(label, correction.metric)]
        if correction.metric == "inner_product":
            kinds.append((f"{label}, lifted", "euclidean"))
        for kind, metric in kinds:
            for corpus, rows in stored.items():
                lifted = metric != correction.metric
                rows = lift_documents(rows) if lifted else rows
                graph = _graph(faiss, metric, rows, M, ef_construction)
                for asker in (first, second):
                    if asker == corpus or asker not in asked:
                        continue
                    ask = lift_queries(asked[asker]) if lifted else asked[asker]
                    recall, comparisons = _ask(faiss, graph, metric, ask, rows, k, widths)
                    found.append(
                        HnswRecall(kind, corpus, asker, len(rows), widths, recall, comparisons)
                    )
    return tuple(found)


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


def clip_like(
    n: int, d: int = 512, *, gap: float = 0.85, cone: float = 0.5, rank: int = 64, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Made-up pairs of unit rows that resemble CLIP's: a shared signal, a mean each, and noise.

    The means are ``gap`` apart and √``cone`` long, so that rows of one modality have a mean cosine
    of about ``cone``. A signal of ``rank`` directions with falling variances makes 0.6 of the rest,
    noise in all directions 0.4.
    """
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.normal(size=(d, rank + 2)))[0].T
    spread = np.arange(1, rank + 1) ** -0.5
    signal = rng.normal(size=(n, rank)) * spread / np.linalg.norm(spread) @ basis[:rank]
    sides = []
    for sign in (1, -1):
        mean = np.sqrt(cone - gap**2 / 4) * basis[rank] + sign * gap / 2 * basis[rank + 1]
        noise = rng.normal(size=(n, d)) / np.sqrt(d)
        rows = mean + np.sqrt(1 - cone) * (np.sqrt(0.6) * signal + np.sqrt(0.4) * noise)
        sides.append(unit(rows).astype(np.float32))
    return sides[0], sides[1]


def index_recall(
    documents: Mapping[str, np.ndarray],
    queries: np.ndarray,
    correction: Correction,
    *,
    ef_search: int = 64,
    k: int = 10,
    **options: Any,
) -> dict[str, float]:
    """Recall@k of text queries in a FAISS index as modgap builds it, in all and by modality."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.faiss"
        with open_index(path, correction, create=True, **options) as index:
            index.write_all(documents)
        with open_index(path, correction, ef_search=ef_search) as index:
            asked = {"text": queries}
            result = evaluate_index(index, documents, asked, k=k, sample=len(queries))
            found = {"all": result.exact_found["text"]}
            mapped = correction.apply(queries, "text", "query")
            for name, rows in documents.items():
                keys = own_keys(correction, Embeddings.of(rows, name), name)
                stored = correction.apply(rows, name, keys=keys)
                best, _ = search(mapped, stored, k, correction.metric)
                ids = index.search(queries, "text", k, only=name).ids
                same = [len({*a} & {*b}) for a, b in zip(ids.tolist(), best.tolist(), strict=True)]
                found[name] = float(np.mean(same)) / k
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=20_000, help="documents of each modality")
    parser.add_argument("--queries", type=int, default=500, help="texts to search with")
    parser.add_argument("--ef-search", type=int, default=64)
    options = parser.parse_args()
    X, Y = clip_like(options.rows + options.queries)
    documents = {"image": X[: options.rows], "text": Y[: options.rows]}
    queries = Y[options.rows :]
    means = [rows.mean(axis=0, dtype=np.float64) for rows in documents.values()]
    print(
        f"Made-up embeddings: {2 * options.rows:,} unit rows of {X.shape[1]} columns, gap "
        f"{np.linalg.norm(means[0] - means[1]):.2f}, mean cosine within a modality "
        f"{np.mean([m @ m for m in means]):.2f}; {len(queries)} text queries, recall@10 against "
        f"exact search, FAISS HNSW32, efSearch {options.ef_search}.\n"
    )
    raw = Correction.identity(X.shape[1], metric="cosine")
    fitted = Calibrate().fit(*documents.values()).correction_
    # Of unit rows the same vectors, but nothing bounds their length, so they are not lifted.
    plain = Calibrate().fit(*documents.values(), rows="given").correction_
    hubs = Calibrate(hubs=0.5).fit(*documents.values()).correction_
    width, wider = options.ef_search, 3 * options.ef_search // 2
    cases = {
        "raw, cosine; a graph each": (raw, False, width),
        "raw, cosine; one graph": (raw, True, width),
        "`Calibrate()`; a graph each (the default)": (fitted, False, width),
        "`Calibrate()`; one graph (`--one-graph`)": (fitted, True, width),
        "`Calibrate()`, a graph each of the d columns alone": (plain, False, width),
        "`Calibrate(hubs=0.5)`; a graph each": (hubs, False, width),
        f"`Calibrate(hubs=0.5)`; a graph each, efSearch {wider}": (hubs, False, wider),
    }
    print("| vectors; graphs | all results | images only | texts only |")
    print("|---|--:|--:|--:|", flush=True)
    for label, (correction, one_graph, ef_search) in cases.items():
        print(f"measuring {label} …", file=sys.stderr, flush=True)
        found = index_recall(
            documents, queries, correction, ef_search=ef_search,
            factory="HNSW32,Flat", one_graph=one_graph,
        )  # fmt: skip
        cells = " | ".join(f"{found[name]:.3f}" for name in ("all", "image", "text"))
        print(f"| {label} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
