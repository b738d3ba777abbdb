"""Whether an index finds what an exact search over the corrected vectors finds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from modgap._results import Result
from modgap._validate import InputValueError, check_choice, check_count
from modgap.index.base import Progress, VectorIndex
from modgap.io import Embeddings
from modgap.search import search
from modgap.search.hits import Hits

# Scores of float32 vectors agree to about this share of the largest of them.
_ROUNDING = 1e-5


@dataclass(frozen=True, eq=False)
class IndexEvaluation(Result):
    """What queries of each modality get from an index.

    ``recall`` is the share of the k exact best documents that the index returns; a document that
    scores the same as the k-th best counts. ``share`` is, for queries of each modality, the share
    of each modality among their results, ``corpus_share`` its share of all documents.
    """

    k: int
    n_documents: int
    n_queries: Mapping[str, int]
    recall: Mapping[str, float]
    share: Mapping[str, Mapping[str, float]]
    corpus_share: Mapping[str, float]

    def table(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """One line for each query modality: recall, and which modalities the results are of."""
        names = list(self.corpus_share)
        header = ("queries", "number", f"recall@{self.k}", *(f"results {n}" for n in names))
        lines = [
            (name, f"{self.n_queries[name]:,}", f"{self.recall[name]:.4f}",
             *(f"{self.share[name][other]:.3f}" for other in names))
            for name in self.recall
        ]  # fmt: skip
        corpus = ("the index itself", "", "", *(f"{self.corpus_share[n]:.3f}" for n in names))
        return header, [*lines, corpus]


def evaluate_index(
    index: VectorIndex,
    documents: Mapping[str, Any],
    queries: Mapping[str, Any] | None = None,
    *,
    k: int = 10,
    sample: int = 200,
    seed: int = 0,
    progress: Progress | None = None,
) -> IndexEvaluation:
    """Compare an index with an exact search over the vectors it was built from.

    ``documents`` are the raw vectors of each modality, in memory or as `Embeddings`, with the ids
    they were written with (else row numbers). ``queries`` are raw vectors too; without them a
    seeded sample of the documents asks. At most ``sample`` queries of each modality are asked.
    """
    check_count(k, "k")
    check_count(sample, "sample")
    rng = np.random.default_rng(seed)
    corpus = {name: _embeddings(rows, name, index) for name, rows in documents.items()}
    if sum(rows.n_rows for rows in corpus.values()) != index.count():
        raise InputValueError(
            f"{index.place} holds {index.count()} documents, but the vectors given are "
            f"{sum(rows.n_rows for rows in corpus.values())}. Give those it was built from."
        )
    asked = corpus if queries is None else {
        name: _embeddings(rows, name, index) for name, rows in queries.items()
    }  # fmt: skip
    stored = np.concatenate(
        [index.correction.apply(rows.rows(), name) for name, rows in corpus.items()]
    )
    place = _places(corpus)
    n_queries, recall, share = {}, {}, {}
    for step, (name, rows) in enumerate(asked.items()):
        if progress is not None:
            progress(f"asking with {name}", step, len(asked))
        chosen = np.sort(rng.permutation(rows.n_rows)[:sample])
        raw = rows.take(chosen)
        hits = index.search(raw, name, k)
        mapped = index.correction.apply(raw, name, "query")
        recall[name] = _recall(hits, mapped, stored, place, index, min(k, len(stored)))
        n_queries[name] = len(chosen)
        found = hits.modalities[hits.modalities != ""]
        share[name] = {other: float(np.mean(found == other)) for other in corpus}
    total = sum(rows.n_rows for rows in corpus.values())
    corpus_share = {name: rows.n_rows / total for name, rows in corpus.items()}
    return IndexEvaluation(k, total, n_queries, recall, share, corpus_share)


def _recall(
    hits: Hits,
    queries: np.ndarray,
    stored: np.ndarray,
    place: Mapping[tuple[str, Any], int],
    index: VectorIndex,
    k: int,
) -> float:
    """Share of the exact k best that were found; results that are missing count as not found."""
    best, scores = search(queries, stored, k, index.metric)
    slack = _ROUNDING * max(1.0, float(np.max(np.abs(scores))))
    right = 0
    for line, (ids, names) in enumerate(zip(hits.ids.tolist(), hits.modalities, strict=True)):
        keys = zip(names.tolist(), ids, strict=True)
        places = [place[key] for key in keys if key in place]
        if not places:
            continue
        # The exact scores of what was returned, not those the index claims.
        order, real = search(queries[line : line + 1], stored[places], len(places), index.metric)
        is_best = np.isin(np.array(places)[order[0]], best[line])
        right += int(np.sum(is_best | (real[0] >= scores[line, -1] - slack)))
    return right / (len(queries) * k)


def _places(corpus: Mapping[str, Embeddings]) -> dict[tuple[str, Any], int]:
    place: dict[tuple[str, Any], int] = {}
    for name, rows in corpus.items():
        keys = range(rows.n_rows) if rows.ids is None else rows.ids.tolist()
        for key in keys:
            place[name, key] = len(place)
    return place


def _embeddings(rows: Any, name: str, index: VectorIndex) -> Embeddings:
    check_choice(name, "modality", index.correction.names)
    found = rows if isinstance(rows, Embeddings) else Embeddings.from_array(rows, source=name)
    if found.dim != index.correction.dim_in:
        raise InputValueError(
            f"The correction is for rows of {index.correction.dim_in} columns, but {name} has "
            f"{found.dim}. It must be fitted on embeddings of the same model."
        )
    return found
