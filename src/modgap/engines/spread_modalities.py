"""Modalities whose rows an engine reads: the same functions then do their sums on its workers.

`measure`, `fit` and `evaluate_correction` ask a modality for its moments and for the rows of a
sample. Here workers gather both, shard by shard; what is left is done as it always is, from the
same sample, so the numbers are the same.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from modgap.core.results import Progress
from modgap.engines.engine import Engine, LocalEngine, open_engine
from modgap.engines.row_ranges import pieces, range_of
from modgap.io import Modalities
from modgap.io._matrices import BATCH_ROWS, Matrix
from modgap.moments import Moments, PairMoments


def spread(data: Modalities, engine: str | Engine) -> Modalities:
    """The same modalities, read by an engine; ``local`` leaves them as they are.

    Parameters
    ----------
    data : Modalities
        What `modgap.open_pair` and its like give.
    engine : str or Engine
        As for `open_engine`.

    >>> data = Modalities.of(np.eye(3), -np.eye(3))
    >>> spread(data, "local") is data
    True
    """
    opened = open_engine(engine)
    if isinstance(opened, LocalEngine):
        return data
    sides, asking = (
        {name: replace(side, matrix=SpreadMatrix(side.matrix, opened)) for name, side in of.items()}
        for of in (data.sides, data.asking)
    )
    return replace(data, sides=sides, asking=asking)


class SpreadMatrix(Matrix):
    """A matrix whose rows and moments an engine gathers; each worker reads its own shard."""

    def __init__(self, matrix: Matrix, engine: Engine) -> None:
        self.matrix, self.engine = matrix, engine
        self.shape, self.dtype = matrix.shape, matrix.dtype

    def shards(self) -> list[Matrix]:
        """The shards, in order."""
        return self.matrix.shards()

    def blocks(self, size: int) -> Any:
        """The rows in order, read here."""
        return self.matrix.batches(size)

    def rows(self) -> Any:
        """The whole matrix, read here."""
        return self.matrix.rows()

    def take(self, indices: np.ndarray) -> np.ndarray:
        """The rows at ``indices``, read by the workers."""
        taken = np.empty((len(indices), *self.shape[1:]), self.dtype)
        tasks, places = [], []
        for piece, first in pieces(self.matrix):
            here = np.flatnonzero((indices >= first) & (indices < first + piece.shape[0]))
            if len(here):
                tasks.append((piece, indices[here] - first))
                places.append(here)
        for here, rows in zip(places, self.engine.map(_taken, tasks), strict=True):
            taken[here] = rows
        return taken

    def spread_moments(self, name: str, progress: Progress, **options: Any) -> Moments:
        """Moments of every row, each worker of its shard; see `Moments`."""
        tasks = pieces(self.matrix)
        return self._summed(tasks, partial(_moments, name, options), f"reading {name}", progress)

    def spread_pair_moments(
        self, other: Matrix, names: tuple[str, str], progress: Progress
    ) -> PairMoments:
        """Moments of these rows, of their pairs and across them."""
        assert isinstance(other, SpreadMatrix)
        others = other.matrix.shards()
        tasks = [
            (piece, first, range_of(others, first, first + piece.shape[0]))
            for piece, first in pieces(self.matrix)
        ]
        return self._summed(tasks, partial(_pair_moments, names), "reading pairs", progress)

    def _summed(self, tasks: list[Any], work: Any, step: str, progress: Progress) -> Any:
        """The sum of what workers gather; a task begins with its rows and their first number."""
        total = None
        progress(step, 0, self.shape[0])
        for (piece, first, *_), part in zip(tasks, self.engine.map(work, tasks), strict=True):
            total = part if total is None else total + part
            progress(step, first + piece.shape[0], self.shape[0])
        assert total is not None  # a matrix has at least one row
        return total


def _pair_moments(names: tuple[str, str], task: tuple[Matrix, int, Matrix]) -> PairMoments:
    """The pair moments of a range of rows."""
    X, first_row, Y = task
    both = X.batches(BATCH_ROWS), Y.batches(BATCH_ROWS)
    return PairMoments.from_stream(*both, names=names, first_row=first_row)


def _moments(name: str, options: dict[str, Any], task: tuple[Matrix, int]) -> Moments:
    """The moments of a shard."""
    piece, first_row = task
    batches = piece.batches(BATCH_ROWS)
    return Moments.from_stream(batches, name=name, first_row=first_row, **options)


def _taken(task: tuple[Matrix, np.ndarray]) -> np.ndarray:
    piece, indices = task
    return piece.take(indices)
