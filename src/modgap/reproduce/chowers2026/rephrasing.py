"""Other wordings of the candidates as noise (figs 10, 15)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from modgap import plot
from modgap.datasets import load_digits
from modgap.datasets.digits import WORDINGS
from modgap.evaluation import robustness
from modgap.evaluation.noise import Rephrase, noise_correlation
from modgap.reproduce.chowers2026 import PAPER
from modgap.reproduce.chowers2026.tasks import AMOUNTS
from modgap.reproduce.entry import Number, Outcome, check
from modgap.reproduce.setting import Setting

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CHOICES = 4


def _wordings() -> np.ndarray:
    """Captions of the test scans, (wordings, scans, d)."""
    digits = load_digits("test")
    return digits.Y.reshape(-1, len(WORDINGS), digits.Y.shape[1]).transpose(1, 0, 2)


@PAPER.draw("fig10")
def _draw_choices(outcome: Outcome) -> Figure:
    data = outcome.data
    figure, axes = plot.panels(2, columns=2, size=(4.4, 3.3))
    xlabel = "amount of the orthogonal gap closed"
    plot.curves(
        data["amounts"],
        data["choices"],
        xlabel=xlabel,
        ylabel="accuracy",
        bands=data["bands"],
        title="four captions to choose from",
        ax=axes[0],
    )
    plot.curves(
        data["amounts"],
        data["kept"],
        xlabel=xlabel,
        ylabel="robustness",
        title="1,000 captions in another wording",
        ax=axes[1],
    )
    return figure


@PAPER.run("fig10")
def _choices(setting: Setting) -> Outcome:
    digits, wordings = load_digits("test"), _wordings()
    n, amounts = len(digits.X), np.asarray(AMOUNTS)
    rng = np.random.default_rng(setting.seed)
    draws = 500 if setting.full else 50
    gap = digits.X.mean(axis=0) - digits.Y.mean(axis=0)
    asked = _with_rivals(digits.labels, rng)
    clean = wordings[0][asked]
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
    middle = AMOUNTS.index(0.0)
    change = noisy[:, -1] - noisy[:, middle]
    kept = robustness(digits.X, wordings[0], Rephrase(wordings[1:]), 20, AMOUNTS, seed=setting.seed)
    along = _share_along(wordings[1:] - wordings[0], gap)
    measured: dict[str, Number] = {
        "clean accuracy changed by closing": float(np.ptp(still)),
        "clean accuracy": float(still[middle]),
        "accuracy under rephrasing as trained": float(mean[middle]),
        "accuracy under rephrasing when closed": float(mean[-1]),
        "gain by closing": float(change.mean()),
        "standard error of the gain": float(change.std(ddof=1) / draws**0.5),
        "robustness to rephrasing as trained, 1,000 captions": float(kept.share[middle]),
        "robustness to rephrasing when closed, 1,000 captions": float(kept.share[-1]),
        "share of the rephrasing's variance along the gap": along,
        "the same for uncorrelated noise": 1 / len(gap),
    }
    gain = float(change.mean() / (change.std(ddof=1) / draws**0.5))
    return Outcome(
        measured,
        (
            check("Clean accuracy is the same at every amount.", np.ptp(still) == 0),
            check("Accuracy under rephrasing rises by more than two standard errors.", gain > 2),
        ),
        {
            "amounts": list(AMOUNTS),
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
    lean = np.einsum("nkd,nd->nk", rows, directions)
    return np.array([np.mean(np.argmax(near - a * lean, axis=1) == 0) for a in amounts])


def _share_along(noise: np.ndarray, gap: np.ndarray) -> float:
    """Mean share of each rephrasing's variance that lies along the gap."""
    centred = noise - noise.mean(axis=1, keepdims=True)
    along = (centred @ (gap / np.linalg.norm(gap))).var(axis=1)
    return float(np.mean(along / centred.var(axis=1).sum(axis=1)))


@PAPER.draw("fig15")
def _draw_correlated(outcome: Outcome) -> Figure:
    data = outcome.data
    figure, axes = plot.panels(2, columns=2, size=(4.4, 3.3))
    plot.bars(
        data["bars"], ylabel="d(C)", reference=1.0, title="rephrasings of the digits", ax=axes[0]
    )
    plot.curves(
        data["classes"],
        data["chance"],
        xlabel="number of texts",
        ylabel="d(C)",
        log="x",
        title="what uncorrelated noise gives",
        ax=axes[1],
    )
    return figure


@PAPER.run("fig15")
def _correlated(setting: Setting) -> Outcome:
    wordings = _wordings()
    count, n, d = wordings.shape
    pairs = [(a, b) for a in range(count) for b in range(count) if a != b]
    found = {(a, b): noise_correlation(wordings[b] - wordings[a]) for a, b in pairs}
    rng = np.random.default_rng(setting.seed)
    chance = noise_correlation(rng.normal(size=(n, d)))
    sizes = [10, 30, 100, 300, 1000, 3000, 10_000]
    many = 512
    drawn = [noise_correlation(rng.normal(size=(size, many))) for size in sizes]
    expected = [(many / (size + many)) ** 0.5 for size in sizes]
    at = sizes.index(1000)
    measured: dict[str, Number] = {
        "least d(C)": min(found.values()),
        "mean d(C)": float(np.mean(list(found.values()))),
        "d(C) of uncorrelated noise, same shape": chance,
        "d(C) of uncorrelated noise, 1,000 texts in 512 dimensions": drawn[at],
        "d(C) of uncorrelated noise, 10 texts in 512 dimensions": drawn[0],
    }
    bars = {f"{a + 1} to {b + 1}": value for (a, b), value in found.items() if a < b}
    return Outcome(
        measured,
        (
            check("d(C) is at least 0.9 for every change of wording.", min(found.values()) >= 0.9),
            check(
                "It is at least twice that of uncorrelated noise of the same shape.",
                min(found.values()) > 2 * chance,
            ),
        ),
        {
            "bars": {**bars, "uncorrelated": chance},
            "classes": sizes,
            "chance": {"drawn": drawn, "√(d/(N + d))": expected},
        },
    )
