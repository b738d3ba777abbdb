"""The symmetric contrastive loss of a set of pairs, in blocks, and what it is made of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from modgap.arrays import (
    LogSums,
    SoftmaxSums,
    as_float,
    at_unit_length,
    cached_blocks,
    is_torch,
    is_unit,
    namespace,
    passed,
    product_pass,
    row_blocks,
    row_norms,
    sum_squares,
    widen,
)
from modgap.core.checks import Array, check_choice, check_count, check_temperature
from modgap.core.door import check_pairs
from modgap.core.results import Result
from modgap.moments.pair import pair_moments_of

Similarity = Literal["cosine", "squared_distance"]
SIMILARITIES = ("cosine", "squared_distance")
MAX_FLOAT32_NORM = 1e12
# Numbers in one stack of batches: it stays in the cache, unless it is a GPU's.
_STACK, _CUDA_STACK = 2**17, 2**25


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


def logits_of(X: Array, Y: Array, temperature: float, similarity: Similarity = "cosine") -> LogSums:
    """Consumer of the products of prepared rows, for the log-sum-exp of their similarities."""
    if similarity == "cosine":
        return LogSums(X, Y, 1 / temperature)
    return LogSums(
        X, Y, 2 / temperature, -sum_squares(X) / temperature, -sum_squares(Y) / temperature
    )


def terms_of_logits(logits: LogSums) -> LossTerms:
    """The loss and its terms over all products that were taken in."""
    return terms_of(logits.own(), *logits.losses(), *logits.hits())


def terms_of(
    own: Array, rows: Array, columns: Array, row_hits: Array, column_hits: Array
) -> LossTerms:
    """Terms from each pair's own logit, and the losses and the hits of rows and columns.

    A loss is the log-sum-exp less the own logit.
    """
    xp = namespace(own)
    losses = xp.concat([rows, columns])
    hits = xp.astype(xp.concat([row_hits, column_hits]), losses.dtype)
    both, n_matched = losses.shape[0], int(xp.sum(hits))
    total, total_matched = float(xp.sum(losses)), float(xp.sum(losses * hits))
    nan = float("nan")
    return LossTerms(
        loss=total / both,
        alignment=-float(xp.mean(own)),
        uniformity=float(xp.mean((rows + columns) / 2 + own)),
        matched=total_matched / n_matched if n_matched else nan,
        mismatched=(total - total_matched) / (both - n_matched) if n_matched < both else nan,
        n_matched=n_matched,
        n=own.shape[0],
    )


def batched_terms(similarities: Array, temperature: float) -> tuple[Array, ...]:
    """What ``terms_of`` takes, of stacked batches (k, b, b), flattened."""
    xp = namespace(similarities)
    (found,) = stack_terms(xp.permute_dims(similarities, (1, 2, 0)), [temperature])
    return tuple(part.T.reshape(-1) for part in found)


def stack_terms(S: Array, temperatures: Sequence[float]) -> list[tuple[Array, ...]]:
    """For each temperature what ``terms_of`` takes, (b, k), of similarities (b, b, k) of k batches.

    With the batches last, every step runs along memory however small they are.
    """
    xp = namespace(S)
    own = xp.permute_dims(xp.linalg.diagonal(xp.permute_dims(S, (2, 0, 1))), (1, 0))
    tops = {axis: xp.max(S, axis=axis) for axis in (1, 0)}
    losses: dict[int, list[Array]] = {1: [], 0: []}
    room = xp.empty_like(S)
    for axis, top in tops.items():
        below = S - xp.expand_dims(top, axis=axis)
        for temperature in temperatures:
            xp.exp(xp.multiply(below, 1 / temperature, out=room), out=room)
            total = xp.log(widen(xp.sum(room, axis=axis)))
            losses[axis].append(widen(top - own) / temperature + total)
    hits = [own >= tops[axis] for axis in (1, 0)]
    return [
        (widen(own) / temperature, rows, columns, *hits)
        for temperature, rows, columns in zip(temperatures, losses[1], losses[0], strict=True)
    ]


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
    if similarity == "cosine":
        return at_unit_length(X), at_unit_length(Y)
    if is_unit(X) and is_unit(Y):
        return as_float(X), as_float(Y)
    return _around_origin(X, Y)


def _around_origin(X: Array, Y: Array) -> tuple[Array, Array]:
    """Both sides moved by one vector to lie around the origin; distances stay.

    ‖x‖² + ‖y‖² − 2 x·y loses the digits that matter when all rows are far from the origin.
    """
    xp = namespace(X)
    means = pair_moments_of(X, Y, detail="mean", unit=False)
    centre = (means.x.given.mean + means.y.given.mean) / 2
    largest = max(float(xp.max(row_norms(A))) for A in (X, Y))
    sides = []
    for A in (X, Y):
        # The squares of very long and very short rows do not fit float32.
        fits = 1 / MAX_FLOAT32_NORM < largest < MAX_FLOAT32_NORM
        out = xp.empty_like(as_float(A) if fits else widen(A))
        for rows in cached_blocks(A):
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
    check_choice(similarity, "similarity", SIMILARITIES)
    X, Y = check_pairs(X, Y, nonzero=similarity == "cosine")
    temperature = check_temperature(temperature)
    if batch_size is not None:
        check_count(batch_size, "batch_size")
    return terms_of_pairs(X, Y, temperature, batch_size, similarity)


def terms_of_pairs(
    X: Array,
    Y: Array,
    temperature: float,
    batch_size: int | None = None,
    similarity: Similarity = "cosine",
) -> LossTerms:
    """``loss_terms`` of checked pairs."""
    X, Y = prepare(X, Y, similarity)
    if batch_size is None or batch_size >= X.shape[0]:
        logits = logits_of(X, Y, temperature, similarity)
        product_pass(X, Y, [logits])
        return terms_of_logits(logits)
    xp = namespace(X)
    parts = [
        batched_terms(similarities(A, B, similarity), temperature)
        for A, B in stacked_batches(X, Y, batch_size)
    ]
    return terms_of(*(xp.concat(list(part)) for part in zip(*parts, strict=True)))


def stacked_batches(X: Array, Y: Array, size: int) -> Iterator[tuple[Array, Array]]:
    """Consecutive batches stacked as (k, size, d); a shorter last batch comes by itself."""
    for rows, A, B in numbered_batches(X, Y, size):
        yield A, B
        passed((rows.stop - rows.start) / X.shape[0])


def numbered_batches(X: Array, Y: Array, size: int) -> Iterator[tuple[slice, Array, Array]]:
    """The same with the rows that they are, without telling anyone."""
    n = X.shape[0]
    whole = n // size * size
    most = _CUDA_STACK if is_torch(X) and X.device.type != "cpu" else _STACK
    for rows in row_blocks(whole, max(1, most // size**2) * size):
        shape = (-1, size, X.shape[1])
        yield rows, X[rows].reshape(shape), Y[rows].reshape(shape)
    if whole < n:
        yield slice(whole, n), X[whole:][None, :, :], Y[whole:][None, :, :]


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
    X, Y, temperature, batch_size, similarity
        As for ``loss_terms``.

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


def soft_assignments(
    X: Array,
    Y: Array | None = None,
    temperature: float = 0.01,
    similarity: Similarity = "squared_distance",
) -> SoftAssignments:
    """Sums of the softmax of the logits over the other axis (Chowers et al., eq. 5).

    Parameters
    ----------
    X, Y : (n, d) arrays
        Pairs, row by row.
    temperature : float
        What similarities are divided by.
    similarity : {"cosine", "squared_distance"}
        Of unit rows, or of the rows as given.
    """
    check_choice(similarity, "similarity", SIMILARITIES)
    X, Y = check_pairs(X, Y, nonzero=similarity == "cosine")
    temperature = check_temperature(temperature)
    return assignments_of_pairs(X, Y, temperature, similarity)


def assignments_of_pairs(
    X: Array,
    Y: Array,
    temperature: float,
    similarity: Similarity = "squared_distance",
) -> SoftAssignments:
    """``soft_assignments`` of checked pairs."""
    X, Y = prepare(X, Y, similarity)
    logits = logits_of(X, Y, temperature, similarity)
    product_pass(X, Y, [logits])
    return assignments_from(X, Y, logits)


def assignments_from(X: Array, Y: Array, logits: LogSums) -> SoftAssignments:
    """The sums, in a second pass over the products that gave the logits' log-sum-exp."""
    xp = namespace(X)
    shares = SoftmaxSums(logits)
    product_pass(X, Y, [shares])
    x, y = shares.row_totals(), shares.column_totals()
    return SoftAssignments(x=x, y=y, spread_x=float(xp.std(x)), spread_y=float(xp.std(y)))
