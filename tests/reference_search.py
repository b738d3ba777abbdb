"""Slow, obvious versions of retrieval, mixed search and robustness, from definitions.md.

Plain loops in float64; nothing here shares code with the library. ``groups`` are two lists of
labels: row i of X matches row j of Y when gx[i] == gy[j].
"""

from __future__ import annotations

import math

import numpy as np

from reference import unit as unit
from reference import wide


def score(q, d, metric):
    """Larger is nearer."""
    if metric == "cosine":
        return float(q @ d) / (math.sqrt(float(q @ q)) * math.sqrt(float(d @ d)))
    if metric == "inner_product":
        return float(q @ d)
    return -float((q - d) @ (q - d))


def order(q, documents, metric):
    """Documents from the nearest to the farthest; equal scores, the earlier first."""
    scores = [score(q, d, metric) for d in documents]
    return sorted(range(len(documents)), key=lambda j: (-scores[j], j))


def ranks(queries, documents, query_groups, document_groups, metric):
    """Non-matching documents before each query's best match; -1 without a match."""
    found = []
    for q, g in zip(wide(queries), query_groups, strict=True):
        places = order(q, wide(documents), metric)
        hits = [place for place, j in enumerate(places) if document_groups[j] == g]
        found.append(hits[0] if hits else -1)
    return np.array(found)


def recall(found, k):
    asked = [r for r in found if r >= 0]
    return sum(r < k for r in asked) / len(asked)


def ndcg_at_10(hits, n_relevant):
    gain = sum(1 / math.log2(place + 2) for place, hit in enumerate(hits[:10]) if hit)
    ideal = sum(1 / math.log2(place + 2) for place in range(min(10, n_relevant)))
    return gain / ideal


def mixed_search(X, Y, gx, gy, in_x, k, metric):
    """One assignment: what the queries of X, and those of Y, get from the mixed index.

    ``in_x`` is the set of groups that are in the index as X. Each line is (group, NDCG@10, hit,
    wrong results among the k best, those of them that are X).
    """
    both = set(gx) & set(gy)
    index, labels, is_x = [], [], []
    for rows, groups, kept, side in (
        (wide(X), gx, [g in in_x or g not in both for g in gx], True),
        (wide(Y), gy, [g not in in_x or g not in both for g in gy], False),
    ):
        for row, g, keep in zip(rows, groups, kept, strict=True):
            if keep:
                index.append(row)
                labels.append(g)
                is_x.append(side)
    asked = {"x": [], "y": []}
    for side, rows, groups in (("x", wide(X), gx), ("y", wide(Y), gy)):
        for row, g in zip(rows, groups, strict=True):
            if g not in both or (g in in_x) == (side == "x"):
                continue
            places = order(row, index, metric)
            hits = [labels[j] == g for j in places]
            wrong = [j for j in places[:k] if labels[j] != g]
            line = (ndcg_at_10(hits, sum(label == g for label in labels)), any(hits[:k]))
            asked[side].append((g, *line, len(wrong), sum(is_x[j] for j in wrong)))
    return asked["x"], asked["y"], sum(is_x) / len(is_x)


def nearest(queries, candidates, metric="euclidean"):
    return np.array([order(q, wide(candidates), metric)[0] for q in wide(queries)])


def noisy_copies(candidates, noise, draws, seed):
    """The draws that robustness promises: one generator per draw, from the seed alone."""
    seeds = np.random.SeedSequence(seed).spawn(draws)
    return [noise.perturb(candidates, np.random.default_rng(s)) for s in seeds]


def robustness(queries, candidates, noise, draws, seed, change=lambda rows: rows, **more):
    """Share of unchanged neighbours in each draw; ``change`` is what comes after the noise."""
    reference = nearest(queries, change(candidates), **more)
    return np.array(
        [
            np.mean(nearest(queries, change(noisy), **more) == reference)
            for noisy in noisy_copies(candidates, noise, draws, seed)
        ]
    )
