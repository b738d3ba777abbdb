"""Whether the rule for hubs takes what helps and leaves what hurts; for expected_wrong.py.

The rule looks at half of the groups; the other half is asked, with the first half's queries as
bank. Both directions ask.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from list_rivals import by_expected
from modgap.corrections import Background
from modgap.diagnosis.hubs import choose_hubs
from modgap.evaluation import ndcg
from modgap.io import Modalities

NAMES = ("image", "text")


def chosen_weight(fit, others: tuple, rng: np.random.Generator) -> float:
    """The weight that the rule takes, cross-fitted on these rows."""
    data = Modalities.of(*fit.rows, NAMES, groups=fit.groups)
    if any(rows is not None for rows in others):
        given = {n: rows for n, rows in zip(NAMES, others, strict=True) if rows is not None}
        data = data.with_documents(given)
    order = rng.permutation(data.matched_groups)
    halves = order[: len(order) // 2], order[len(order) // 2 :]
    found = choose_hubs(tuple(data.take_groups(half) for half in halves), "text", metric="cosine")
    return 0.0 if found is None else found.weight


def recalls(queries, groups, documents, owners, bank, weight: float) -> list[float]:
    """Recall@1 and @10 in one modality."""
    background = Background.fit({"x": documents}, bank, weight)
    scores = background.queries(queries) @ background.documents("x").T
    best = np.argsort(-scores, axis=1)[:, :10]
    right = owners[best] == groups[:, None]
    return [float(right[:, 0].mean()), float(right.any(axis=1).mean())]


def metrics(fit, index, others: tuple, asked_of_one_kind, weight: float) -> np.ndarray:
    """Recall@1, recall@10 and mixed NDCG@10, mean of both directions."""
    found = []
    for asking in (1, 0):
        rows, owners = index.rows[1 - asking], index.groups[1 - asking]
        if others[1 - asking] is not None:
            rows = np.vstack([rows, others[1 - asking]])
            owners = np.append(owners, [-1] * len(others[1 - asking]))
        asked = asked_of_one_kind(asking)
        scores = np.hstack(by_expected(weight)(asked))
        best = np.argsort(-scores, axis=1)[:, :10]
        held = np.concatenate(list(asked.list_groups.values()))
        counts = np.array([np.sum(held == g) for g in asked.groups])
        gain = ndcg(held[best] == asked.groups[:, None], counts)
        queries = index.rows[asking], index.groups[asking]
        line = recalls(*queries, rows, owners, fit.rows[asking], weight)
        found.append([*line, float(np.mean(gain))])
    return np.mean(found, axis=0)


def run_hubs(sets: dict, splits: int, foreign_rows, of_one_kind, beside) -> Iterator:
    """For each split the weight taken, and what it and both weights change against none.

    ``beside`` gives the set, another set of the same model and how many of its images and texts.
    """
    cases = [(title, "", (0, 0)) for title in sets] + list(beside)
    for title, other, amount in cases:
        figures: dict[str, list] = {"weight": [], "taken": [], "quarter": [], "half": []}
        for seed in range(splits):
            rng = np.random.default_rng(seed)
            others = foreign_rows(sets, other or title, amount, rng)
            fit, index = sets[title].halves(np.random.default_rng(seed))
            weight = chosen_weight(fit, others, rng)

            def task(asking, seed=seed, others=others, data=sets[title]):
                return of_one_kind(data, asking, 0.5, np.random.default_rng(seed), others)

            base = metrics(fit, index, others, task, 0.0)
            change = {w: metrics(fit, index, others, task, w) - base for w in (0.25, 0.5)}
            figures["weight"].append(weight)
            figures["taken"].append(change.get(weight, 0 * base).tolist())
            figures["quarter"].append(change[0.25].tolist())
            figures["half"].append(change[0.5].tolist())
        beside_it = f" among {amount[0]:,} + {amount[1]:,} of {other}" if other else ""
        yield f"{title}{beside_it}", figures
