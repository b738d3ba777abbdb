"""Noise on candidates, and how correlated a noise is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from modgap._arrays import like, namespace, to_numpy, written
from modgap._results import Brief
from modgap._validate import Array, InputValueError, check_matrix, check_positive
from modgap.moments import Moments


@runtime_checkable
class Noise(Protocol):
    """Anything that disturbs candidates."""

    def perturb(self, candidates: Array, rng: np.random.Generator) -> Array:
        """Disturbed candidates, drawn from ``rng``; the given ones stay as they are."""


@dataclass(frozen=True)
class _Additive(ABC):
    """Independent zero-mean noise of standard deviation ``std`` on every coordinate."""

    std: float

    def __post_init__(self) -> None:
        check_positive(self.std, "std")

    def perturb(self, candidates: Array, rng: np.random.Generator) -> Array:
        """Candidates plus one draw; the same draw for NumPy and for torch on any device."""
        xp = namespace(candidates)
        drawn = written(lambda out: self._draw(rng, out), tuple(candidates.shape), candidates)
        return candidates + xp.astype(drawn * np.float32(self.std).item(), candidates.dtype)

    @abstractmethod
    def _draw(self, rng: np.random.Generator, out: np.ndarray) -> None:
        """Write a draw of standard deviation 1 into an array of float32."""


class Gaussian(_Additive):
    """Normal noise."""

    def _draw(self, rng: np.random.Generator, out: np.ndarray) -> None:
        rng.standard_normal(dtype=np.float32, out=out)


class Uniform(_Additive):
    """Noise spread evenly around zero."""

    def _draw(self, rng: np.random.Generator, out: np.ndarray) -> None:
        rng.random(dtype=np.float32, out=out)
        out[...] = (out * 2 - 1) * np.float32(3**0.5)


class Laplace(_Additive):
    """Noise with heavier tails than the normal."""

    def _draw(self, rng: np.random.Generator, out: np.ndarray) -> None:
        rng.standard_exponential(dtype=np.float32, out=out)
        out *= _signs(rng, out.shape)
        out /= np.float32(2**0.5)


class Rademacher(_Additive):
    """Every coordinate up or down by the same amount."""

    def _draw(self, rng: np.random.Generator, out: np.ndarray) -> None:
        out[...] = _signs(rng, out.shape)


def _signs(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """1 or −1."""
    return rng.integers(0, 2, shape, dtype=np.int8).astype(np.float32) * 2 - 1


@dataclass(frozen=True, eq=False)
class Rephrase(Brief):
    """Each candidate replaced by one of its other wordings, embedded anew.

    ``wordings`` is (w, m, d): w embeddings of each of the m candidates.
    """

    wordings: Array

    def perturb(self, candidates: Array, rng: np.random.Generator) -> Array:
        """For each candidate one of its wordings."""
        if tuple(self.wordings.shape[1:]) != tuple(candidates.shape):
            raise InputValueError(
                f"wordings must be (w, m, d) for candidates of shape {tuple(candidates.shape)}, "
                f"got {tuple(self.wordings.shape)}."
            )
        chosen = like(rng.integers(0, self.wordings.shape[0], candidates.shape[0]), candidates)
        return self.wordings[chosen, like(np.arange(candidates.shape[0]), candidates)]


def noise_correlation(E: Array) -> float:
    """‖C − diag C‖_F / ‖C‖_F of the covariance C of noise rows E (Chowers et al., eq. 50).

    0 for uncorrelated noise, near 1 when the coordinates move together, as under rephrasing.

    >>> import numpy as np
    >>> round(noise_correlation(np.array([[1.0, 1.0], [-1.0, -1.0]])), 4)
    0.7071
    """
    C = to_numpy(Moments.from_batch(check_matrix(E, "E"), name="E", unit=False).given.covariance)
    whole = float(np.linalg.norm(C))
    return float(np.linalg.norm(C - np.diag(np.diag(C)))) / whole if whole > 0 else float("nan")
