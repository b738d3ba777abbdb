"""The symmetric contrastive loss of a set of pairs, in blocks, and what it is made of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from modgap._arrays import (
    RunningLogSumExp,
    as_float,
    like,
    log_sum_exp,
    namespace,
    row_blocks,
    row_norms,
    rows_per_block,
    told_blocks,
    unit,
    widen,
)
from modgap._results import Result
from modgap._validate import (
    Array,
    InputValueError,
    check_choice,
    check_count,
    check_pairs,
    check_temperature,
)
from modgap.moments import PairMoments

Similarity = Literal["cosine", "squared_distance"]
MAX_MATRIX_ROWS = 5_000
MAX_FLOAT32_NORM = 1e12


@dataclass(frozen=True)
class LossTerms(Result):
    """The contrastive loss as the sum of alignment and uniformity (Levi & Gilboa, eq. 8).

    Matched is decided in each direction by itself: a row of X whose nearest Y is its own pair has
    its cross-entropy over Y counted among the matched, a row of Y whose nearest X is, its own over
    X. ``matched`` is the mean of these, ``mismatched`` that of all others; NaN where there are
    none. ``n_matched`` is how many of the 2n rows of both sides are matched, n being the pairs.
    """

    loss: float
    alignment: float
    uniformity: float
    matched: float
    mismatched: float
    n_matched: int
    n: int


class PairLosses:
    """Gathers the loss of each pair from blocks of rows of the n × n similarities."""

    def __init__(self, temperature: float) -> None:
        self.temperature = temperature
        self._rows: list[Array] = []
        self._own: list[Array] = []
        self._row_hits: list[Array] = []
        self._columns = RunningLogSumExp()
        self._column_tops: Array | None = None
        self._start = 0

    def add(self, similarities: Array) -> None:
        """Take in the next rows of the matrix of similarities."""
        xp = namespace(similarities)
        logits = similarities / self.temperature
        count = logits.shape[0]
        own = logits[
            like(np.arange(count), logits),
            like(np.arange(self._start, self._start + count), logits),
        ]
        self._start += count
        self._own.append(widen(own))
        self._row_hits.append(own >= xp.max(logits, axis=1))
        self._rows.append(log_sum_exp(logits, axis=1))
        self._columns.add(logits)
        tops = xp.max(logits, axis=0)
        before = self._column_tops
        self._column_tops = tops if before is None else xp.maximum(before, tops)

    def terms(self) -> LossTerms:
        """The loss and its terms over everything taken in."""
        xp = namespace(self._own[0])
        own, rows, row_hits = (xp.concat(p) for p in (self._own, self._rows, self._row_hits))
        return terms_of(own, rows, self._columns.value(), row_hits, own >= widen(self._column_tops))


def terms_of(
    own: Array, rows: Array, columns: Array, row_hits: Array, column_hits: Array
) -> LossTerms:
    """Terms from each pair's own logit, and the log-sum-exp and the hits of rows and columns."""
    xp = namespace(own)
    losses = xp.concat([rows - own, columns - own])
    hits = xp.astype(xp.concat([row_hits, column_hits]), losses.dtype)
    both, n_matched = losses.shape[0], int(xp.sum(hits))
    total, total_matched = float(xp.sum(losses)), float(xp.sum(losses * hits))
    nan = float("nan")
    return LossTerms(
        loss=total / both,
        alignment=-float(xp.mean(own)),
        uniformity=float(xp.mean((rows + columns) / 2)),
        matched=total_matched / n_matched if n_matched else nan,
        mismatched=(total - total_matched) / (both - n_matched) if n_matched < both else nan,
        n_matched=n_matched,
        n=own.shape[0],
    )


def batched_terms(similarities: Array, temperature: float) -> tuple[Array, ...]:
    """What ``terms_of`` takes, of stacked batches (k, b, b), flattened."""
    xp = namespace(similarities)
    logits = similarities / temperature
    diagonal = xp.linalg.diagonal(logits)
    parts = (
        widen(diagonal),
        log_sum_exp(logits, axis=2),
        log_sum_exp(logits, axis=1),
        diagonal >= xp.max(logits, axis=2),
        diagonal >= xp.max(logits, axis=1),
    )
    return tuple(part.reshape(-1) for part in parts)


def similarity_blocks(X: Array, Y: Array, similarity: Similarity) -> Iterator[Array]:
    """Blocks of rows of the n × n similarities of prepared rows."""
    for rows in told_blocks(X.shape[0], rows_per_block(Y.shape[0])):
        yield similarities(X[rows], Y, similarity)


def similarities(X: Array, Y: Array, similarity: Similarity) -> Array:
    """Similarities of prepared rows, (…, n, d) with (…, m, d)."""
    xp = namespace(X)
    products = X @ xp.matrix_transpose(Y)
    if similarity == "cosine":
        return products
    x_squares, y_squares = xp.sum(X**2, axis=-1), xp.sum(Y**2, axis=-1)
    return 2 * products - x_squares[..., :, None] - y_squares[..., None, :]


def prepare(X: Array, Y: Array, similarity: Similarity) -> tuple[Array, Array]:
    """Rows whose products give the similarity: unit rows for cosines, rows as given otherwise."""
    check_choice(similarity, "similarity", ("cosine", "squared_distance"))
    if similarity == "cosine":
        return unit(X), unit(Y)
    return _around_origin(X, Y)


def _around_origin(X: Array, Y: Array) -> tuple[Array, Array]:
    """Both sides moved by one vector to lie around the origin; distances stay.

    ‖x‖² + ‖y‖² − 2 x·y loses the digits that matter when all rows are far from the origin.
    """
    xp = namespace(X)
    means = PairMoments.from_batch(X, Y, detail="mean", unit=False)
    centre = (means.x.given.mean + means.y.given.mean) / 2
    largest = max(float(xp.max(row_norms(A))) for A in (X, Y))
    sides = []
    for A in (X, Y):
        # The squares of very long and very short rows do not fit float32.
        fits = 1 / MAX_FLOAT32_NORM < largest < MAX_FLOAT32_NORM
        out = xp.empty_like(as_float(A) if fits else widen(A))
        for rows in row_blocks(A.shape[0], rows_per_block(A.shape[1])):
            out[rows] = xp.astype(widen(A[rows]) - centre, out.dtype)
        sides.append(out)
    return sides[0], sides[1]


def loss_terms(
    X: Array,
    Y: Array | None = None,
    temperature: float = 0.01,
    batch_size: int | None = None,
    similarity: Similarity = "cosine",
) -> LossTerms:
    """The contrastive loss, split into alignment and uniformity (Levi & Gilboa, eq. 8).

    Their sum is the loss. With ``batch_size`` every number is over consecutive batches, weighted
    by their size, and "nearest" means nearest within the batch.

    Parameters
    ----------
    X, Y : (n, d) arrays
        Pairs, row by row.
    temperature : float
        What similarities are divided by.
    batch_size : int, optional
        The mean over consecutive batches of this size; None takes all pairs at once.
    similarity : {"cosine", "squared_distance"}
        Of unit rows, or of the rows as given.
    """
    X, Y = check_pairs(X, Y, nonzero=similarity == "cosine")
    temperature = check_temperature(temperature)
    X, Y = prepare(X, Y, similarity)
    if batch_size is None or check_count(batch_size, "batch_size") >= X.shape[0]:
        losses = PairLosses(temperature)
        for block in similarity_blocks(X, Y, similarity):
            losses.add(block)
        return losses.terms()
    xp = namespace(X)
    parts = [
        batched_terms(similarities(A, B, similarity), temperature)
        for A, B in stacked_batches(X, Y, batch_size)
    ]
    return terms_of(*(xp.concat(list(part)) for part in zip(*parts, strict=True)))


def stacked_batches(X: Array, Y: Array, size: int) -> Iterator[tuple[Array, Array]]:
    """Consecutive batches stacked as (k, size, d); a shorter last batch comes by itself."""
    whole = X.shape[0] // size * size
    per_stack = max(1, rows_per_block(size) // size) * size
    for rows in told_blocks(whole, per_stack):
        shape = (-1, size, X.shape[1])
        yield X[rows].reshape(shape), Y[rows].reshape(shape)
    if whole < X.shape[0]:
        yield X[whole:][None, :, :], Y[whole:][None, :, :]


def contrastive_loss(
    X: Array,
    Y: Array | None = None,
    temperature: float = 0.01,
    batch_size: int | None = None,
    similarity: Similarity = "cosine",
) -> float:
    """Symmetric contrastive loss: half of the row plus the column cross-entropy of S / temperature.

    ``similarity="cosine"`` normalises the rows (Liang 4.1, Levi eq. 7, Yaras eq. 2);
    ``"squared_distance"`` uses −‖x − y‖² of the rows as given (Chowers eq. 6, who sums the two
    directions, so his value is twice this). With ``batch_size`` it is averaged over consecutive
    batches, weighted by their size. Perfectly aligned and spread-out pairs give 0.

    Parameters
    ----------
    X, Y : (n, d) arrays
        Pairs, row by row.
    temperature : float
        What similarities are divided by.
    batch_size : int, optional
        The mean over consecutive batches of this size; None takes all pairs at once.
    similarity : {"cosine", "squared_distance"}
        Of unit rows, or of the rows as given.

    >>> import numpy as np
    >>> round(contrastive_loss(np.eye(2), np.eye(2), temperature=1.0), 4)
    0.3133
    """
    return loss_terms(X, Y, temperature, batch_size, similarity).loss


@dataclass(frozen=True)
class SoftAssignments(Result):
    """Sums S_i of the soft assignments: above 1 a row is pushed away from the other modality.

    ``x`` sums Qy over columns, one number per row of X; ``y`` sums Qx over rows, one per row of
    Y. Both have mean 1; the spreads are their standard deviations.
    """

    x: Array
    y: Array
    spread_x: float
    spread_y: float
    Qx: Array | None = None
    Qy: Array | None = None


def soft_assignments(
    X: Array,
    Y: Array | None = None,
    temperature: float = 0.01,
    similarity: Similarity = "squared_distance",
    matrices: bool = False,
) -> SoftAssignments:
    """Sums of the softmax of the logits over the other axis (Chowers et al., eq. 5).

    ``matrices=True`` also returns Qx and Qy themselves, for at most 5,000 rows.

    Parameters
    ----------
    X, Y : (n, d) arrays
        Pairs, row by row.
    temperature : float
        What similarities are divided by.
    similarity : {"cosine", "squared_distance"}
        Of unit rows, or of the rows as given.
    matrices : bool
        Keep Qx and Qy too.
    """
    X, Y = check_pairs(X, Y, nonzero=similarity == "cosine")
    temperature = check_temperature(temperature)
    if matrices and X.shape[0] > MAX_MATRIX_ROWS:
        raise InputValueError(
            f"The matrices of soft assignments are given for at most {MAX_MATRIX_ROWS:,} rows, "
            f"got {X.shape[0]:,}. Leave matrices=False, or take a sample."
        )
    xp = namespace(X)
    X, Y = prepare(X, Y, similarity)
    columns = RunningLogSumExp()
    y: Array = 0.0
    Qx, Qy, x = [], [], []
    for block in similarity_blocks(X, Y, similarity):
        logits = widen(block) / temperature
        columns.add(logits)
        share = xp.exp(logits - log_sum_exp(logits, axis=1)[:, None])
        y = y + xp.sum(share, axis=0)
        if matrices:
            Qx.append(share)
    totals = columns.value()
    for block in similarity_blocks(X, Y, similarity):
        share = xp.exp(widen(block) / temperature - totals[None, :])
        x.append(xp.sum(share, axis=1))
        if matrices:
            Qy.append(share)
    sums = xp.concat(x)
    return SoftAssignments(
        x=sums,
        y=y,
        spread_x=float(xp.std(sums)),
        spread_y=float(xp.std(y)),
        Qx=xp.concat(Qx) if matrices else None,
        Qy=xp.concat(Qy) if matrices else None,
    )
