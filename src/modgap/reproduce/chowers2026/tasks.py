"""What the figures about nearest neighbours share: three tasks, and sweeps of the gap on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from modgap._arrays import unit
from modgap.corrections import OrthogonalShift
from modgap.datasets import load_digits
from modgap.evaluation import Robustness, robustness
from modgap.evaluation.noise import Noise
from modgap.evaluation.robustness import nearest
from modgap.reproduce.setting import Setting
from modgap.reproduce.threads import one_thread

ON_TASKS = (
    "CLIP ViT-B/16 on 500 MS-COCO pairs and VideoCLIP on 100, images finding their captions; "
    "and the digits, 1,000 scans classified by ten class texts"
)
# −1 doubles the gap, 0 leaves it, 1 closes what the direction can close.
AMOUNTS = tuple(np.linspace(-1, 1, 9).tolist())
BEYOND = tuple(np.linspace(-1, 2, 13).tolist())


@dataclass(frozen=True, eq=False)
class Task:
    """Queries that look for their nearest candidate; ``truth`` is the right one of each."""

    name: str
    queries: np.ndarray
    candidates: np.ndarray
    truth: np.ndarray

    def direction(self, explained_variance: float = 1.0) -> tuple[np.ndarray, float]:
        """The vector that closes the gap (eq. 11, algorithm 1), and what share of it closes."""
        with one_thread():
            shift = OrthogonalShift("y", explained_variance).fit(self.queries, self.candidates)
        step = np.asarray(shift.correction_.y(np.zeros_like(self.candidates[:1])))[0]
        return step, float(shift.closed_)

    def accuracy(self, amounts: Sequence[float], direction: np.ndarray) -> np.ndarray:
        """Share of right answers as the candidates move; of pairs this is recall@1."""
        with one_thread():
            found = nearest(
                self.queries, self.candidates, "euclidean", np.asarray(amounts, float), direction
            )
        return np.asarray((found == self.truth).mean(axis=1))

    def robustness(
        self, noise: Noise, draws: int, amounts: Sequence[float], direction: np.ndarray, seed: int
    ) -> Robustness:
        """Share of unchanged neighbours as the candidates move (eq. 12)."""
        return robustness(
            self.queries, self.candidates, noise, draws, amounts, direction=direction, seed=seed
        )

    @property
    def gap(self) -> np.ndarray:
        """From the candidates' mean to the queries'."""
        return np.asarray(self.queries.mean(axis=0) - self.candidates.mean(axis=0))


def class_texts(wording: int | None = None) -> np.ndarray:
    """A text per digit: the unit mean of its captions in the train part, of one wording or all."""
    part = load_digits("train")
    label = dict(zip(part.groups[0].tolist(), part.labels.tolist(), strict=True))
    digit = np.array([label[group] for group in part.groups[1].tolist()])
    kept = np.ones(len(digit), bool) if wording is None else part.wording == wording
    means = [part.Y[kept & (digit == k)].mean(axis=0) for k in range(10)]
    return np.asarray(unit(np.stack(means))).astype(np.float32)


def digits_task(wording: int | None = None) -> Task:
    """Zero-shot classification of the test scans."""
    part = load_digits("test")
    return Task("digits", part.X, class_texts(wording), part.labels)


def tasks(setting: Setting) -> tuple[Task, ...]:
    """The digits and the authors' two trained systems."""
    paired = []
    for name, system in (("CLIP", "clip"), ("VideoCLIP", "videoclip")):
        X, Y = setting.arrays(system)
        paired.append(Task(name, X, Y, np.arange(len(X))))
    return (digits_task(), *paired)


def rises(found: Robustness, errors: float = 2.0) -> bool:
    """Whether no step of a sweep falls by more than that many standard errors."""
    fall = found.share[:-1] - found.share[1:]
    allowed = errors * np.hypot(found.standard_error[:-1], found.standard_error[1:])
    return bool(np.all(fall <= allowed))
