"""Noise on candidates, and how correlated a noise is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from modgap._arrays import is_torch, like, namespace, to_numpy
from modgap._door import check_matrix
from modgap._results import Brief
from modgap._validate import Array, InputValueError, check_positive
from modgap.moments.modality import moments_of_rows


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
        """Candidates plus one draw.

        NumPy draws for arrays and for tensors of the processor, with the same numbers. Tensors of
        a GPU get torch's numbers, of a generator on their device that ``rng`` seeds.
        """
        xp, shape = namespace(candidates), tuple(candidates.shape)
        if is_torch(candidates) and candidates.device.type != "cpu":
            drawn = self._draw(_TorchSource(candidates.device, int(rng.integers(2**63))), shape)
        else:
            drawn = like(self._draw(_NumpySource(rng), shape), candidates)
        return candidates + xp.astype(drawn * np.float32(self.std).item(), candidates.dtype)

    @abstractmethod
    def _draw(self, source: _NumpySource | _TorchSource, shape: tuple[int, ...]) -> Array:
        """A draw of standard deviation 1 in float32."""


class Gaussian(_Additive):
    """Normal noise."""

    def _draw(self, source: _NumpySource | _TorchSource, shape: tuple[int, ...]) -> Array:
        return source.normal(shape)


class Uniform(_Additive):
    """Noise spread evenly around zero."""

    def _draw(self, source: _NumpySource | _TorchSource, shape: tuple[int, ...]) -> Array:
        return (source.uniform(shape) * 2 - 1) * 3**0.5


class Laplace(_Additive):
    """Noise with heavier tails than the normal."""

    def _draw(self, source: _NumpySource | _TorchSource, shape: tuple[int, ...]) -> Array:
        return source.exponential(shape) * source.signs(shape) / 2**0.5


class Rademacher(_Additive):
    """Every coordinate up or down by the same amount."""

    def _draw(self, source: _NumpySource | _TorchSource, shape: tuple[int, ...]) -> Array:
        return source.signs(shape)


class _NumpySource:
    """Random numbers of NumPy's generator, in float32."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def normal(self, shape: tuple[int, ...]) -> Array:
        return self.rng.standard_normal(shape, dtype=np.float32)

    def uniform(self, shape: tuple[int, ...]) -> Array:
        return self.rng.random(shape, dtype=np.float32)

    def exponential(self, shape: tuple[int, ...]) -> Array:
        return self.rng.standard_exponential(shape, dtype=np.float32)

    def signs(self, shape: tuple[int, ...]) -> Array:
        return self.rng.integers(0, 2, shape, dtype=np.int8).astype(np.float32) * 2 - 1


class _TorchSource:
    """Random numbers of torch's generator on a device: the same distributions in float32."""

    def __init__(self, device: Any, seed: int) -> None:
        import torch

        self.device = device
        self.generator = torch.Generator(device).manual_seed(seed)

    def normal(self, shape: tuple[int, ...]) -> Array:
        return self._empty(shape).normal_(generator=self.generator)

    def uniform(self, shape: tuple[int, ...]) -> Array:
        return self._empty(shape).uniform_(generator=self.generator)

    def exponential(self, shape: tuple[int, ...]) -> Array:
        return self._empty(shape).exponential_(generator=self.generator)

    def signs(self, shape: tuple[int, ...]) -> Array:
        return self._empty(shape).bernoulli_(0.5, generator=self.generator) * 2 - 1

    def _empty(self, shape: tuple[int, ...]) -> Any:
        import torch

        return torch.empty(shape, dtype=torch.float32, device=self.device)


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
    C = to_numpy(moments_of_rows(check_matrix(E, "E"), "E", unit=False).given.covariance)
    whole = float(np.linalg.norm(C))
    return float(np.linalg.norm(C - np.diag(np.diag(C)))) / whole if whole > 0 else float("nan")
