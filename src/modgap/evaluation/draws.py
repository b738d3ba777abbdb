"""Counts in how many draws of a noise each query keeps its nearest candidate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from modgap._arrays import as_float, is_torch, namespace, row_blocks, to_numpy, unit, widen
from modgap._arrays.cuda import has_kernels
from modgap._arrays.cuda.nearest import draws_at_once
from modgap._results import Progress
from modgap._stopping import stop_here
from modgap._threads import in_threads
from modgap._validate import Array, check_values
from modgap.corrections import Metric
from modgap.evaluation.noise import Noise
from modgap.search.scores import fits_float32, row_factors

# Draws of fewer numbers than these are mapped together: each alone would take longer to begin.
_TOGETHER = 2**18
# Maps candidates, and finds the nearest of those, (amounts, queries), once they are factors.
RowsToRows = Callable[[Array], Array]


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
