"""Other wordings of the candidates as noise (figs 10, 15)."""

from __future__ import annotations

from itertools import permutations

import numpy as np

from modgap.datasets import load_digits
from modgap.datasets.digits import WORDINGS
from modgap.evaluation import robustness
from modgap.evaluation.noise import Rephrase, noise_correlation
from modgap.reproduce.chowers2026 import PAPER
from modgap.reproduce.chowers2026.tasks import AMOUNTS, AS_TRAINED
from modgap.reproduce.entry import Number, Outcome, check
from modgap.reproduce.setting import Setting

CHOICES = 4


def _wordings() -> np.ndarray:
    """Captions of the test scans, (wordings, scans, d)."""
    digits = load_digits("test")
    return digits.Y.reshape(-1, len(WORDINGS), digits.Y.shape[1]).transpose(1, 0, 2)


@PAPER.run("fig10")
def fig10(setting: Setting) -> Outcome:
    """Scans that choose among four captions of their digit, in wordings drawn at random."""
    digits, wordings = load_digits("test"), _wordings()
    n, amounts = len(digits.X), np.asarray(AMOUNTS)
    rng = np.random.default_rng(setting.seed)
    draws = 500 if setting.full else 50
    gap = digits.X.mean(axis=0) - digits.Y.mean(axis=0)
    clean = wordings[0][_with_rivals(digits.labels, rng)]
    # Eq. 11 for each scan: the part of the gap orthogonal to the captions it chooses from.
    directions = _orthogonal(gap, clean - clean.mean(axis=1, keepdims=True))
    still = _right(digits.X, clean, directions, amounts)
    noisy = np.empty((draws, len(amounts)))
    for draw in range(draws):
        if draw % 25 == 0:
            setting.say("draws of wordings", draw, draws)
        rivals = _with_rivals(digits.labels, rng)
        spoken = wordings[rng.integers(0, len(wordings), (n, CHOICES)), rivals]
        noisy[draw] = _right(digits.X, spoken, directions, amounts)
    mean, error = noisy.mean(axis=0), noisy.std(axis=0, ddof=1) / draws**0.5
    change = noisy[:, -1] - noisy[:, AS_TRAINED]
    gain, gain_error = change.mean(), change.std(ddof=1) / draws**0.5
    along = _share_along(wordings[1:] - wordings[0], gap)
    kept = robustness(digits.X, wordings[0], Rephrase(wordings[1:]), 20, AMOUNTS, seed=setting.seed)
    measured: dict[str, Number] = {
        "clean accuracy changed by closing": np.ptp(still),
        "clean accuracy": still[AS_TRAINED],
        "accuracy under rephrasing as trained": mean[AS_TRAINED],
        "accuracy under rephrasing when closed": mean[-1],
        "gain by closing": gain,
        "standard error of the gain": gain_error,
        "robustness to rephrasing as trained, 1,000 captions": kept.share[AS_TRAINED],
        "robustness to rephrasing when closed, 1,000 captions": kept.share[-1],
        "share of the rephrasing's variance along the gap": along,
        "the same for uncorrelated noise": 1 / len(gap),
    }
    return Outcome(
        measured,
        [
            check("Clean accuracy is the same at every amount.", np.ptp(still) == 0),
            check(
                "Accuracy under rephrasing rises by more than two standard errors.",
                gain > 2 * gain_error,
            ),
        ],
        {
            "amounts": AMOUNTS,
            "choices": {"clean": still, "rephrased": mean},
            "bands": {"rephrased": (mean - 2 * error, mean + 2 * error)},
            "kept": {"along the whole gap": kept.share},
        },
    )


def _with_rivals(labels: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Each scan with three others of the same digit, (n, 4), its own first."""
    chosen = np.empty((len(labels), CHOICES), dtype=np.int64)
    chosen[:, 0] = np.arange(len(labels))
    for digit in np.unique(labels):
        own = np.flatnonzero(labels == digit)
        # A jump round the circle of this digit's scans never lands where it began.
        jumps = np.stack([rng.permutation(len(own) - 1)[: CHOICES - 1] + 1 for _ in own])
        places = (np.arange(len(own))[:, None] + jumps) % len(own)
        chosen[own, 1:] = own[places]
    return chosen


def _orthogonal(gap: np.ndarray, centred: np.ndarray) -> np.ndarray:
    """The part of the gap orthogonal to each set of centred candidates, (n, d)."""
    axes = np.linalg.svd(centred.astype(np.float64), full_matrices=False)[2][:, : CHOICES - 1]
    directions = np.broadcast_to(gap.astype(np.float64), (len(centred), len(gap)))
    # Twice: one projection leaves rounding of the size of the gap.
    for _ in range(2):
        inside = np.einsum("nkd,nd->nk", axes, directions)
        directions = directions - np.einsum("nkd,nk->nd", axes, inside)
    return directions


def _right(
    queries: np.ndarray, candidates: np.ndarray, directions: np.ndarray, amounts: np.ndarray
) -> np.ndarray:
    """Share of queries nearest to their first candidate, for each amount."""
    rows = candidates.astype(np.float64)
    near = np.einsum("nkd,nd->nk", rows, queries) - (rows**2).sum(axis=2) / 2
    toward = np.einsum("nkd,nd->nk", rows, directions)
    return np.array([np.mean(np.argmax(near - a * toward, axis=1) == 0) for a in amounts])


def _share_along(noise: np.ndarray, gap: np.ndarray) -> float:
    """Mean share of each rephrasing's variance that lies along the gap."""
    centred = noise - noise.mean(axis=1, keepdims=True)
    along = (centred @ (gap / np.linalg.norm(gap))).var(axis=1)
    return float(np.mean(along / centred.var(axis=1).sum(axis=1)))


@PAPER.run("fig15")
def fig15(setting: Setting) -> Outcome:
    """d(C) of every change of wording, beside that of uncorrelated noise."""
    wordings = _wordings()
    count, n, d = wordings.shape
    found = {
        (a, b): noise_correlation(wordings[b] - wordings[a])
        for a, b in permutations(range(count), 2)
    }
    least = min(found.values())
    rng = np.random.default_rng(setting.seed)
    chance = noise_correlation(rng.normal(size=(n, d)))
    sizes, many = [10, 30, 100, 300, 1000, 3000, 10_000], 512
    drawn = {size: noise_correlation(rng.normal(size=(size, many))) for size in sizes}
    measured: dict[str, Number] = {
        "least d(C)": least,
        "mean d(C)": float(np.mean(list(found.values()))),
        "d(C) of uncorrelated noise, same shape": chance,
        "d(C) of uncorrelated noise, 1,000 texts in 512 dimensions": drawn[1000],
        "d(C) of uncorrelated noise, 10 texts in 512 dimensions": drawn[10],
    }
    bars = {f"{a + 1} to {b + 1}": value for (a, b), value in found.items() if a < b}
    return Outcome(
        measured,
        [
            check("d(C) is at least 0.9 for every change of wording.", least >= 0.9),
            check(
                "It is at least twice that of uncorrelated noise of the same shape.",
                least > 2 * chance,
            ),
        ],
        {
            "bars": {**bars, "uncorrelated": chance},
            "classes": sizes,
            "chance": {
                "drawn": list(drawn.values()),
                "√(d/(N + d))": [(many / (size + many)) ** 0.5 for size in sizes],
            },
        },
    )
