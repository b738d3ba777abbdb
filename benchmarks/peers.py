"""What people use instead of modgap, written here from the published formulas.

Full n × n matrices, one quantity after the other, as in the papers' notebooks:

- cone: W. Liang et al. 2022, fig. 2a: the statistics of all off-diagonal cosines, which their
  notebook describes in float64; https://github.com/Weixin-Liang/Modality-Gap
- uniformity: T. Wang and P. Isola 2020, the mean potential over ``torch.pdist``;
  https://github.com/ssnl/align_uniform
- recall: the matrix of all scores, the top k of batches of 64 queries as one-hot vectors, times the
  matrix of positives; https://github.com/LAION-AI/CLIP_benchmark
- loss over the gap: Liang et al., sec. 4.2: move, normalise, batches of 50, for every step anew
- soft assignments: Chowers et al. 2026, eq. 5: both softmaxes of the matrix of squared distances
- conformity, its divergence and the loss over the origin: Levi and Gilboa 2025, sec. 4 to 6
- margin: Yaras et al. 2024, sec. 2

Matrices that two quantities need are made once, and numbers stay in float32 where torch keeps
them there: the yardstick is a fast notebook, not a slow one.
"""

from __future__ import annotations

import numpy as np
import torch
from torch.nn import functional as F

Pair = tuple[np.ndarray, np.ndarray]


def all_cosines(X: np.ndarray) -> np.ndarray:
    """The full matrix in float64, by scikit-learn."""
    from sklearn.metrics.pairwise import cosine_similarity

    wide = X.astype(np.float64)
    # Given twice: some builds of OpenBLAS crash on the product of 20,000 rows with themselves.
    return cosine_similarity(wide, wide.copy())


def cone(X: np.ndarray, cosines: np.ndarray | None = None) -> dict[str, float]:
    S = all_cosines(X) if cosines is None else cosines
    every = S[~np.eye(len(S), dtype=bool)]
    q1, median, q3 = np.quantile(every, (0.25, 0.5, 0.75))
    ends = {"min": every.min(), "max": every.max()}
    return {"mean": every.mean(), "std": every.std(), "q1": q1, "median": median, "q3": q3, **ends}


def uniformity(X: np.ndarray) -> float:
    distances = torch.pdist(torch.from_numpy(X))
    return float((-2 * distances**2).exp().mean().log())


def margin(X: np.ndarray, Y: np.ndarray) -> float:
    Z = X @ Y.T
    own = np.diag(Z).copy()
    np.fill_diagonal(Z, -np.inf)
    return float(min((own - Z.max(axis=1)).min(), (own - Z.max(axis=0)).min()))


def contrastive_loss(X: torch.Tensor, Y: torch.Tensor, temperature: float) -> float:
    logits = X @ Y.T / temperature
    own = torch.arange(len(X))
    return float((F.cross_entropy(logits, own) + F.cross_entropy(logits.T, own)) / 2)


def loss(X: np.ndarray, Y: np.ndarray, temperature: float = 0.01) -> float:
    return contrastive_loss(torch.from_numpy(X), torch.from_numpy(Y), temperature)


def soft_assignments(X: np.ndarray, Y: np.ndarray, temperature: float = 0.01) -> Pair:
    logits = -(torch.cdist(torch.from_numpy(X), torch.from_numpy(Y)) ** 2) / temperature
    return logits.softmax(dim=0).sum(dim=1).numpy(), logits.softmax(dim=1).sum(dim=0).numpy()


def shift_landscape(
    X: np.ndarray, Y: np.ndarray, lambdas: tuple[float, ...], temperatures: tuple[float, ...]
) -> np.ndarray:
    """Loss by temperature and step, batches of 50."""
    given = torch.from_numpy(X), torch.from_numpy(Y)
    gap = given[0].mean(dim=0) - given[1].mean(dim=0)
    losses = np.zeros((len(temperatures), len(lambdas)))
    for place, step in enumerate(lambdas):
        moved = F.normalize(given[0] - step * gap), F.normalize(given[1] + step * gap)
        for row, temperature in enumerate(temperatures):
            found = [
                contrastive_loss(A, B, temperature) * len(A)
                for A, B in zip(moved[0].split(50), moved[1].split(50), strict=True)
            ]
            losses[row, place] = sum(found) / len(X)
    return losses


def origin_landscape(X: np.ndarray, Y: np.ndarray, alphas: tuple[float, ...]) -> np.ndarray:
    """Loss and conformity divergence by step, both sides moved."""
    means = X.mean(axis=0), Y.mean(axis=0)
    found = []
    for step in alphas:
        A, B = (unit(rows - step * mean) for rows, mean in zip((X, Y), means, strict=True))
        typical = [conformity(all_cosines(rows)) for rows in (A, B)]
        found.append((loss(A, B), divergence(*typical)))
    return np.array(found)


def conformity(cosines: np.ndarray) -> np.ndarray:
    return (cosines.sum(axis=1) - 1) / (len(cosines) - 1)


def divergence(p: np.ndarray, q: np.ndarray, bins: int = 50) -> float:
    """KL of two histograms over shared bins, 1e-10 added to each."""
    span = min(p.min(), q.min()), max(p.max(), q.max())
    counts = [np.histogram(values, bins, span)[0] + 1e-10 for values in (p, q)]
    a, b = (c / c.sum() for c in counts)
    return float(np.sum(a * np.log(a / b)))


def feature_divergence(X: np.ndarray, Y: np.ndarray) -> np.ndarray:
    return np.array([divergence(X[:, f], Y[:, f]) for f in range(X.shape[1])])


def linear_separability(X: np.ndarray, Y: np.ndarray) -> float:
    """Held-out accuracy of scikit-learn's logistic regression, half of the rows to fit on."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    half = len(X) // 2
    sides = np.repeat([0, 1], half)
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    model.fit(np.concatenate([X[:half], Y[:half]]), sides)
    return float(model.score(np.concatenate([X[-half:], Y[-half:]]), sides))


def recall(X: np.ndarray, Y: np.ndarray, k: int = 5, batch: int = 64) -> tuple[float, float]:
    """Recall@k of queries of Y among X, and of X among Y."""
    scores = torch.from_numpy(Y) @ torch.from_numpy(X).T
    positives = torch.zeros_like(scores, dtype=torch.bool).fill_diagonal_(True)
    return _batched(scores, positives, k, batch), _batched(scores.T, positives.T, k, batch)


def _batched(scores: torch.Tensor, positives: torch.Tensor, k: int, batch: int) -> float:
    found = []
    for rows in range(0, len(scores), batch):
        part, own = scores[rows : rows + batch], positives[rows : rows + batch]
        chosen = F.one_hot(part.topk(k, dim=1).indices, part.shape[1])
        found.append((chosen * own[:, None, :]).sum(dim=(1, 2)) > 0)
    return float(torch.cat(found).float().mean())


def neighbours_kept(
    queries: np.ndarray, candidates: np.ndarray, std: float, draws: int, amounts: np.ndarray
) -> np.ndarray:
    """Share of queries whose nearest candidate stays, every draw and amount by itself."""
    toward = queries.mean(axis=0) - candidates.mean(axis=0)
    seeds = np.random.SeedSequence(0).spawn(draws)
    kept = np.zeros(len(amounts))
    for place, amount in enumerate(amounts):
        moved = candidates + np.float32(amount) * toward
        before = _nearest(queries, moved)
        for seed in seeds:
            noise = np.random.default_rng(seed).standard_normal(moved.shape, dtype=np.float32)
            kept[place] += np.mean(_nearest(queries, moved + np.float32(std) * noise) == before)
    return kept / draws


def _nearest(queries: np.ndarray, candidates: np.ndarray) -> np.ndarray:
    from sklearn.metrics import pairwise_distances_argmin

    return pairwise_distances_argmin(queries, candidates)


def measure(X: np.ndarray, Y: np.ndarray) -> dict[str, float]:
    """The numbers of ``modgap.measure`` on unit rows, one after the other."""
    from modgap.measures.landscape import DEFAULT_ALPHAS, DEFAULT_LAMBDAS, DEFAULT_TEMPERATURES

    found: dict[str, float] = {"gap": float(np.linalg.norm(X.mean(axis=0) - Y.mean(axis=0)))}
    typical = []
    for name, rows in (("x", X), ("y", Y)):
        S = all_cosines(rows)
        found |= {f"{name} {key}": float(value) for key, value in cone(rows, S).items()}
        typical.append(conformity(S))
        del S
        found[f"{name} uniformity"] = uniformity(rows)
        covariance = np.cov(rows.T)
        variance = np.diag(covariance)
        found[f"{name} dominance"] = float(
            np.median((np.abs(covariance).sum(axis=1) - variance) / variance)
        )
        radii = np.linalg.norm(rows - rows.mean(axis=0), axis=1)
        found[f"{name} radius"] = float(radii.mean())
    found["conformity divergence"] = divergence(*typical)
    found["feature divergence"] = float(feature_divergence(X, Y).max())
    found["separability"] = linear_separability(X, Y)
    found["alignment"] = float(np.mean(np.sum((X - Y) ** 2, axis=1)))
    found["margin"] = margin(X, Y)
    found["loss"] = loss(X, Y)
    for name, sums in zip(("x", "y"), soft_assignments(X, Y), strict=True):
        found[f"{name} soft assignments"] = float(sums.std())
    shift = shift_landscape(X, Y, DEFAULT_LAMBDAS, DEFAULT_TEMPERATURES)
    found["least loss over the gap"] = float(shift.min())
    origin = origin_landscape(X[:2000], Y[:2000], DEFAULT_ALPHAS)
    found["least loss over the origin"] = float(origin[:, 0].min())
    return found


def unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)
