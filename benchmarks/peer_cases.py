"""Timed against what people use instead: the same job on the same rows, with the same numbers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import peers
from case import Case, largest, pairs, rows, share_different, unit
from modgap import measure, retrieval
from modgap.evaluation import Gaussian, robustness
from modgap.measures import (
    cone,
    contrastive_loss,
    feature_divergence,
    linear_separability,
    shift_landscape,
    uniformity,
)
from modgap.measures.cone import Cone
from modgap.measures.landscape import DEFAULT_LAMBDAS, DEFAULT_TEMPERATURES
from modgap.measures.measurement import Measurement
from modgap.search import search


def notebook_case(scale: float) -> Case:
    n = round(20_000 * scale)
    X, Y = pairs(n)
    return Case(
        f"measure, {n:,} pairs × 512",
        "the notebook way: full matrices, one quantity after the other",
        lambda: measure(X, Y),
        lambda: peers.measure(X, Y),
        0.1,
        apart=lambda ours, theirs: max(
            abs(value - theirs[key]) / max(1, abs(value)) for key, value in same_numbers(ours)
        ),
        tolerance=1e-3,
        weighed=True,
        room=12 * (n / 20_000) ** 2,
        once=True,
    )


def same_numbers(found: Measurement) -> list[tuple[str, float]]:
    """Ours under the notebook's names, as far as no classifier or random half is in them."""
    numbers: list[tuple[str, float | None]] = [("gap", found.gap_distance)]
    for name, side in zip("xy", found.modalities, strict=True):
        assert side.cone is not None
        numbers += [(f"{name} {key}", value) for key, value in side.cone.to_dict().items()]
        numbers += [(f"{name} uniformity", side.uniformity)]
    numbers.append(("conformity divergence", found.both.conformity_divergence))
    two = found.both.pairs
    assert two is not None
    numbers += [("alignment", two.alignment), ("margin", two.margin), ("loss", two.loss.loss)]
    known = {"count", "standard_error"}
    return [(key, value) for key, value in numbers if value is not None and key[2:] not in known]


def of_pairs(
    n_pairs: int,
    what: str,
    yardstick: str,
    ours: Callable[[np.ndarray, np.ndarray], Any],
    theirs: Callable[[np.ndarray, np.ndarray], Any],
    **limits: Any,
) -> Callable[[float], Case]:
    """A measure of pairs against a peer's: as fast at the least, in less memory, equal numbers."""

    def case(scale: float) -> Case:
        n = round(n_pairs * scale)
        X, Y = pairs(n)
        bounds = {"apart": largest, "weighed": True, **limits}
        return Case(
            what.format(n=f"{n:,}"),
            yardstick,
            lambda: ours(X, Y),
            lambda: theirs(X, Y),
            1.0,
            **bounds,
        )

    return case


def cone_numbers(ours: Cone, theirs: dict[str, float]) -> float:
    keys = ("mean", "std", "min", "q1", "median", "q3", "max")
    return largest([getattr(ours, key) for key in keys], [theirs[key] for key in keys])


def recall_case(scale: float) -> Case:
    n = round(5_000 * scale)
    X, Y = pairs(n)

    def ours() -> tuple[float, float]:
        found = retrieval(X, Y, k=5).recall()
        return found["image_retrieval_recall@5"], found["text_retrieval_recall@5"]

    return Case(
        f"recall@5 both ways, {n:,} × {n:,} × 512",
        "CLIP_benchmark's way: all scores, one-hot top k",
        ours,
        lambda: peers.recall(X, Y),
        1.0,
        apart=largest,
        tolerance=2.1 / n,
        weighed=True,
        room=2,
    )


def sweep_case(scale: float) -> Case:
    n, m, draws = round(5_000 * scale), round(1_000 * scale), 3
    queries, candidates = rows(n, 512, 0), rows(m, 512, 1)
    amounts = np.linspace(-1, 1, 21)
    return Case(
        f"robustness, {draws} draws × 21 amounts, {n:,} × {m:,} × 512",
        "the plain loop, scikit-learn's pairwise_distances_argmin",
        lambda: (
            robustness(
                queries, candidates, Gaussian(0.1), draws=draws, amounts=amounts, seed=0
            ).share
        ),
        lambda: peers.neighbours_kept(queries, candidates, 0.1, draws, amounts),
        1.0,
        apart=largest,
        tolerance=1e-3,
        weighed=True,
    )


def faiss_case(scale: float, n: int = 5_000) -> Case:
    import faiss

    n_queries, n_documents = round(n * scale), round(20_000 * scale)
    queries, documents = unit(rows(n_queries, 512, 0)), unit(rows(n_documents, 512, 1))
    index = faiss.IndexFlatIP(512)
    index.add(documents)
    return Case(
        f"10 nearest, {n_queries:,} × {n_documents:,} × 512",
        "FAISS IndexFlatIP",
        lambda: search(queries, documents, 10, "inner_product")[0],
        lambda: index.search(queries, 10)[1],
        1.0,
        apart=share_different,
        tolerance=1e-4,
        weighed=True,
    )


def neighbours_case(scale: float) -> Case:
    from sklearn.neighbors import NearestNeighbors

    n = round(20_000 * scale)
    queries, documents = rows(n // 4, 512, 0), rows(n, 512, 1)
    model = NearestNeighbors(n_neighbors=10, algorithm="brute", metric="cosine").fit(documents)
    return Case(
        f"10 nearest by cosine, {n // 4:,} × {n:,} × 512",
        "scikit-learn's NearestNeighbors, brute",
        lambda: search(queries, documents, 10)[0],
        lambda: model.kneighbors(queries, return_distance=False),
        1.0,
        apart=share_different,
        tolerance=1e-4,
        weighed=True,
    )


CASES = {
    "notebook": notebook_case,
    "peer-cone": of_pairs(
        12_000,
        "cone, {n} × 512",
        "scikit-learn's cosine_similarity and np.quantile",
        lambda X, _: cone(X),
        lambda X, _: peers.cone(X),
        apart=cone_numbers,
        tolerance=1e-4,
        room=5,
    ),
    "peer-uniformity": of_pairs(
        12_000,
        "uniformity, {n} × 512",
        "Wang and Isola's form, torch.pdist",
        lambda X, _: uniformity(X),
        lambda X, _: peers.uniformity(X),
        tolerance=1e-5,
        room=2,
    ),
    "peer-recall": recall_case,
    "peer-loss": of_pairs(
        12_000,
        "contrastive loss, {n} pairs × 512",
        "torch's cross_entropy of the full logits",
        contrastive_loss,
        peers.loss,
        tolerance=1e-4,
        room=4,
    ),
    "peer-landscape": of_pairs(
        5_000,
        "loss over the gap, {n} pairs × 512, 31 steps × 4 temperatures",
        "Liang's way: every step and batch of 50 anew",
        lambda X, Y: shift_landscape(X, Y).losses,
        lambda X, Y: peers.shift_landscape(X, Y, DEFAULT_LAMBDAS, DEFAULT_TEMPERATURES),
        tolerance=1e-4,
    ),
    "peer-separability": of_pairs(
        20_000,
        "linear separability, {n} pairs × 512",
        "scikit-learn's LogisticRegression",
        lambda X, Y: linear_separability(X, Y).all_features,
        peers.linear_separability,
        tolerance=0.01,
    ),
    "peer-divergence": of_pairs(
        20_000,
        "KL of every feature, {n} pairs × 512",
        "np.histogram, a feature at a time",
        feature_divergence,
        peers.feature_divergence,
        tolerance=0.05,
    ),
    "peer-sweep": sweep_case,
    "faiss": faiss_case,
    "faiss-all": partial(faiss_case, n=20_000),
    "neighbours": neighbours_case,
}
