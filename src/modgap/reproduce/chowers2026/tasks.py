"""What the figures about nearest neighbours share: three tasks, and sweeps of the gap on them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from modgap._arrays import unit
from modgap.corrections import OrthogonalShift
from modgap.datasets import load_digits
from modgap.evaluation import Robustness, robustness
from modgap.evaluation.noise import Gaussian, Noise
from modgap.evaluation.quantise import Quantiser
from modgap.evaluation.robustness import nearest
from modgap.reproduce.setting import Setting
from modgap.reproduce.statistics import rises_nowhere
from modgap.reproduce.threads import one_thread

# −1 doubles the gap, 0 leaves it, 1 closes what the direction can close.
AMOUNTS = tuple(np.linspace(-1, 1, 9).tolist())
AS_TRAINED = AMOUNTS.index(0.0)
Sweeps = Mapping[str, Robustness]


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
            # The paper moves rows as they are.
            shift = OrthogonalShift("y", explained_variance).fit(
                self.queries, self.candidates, rows="given"
            )
        step = np.asarray(shift.correction_.y(np.zeros_like(self.candidates[:1])))[0]
        return step, float(shift.closed_)

    def accuracy(self, amounts: Sequence[float], direction: np.ndarray) -> np.ndarray:
        """Share of right answers as the candidates move; of pairs this is recall@1."""
        with one_thread():
            found = nearest(
                self.queries, self.candidates, "euclidean", np.asarray(amounts, float), direction
            )
        return np.asarray((found == self.truth).mean(axis=1))

    def sweeps(
        self,
        noises: Mapping[str, Noise | Quantiser],
        draws: int,
        direction: np.ndarray,
        seed: int = 0,
        amounts: Sequence[float] = AMOUNTS,
    ) -> dict[str, Robustness]:
        """Share of unchanged neighbours under each noise as the candidates move (eq. 12)."""
        rows = self.queries, self.candidates
        return {
            name: robustness(*rows, noise, draws, amounts, direction=direction, seed=seed)
            for name, noise in noises.items()
        }

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


def each_task(setting: Setting, step: str) -> Iterator[Task]:
    """The tasks one after the other; progress names the task and the step."""
    found = tasks(setting)
    for done, task in enumerate(found):
        setting.say(f"{task.name}: {step}", done, len(found))
        yield task


def gaussians(*stds: float) -> dict[str, Noise]:
    """Gaussian noises by their standard deviations."""
    return {f"σ {std:g}": Gaussian(std) for std in stds}


def shares(sweeps: Sweeps) -> dict[str, np.ndarray]:
    """A line of a picture for every sweep."""
    return {f"robustness, {name}": sweep.share for name, sweep in sweeps.items()}


def fall_nowhere(sweeps: Sweeps) -> bool:
    """Whether no step of any sweep falls by more than two standard errors."""
    return all(rises_nowhere(-sweep.share, sweep.standard_error) for sweep in sweeps.values())
