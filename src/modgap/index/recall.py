"""Whether an index finds what an exact search over the corrected vectors finds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from modgap.core.checks import InputValueError, check_count
from modgap.core.results import Progress, Result, notebook_html, notebook_table
from modgap.core.tables import HasTable
from modgap.corrections import Metric, own_keys
from modgap.corrections.background import Background
from modgap.corrections.list_background import merging_order
from modgap.index.base import VectorIndex
from modgap.index.documents import as_embeddings
from modgap.index.stored_vectors import check_banks
from modgap.search import Hits, search

# Scores of float32 vectors agree to about this share of the largest of them.
_ROUNDING = 1e-5
# A rounded score moves expected wrong results by more: a small difference of scores divides it.
_SLACK = 1e-3


@dataclass(frozen=True, eq=False)
class IndexEvaluation(HasTable, Result):
    """What queries of each modality get from an index.

    ``exact_found`` is the share of the k exact best documents that the index returns; a document
    that scores the same as the k-th best counts. It says nothing about matches. ``share`` is, for
    queries of each modality, the share of each modality among their results, ``corpus_share`` its
    share of all documents. With a correction that has a background, the best are those that exact
    search merges first.
    """

    k: int
    n_documents: int
    n_queries: Mapping[str, int]
    exact_found: Mapping[str, float]
    share: Mapping[str, Mapping[str, float]]
    corpus_share: Mapping[str, float]

    def _brief(self) -> str:
        found = ", ".join(f"{name} {value:.3f}" for name, value in self.exact_found.items())
        return f"{self.n_documents:,} documents, exact {self.k} found: {found}"

    def _repr_html_(self) -> str:
        said = f"{self.n_documents:,} documents; results by modality"
        return notebook_html(notebook_table(*self.table(), said))

    def table(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """One line for each query modality: how much is found, and which modalities results are."""
        names = list(self.corpus_share)
        header = ("queries", "number", f"exact {self.k} found", *(f"results {n}" for n in names))
        lines = [
            (
                name,
                f"{self.n_queries[name]:,}",
                f"{self.exact_found[name]:.4f}",
                *(f"{self.share[name][other]:.3f}" for other in names),
            )
            for name in self.exact_found
        ]
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

    Parameters
    ----------
    index : VectorIndex
        The index, open.
    documents : mapping of str to arrays or Embeddings
        The raw vectors of each modality, with the ids they were written with (else row numbers).
    queries : mapping of str to arrays or Embeddings, optional
        Raw vectors to search with; without them a seeded sample of the documents whose modality
        the index serves.
    k : int
        How many documents each query finds.
    sample : int
        Queries of each modality, at most.
    seed : int
        Of the sample.
    progress : callable, optional
        Called with what is being done, the modalities done, and all of them.
    """
    check_count(k, "k")
    check_count(sample, "sample")
    rng = np.random.default_rng(seed)
    corrections = index.corrections
    check_banks([*corrections.values()])
    shape = next(iter(corrections.values()))
    corpus = {name: as_embeddings(rows, name, shape) for name, rows in documents.items()}
    total = sum(rows.n_rows for rows in corpus.values())
    if total != index.count():
        raise InputValueError(
            f"{index.place} holds {index.count()} documents, but the vectors given are {total}. "
            "Give those it was built from."
        )
    if queries is None:
        asked = {name: rows for name, rows in corpus.items() if name in corrections}
    else:
        asked = {n: as_embeddings(rows, n, shape, "query") for n, rows in queries.items()}
    if not asked:
        raise InputValueError(
            f"{index.place} serves {' and '.join(corrections)} queries, and no document is one. "
            "Give queries (queries=…, --queries MODALITY=PATH)."
        )
    keys = [
        (name, key)
        for name, rows in corpus.items()
        for key in (range(rows.n_rows) if rows.ids is None else rows.ids.tolist())
    ]
    places = {key: place for place, key in enumerate(keys)}
    n_queries, exact_found, share = {}, {}, {}
    for step, (name, rows) in enumerate(asked.items()):
        if progress is not None:
            progress(f"searching with {name}", step, len(asked))
        chosen = np.sort(rng.permutation(rows.n_rows)[:sample])
        raw = rows.take(chosen)
        hits = index.search(raw, name, k)
        correction = corrections[name]
        stored = {
            held: correction.map(held)(r.rows(), held, keys=own_keys(correction, r, held))
            for held, r in corpus.items()
        }
        mapped, wanted = correction.apply(raw, name, "query"), min(k, total)
        if correction.background is None:
            every = np.concatenate([*stored.values()])
            exact_found[name] = _share_found(hits, mapped, every, places, index.metric, wanted)
        else:
            exact_found[name] = _judged_share(
                hits, mapped, stored, places, correction.background, wanted
            )
        n_queries[name] = len(chosen)
        found = hits.modalities[hits.modalities != ""]
        share[name] = {other: float(np.mean(found == other)) for other in corpus}
    corpus_share = {name: rows.n_rows / total for name, rows in corpus.items()}
    return IndexEvaluation(k, total, n_queries, exact_found, share, corpus_share)


def _share_found(
    hits: Hits,
    queries: np.ndarray,
    stored: np.ndarray,
    places: Mapping[tuple[str, Any], int],
    metric: Metric,
    k: int,
) -> float:
    """Share of the exact k best that were found; results that are missing count as not found."""
    _, scores = search(queries, stored, k, metric)
    slack = _ROUNDING * max(1.0, float(np.max(np.abs(scores))))
    right = 0
    for line, found in enumerate(zip(hits.modalities.tolist(), hits.ids.tolist(), strict=True)):
        known = [places[key] for key in zip(*found, strict=True) if key in places]
        if known:
            # The exact scores of what was returned, not those the index claims.
            _, real = search(queries[line : line + 1], stored[known], len(known), metric)
            right += int(np.sum(real >= scores[line, -1] - slack))
    return right / (len(queries) * k)


def _judged_share(
    hits: Hits,
    queries: np.ndarray,
    stored: Mapping[str, np.ndarray],
    places: Mapping[tuple[str, Any], int],
    background: Background,
    k: int,
) -> float:
    """``_share_found`` where lists are merged by expected wrong results."""
    right = 0
    for line, found in enumerate(zip(hits.modalities.tolist(), hits.ids.tolist(), strict=True)):
        expected, equal = [], []
        for name, rows in stored.items():
            scores = (rows @ queries[line]).astype(np.float64)
            order = np.argsort(-scores, kind="stable")
            values = np.empty(len(scores))
            values[order] = merging_order(background.judged(scores[order][None], name)[0])[0]
            expected.append(values)
            # Of equal scores any may come first.
            differs = -np.diff(scores[order]) > _ROUNDING * max(1.0, float(np.max(np.abs(scores))))
            first = np.flatnonzero(np.append(True, differs))
            shared = np.empty(len(scores))
            shared[order] = values[order[np.repeat(first, np.diff(first, append=len(order)))]]
            equal.append(shared)
        last = np.partition(np.concatenate(expected), k - 1)[k - 1]
        known = [places[key] for key in zip(*found, strict=True) if key in places]
        right += int(np.sum(np.concatenate(equal)[known] <= last * (1 + _SLACK)))
    return right / (len(queries) * k)
