"""What is done to candidates: noise, storing them in few bits, and draws of a noise."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from modgap.arrays import as_float, is_torch, like, namespace, row_blocks, to_numpy, unit, widen
from modgap.arrays.cuda import has_kernels
from modgap.arrays.cuda.nearest import draws_at_once
from modgap.core.checks import (
    Array,
    InputValueError,
    check_count,
    check_finite,
    check_positive,
    check_values,
)
from modgap.core.results import Brief, Progress
from modgap.core.stopping import stop_here
from modgap.core.threads import in_threads
from modgap.corrections import Metric
from modgap.search.scores import fits_float32, row_factors

# Draws of fewer numbers than these are mapped together: each alone would take longer to begin.
_TOGETHER = 2**18
# Maps candidates, and finds the nearest of those, (amounts, queries), once they are factors.
RowsToRows = Callable[[Array], Array]


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


@runtime_checkable
class Quantiser(Protocol):
    """Stores documents in few bits. ``fit`` learns ranges and returns the fitted quantiser."""

    def fit(self, documents: Array) -> Quantiser:
        """A quantiser fitted to these documents."""

    def documents(self, rows: Array) -> Array:
        """Documents as they read after storing."""

    def queries(self, rows: Array) -> Array:
        """Queries as they are compared with the stored documents."""


@dataclass(frozen=True)
class UniformQuantiser:
    """Evenly spaced levels in a fixed range, on documents and queries (Chowers et al., 5.2)."""

    levels: int
    low: float = -3.0
    high: float = 3.0

    def __post_init__(self) -> None:
        check_count(self.levels, "levels", at_least=2)
        if not check_finite(self.low, "low") < check_finite(self.high, "high"):
            raise InputValueError(f"low must be below high, got {self.low} and {self.high}.")

    def fit(self, documents: Array) -> UniformQuantiser:
        """Nothing to learn: the range is fixed."""
        return self

    def documents(self, rows: Array) -> Array:
        """Each value at the nearest level."""
        step = (self.high - self.low) / (self.levels - 1)
        return _at_levels(as_float(rows), self.low, step, self.levels)

    def queries(self, rows: Array) -> Array:
        """Queries are quantised like documents."""
        return self.documents(rows)


@dataclass(frozen=True, eq=False)
class Int8(Brief):
    """256 levels between the least and the largest value of each dimension; queries stay floats."""

    low: Array | None = None
    high: Array | None = None

    def fit(self, documents: Array) -> Int8:
        """Ranges of these documents; a fitted quantiser keeps the ranges it has."""
        if self.low is not None:
            return self
        xp = namespace(documents)
        rows = as_float(documents)
        return Int8(xp.min(rows, axis=0), xp.max(rows, axis=0))

    def documents(self, rows: Array) -> Array:
        """Each value at the nearest level, clipped to the fitted range."""
        rows = as_float(rows)
        if self.low is None or self.high is None:
            raise InputValueError("Int8 must be fitted to documents first.")
        xp = namespace(rows)
        step = (self.high - self.low) / 255
        # A dimension without spread has one level; dividing by 1 keeps it there.
        step = xp.where(step > 0, step, xp.ones_like(step))
        return _at_levels(rows, self.low, step, 256)

    def queries(self, rows: Array) -> Array:
        """Queries as they are."""
        return as_float(rows)


@dataclass(frozen=True)
class OneBit:
    """The sign of each coordinate; queries stay floats."""

    def fit(self, documents: Array) -> OneBit:
        """Nothing to learn."""
        return self

    def documents(self, rows: Array) -> Array:
        """+1 or −1 for each coordinate, 0 counting as positive."""
        xp = namespace(rows)
        rows = as_float(rows)
        return xp.where(rows >= 0, xp.ones_like(rows), -xp.ones_like(rows))

    def queries(self, rows: Array) -> Array:
        """Queries as they are."""
        return as_float(rows)


def _at_levels(rows: Array, low: Array | float, step: Array | float, levels: int) -> Array:
    xp = namespace(rows)
    return low + xp.clip(xp.round((rows - low) / step), 0, levels - 1) * step


class Draws:
    """Disturbed candidates by the number of the draw; with ``kept``, each draw is made once.

    They depend on the seed, on the shape of the candidates, and on whether a GPU draws them.
    """

    def __init__(
        self, noise: Noise, candidates: Array, count: int, seed: int = 0, *, kept: bool = False
    ) -> None:
        self.noise, self.candidates, self.count = noise, candidates, count
        self._seeds = np.random.SeedSequence(seed).spawn(count)
        self._kept: dict[int, Array] | None = {} if kept else None

    def __call__(self, number: int) -> Array:
        """The candidates of one draw."""
        if self._kept is not None and number in self._kept:
            return self._kept[number]
        found = self.noise.perturb(self.candidates, np.random.default_rng(self._seeds[number]))
        if self._kept is not None:
            self._kept[number] = found
        return found


def kept_in_draws(
    draws: Draws,
    corrected: RowsToRows,
    nearest: RowsToRows,
    reference: Array,
    metric: Metric,
    progress: Progress,
) -> tuple[np.ndarray, np.ndarray]:
    """In how many draws each query kept its neighbour, and the share that did in each draw.

    Both by amounts: (amounts, queries), and (draws, amounts).
    """
    if has_kernels(reference):
        found = _on_card(draws, corrected, nearest, reference, metric, progress)
        if found is not None:
            return found

    n_rows, dim = draws.candidates.shape

    def some_draws(numbers: slice) -> list[np.ndarray]:
        disturbed = [draws(number) for number in range(numbers.start, numbers.stop)]
        rows = corrected(namespace(reference).concat(disturbed))
        check_values(rows, "disturbed candidates", nonzero=metric == "cosine")
        factors = (row_factors(rows[draw], metric) for draw in row_blocks(len(rows), n_rows))
        return [to_numpy(nearest(one) == reference) for one in factors]

    kept = np.zeros(tuple(reference.shape), dtype=np.int64)
    shares: list[np.ndarray] = []
    workers = 1 if is_torch(reference) else None
    together = row_blocks(draws.count, max(1, _TOGETHER // (n_rows * dim)))
    for several in in_threads(some_draws, together, workers):
        for same in several:
            kept += same
            shares.append(same.mean(axis=1))
            progress("noise", len(shares), draws.count)
        stop_here()  # draws may run in threads, which are not asked
    return kept, np.asarray(shares)


def _on_card(
    draws: Draws,
    corrected: RowsToRows,
    nearest: RowsToRows,
    reference: Array,
    metric: Metric,
    progress: Progress,
) -> tuple[np.ndarray, np.ndarray] | None:
    """The same on a GPU, from which nothing is read before all draws are under way.

    None where some candidates need a closer look.
    """
    xp, count = namespace(reference), draws.count
    kept = xp.zeros_like(reference)
    shares: list[Any] = []
    usable: list[Any] = []
    waiting: list[Array] = []
    for number in range(count):
        rows = as_float(corrected(draws(number)))
        waiting.append(rows)
        progress("noise", number + 1, count)
        stop_here()
        if len(waiting) < draws_at_once(reference.shape[1], rows.shape[0]) and number + 1 < count:
            continue
        several = xp.stack(waiting)
        waiting = []
        usable.append(_is_usable(several, metric))
        if metric == "cosine":
            several = unit(several.reshape(-1, several.shape[2])).reshape(several.shape)
        same = nearest(several) == reference
        kept += xp.sum(same, axis=0)
        shares.append(xp.mean(widen(same), axis=2))
    if not bool(xp.all(xp.stack(usable))):
        return None
    return to_numpy(kept), to_numpy(xp.concat(shares))


def _is_usable(rows: Array, metric: Metric) -> Array:
    """Whether rows are finite, of a length that float32 squares, and none zero for cosines."""
    xp = namespace(rows)
    fit = fits_float32(xp.max(xp.abs(rows)))  # not where it is NaN
    if metric == "cosine":
        fit = fit & (xp.min(xp.linalg.vector_norm(rows, axis=-1)) > 0)
    return fit
