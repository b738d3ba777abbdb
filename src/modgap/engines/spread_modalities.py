"""Modalities whose rows an engine reads: the same functions then do their sums on its workers.

`measure`, `fit` and `evaluate_correction` ask a modality for its moments and for the rows of a
sample. Here workers gather both, shard by shard; what is left is done as it always is, from the
same sample, so the numbers are the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any

import numpy as np

from modgap.core.checks import InputValueError, check_same_space
from modgap.core.results import Progress, silent
from modgap.engines.arrow import moments_batch, moments_of
from modgap.engines.engine import Engine, LocalEngine, open_engine
from modgap.engines.row_ranges import pieces, range_of
from modgap.io import Embeddings, Modalities
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
    given = {one.name: getattr(data, one.name) for one in fields(Modalities)}
    given["sides"] = {name: spread_rows(side, opened) for name, side in data.sides.items()}
    given["asking"] = {name: spread_rows(side, opened) for name, side in data.asking.items()}
    return SpreadModalities(**given, engine=opened)


def spread_rows(rows: Embeddings, engine: Engine) -> SpreadEmbeddings:
    """The rows of one modality, read by an engine."""
    given = {one.name: getattr(rows, one.name) for one in fields(Embeddings)}
    if not isinstance(rows.matrix, SpreadMatrix):
        given["matrix"] = SpreadMatrix(rows.matrix, engine)
    return SpreadEmbeddings(**given)


class SpreadMatrix(Matrix):
    """A matrix whose rows an engine takes; each worker reads its own shard."""

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


class SpreadEmbeddings(Embeddings):
    """One modality's rows, whose moments and samples an engine gathers."""

    def moments(self, name: str, progress: Progress = silent, **options: Any) -> Moments:
        """Moments of every row, each worker of its shard; see `Moments`."""
        matrix = self.matrix
        if not isinstance(matrix, SpreadMatrix):  # a sample, which is in memory
            return super().moments(name, progress, **options)
        tasks = pieces(matrix.matrix)
        work = partial(_moments, name, options)
        total: Moments | None = None
        step = f"reading {name}"
        progress(step, 0, self.n_rows)
        for (piece, first), batch in zip(tasks, matrix.engine.map(work, tasks), strict=True):
            part = moments_of(batch)
            if total is not None:
                check_same_space(total.given.mean[None, :], part.given.mean[None, :])
            total = part if total is None else total + part
            progress(step, first + piece.shape[0], self.n_rows)
        if total is None:
            raise InputValueError(f"{name} must have at least one row, got none.")
        return total


@dataclass(frozen=True, eq=False, repr=False)
class SpreadModalities(Modalities):
    """Modalities whose pair moments an engine gathers too."""

    engine: Engine = field(default_factory=LocalEngine)

    def take(self, rows: Sequence[np.ndarray], *others: Any, **options: Any) -> Modalities:
        """These rows of each side, in memory here; see `Modalities.take`."""
        taken = super().take(rows, *others, **options)
        return Modalities(**{one.name: getattr(taken, one.name) for one in fields(Modalities)})

    def with_duplicates_grouped(self) -> Modalities:
        """The same: rows that workers read are not compared here."""
        return self

    def pair_moments(self, progress: Progress = silent) -> PairMoments:
        """Moments of both sides and across them; row i of every side must be a pair."""
        (x, y), (x_name, y_name) = self.two(), self.names
        if not (isinstance(x.matrix, SpreadMatrix) and isinstance(y.matrix, SpreadMatrix)):
            return super().pair_moments(progress)
        others = y.matrix.matrix.shards()
        tasks = [
            (piece, range_of(others, first, first + piece.shape[0]), first)
            for piece, first in pieces(x.matrix.matrix)
        ]
        work = partial(_pair_moments, (x_name, y_name))
        total: PairMoments | None = None
        progress("reading pairs", 0, x.n_rows)
        for (X, _, first), part in zip(tasks, self.engine.map(work, tasks), strict=True):
            total = part if total is None else total + part
            progress("reading pairs", first + X.shape[0], x.n_rows)
        assert total is not None  # a matrix has at least one row
        return total


def _pair_moments(names: tuple[str, str], task: tuple[Matrix, Matrix, int]) -> PairMoments:
    """The pair moments of a range of rows."""
    X, Y, first_row = task
    both = X.batches(BATCH_ROWS), Y.batches(BATCH_ROWS)
    return PairMoments.from_stream(*both, names=names, first_row=first_row)


def _moments(name: str, options: dict[str, Any], task: tuple[Matrix, int]) -> Any:
    """One row of partial moments of a shard."""
    piece, first_row = task
    batches = piece.batches(BATCH_ROWS)
    return moments_batch(Moments.from_stream(batches, name=name, first_row=first_row, **options))


def _taken(task: tuple[Matrix, np.ndarray]) -> np.ndarray:
    piece, indices = task
    return piece.take(indices)
