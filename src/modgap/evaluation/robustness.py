"""How often noise or quantisation of the candidates changes a query's nearest one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from modgap.arrays import (
    along,
    as_float,
    is_torch,
    like,
    namespace,
    row_blocks,
    to_numpy,
    wide_dtype,
    widen,
)
from modgap.arrays.cuda import has_kernels
from modgap.arrays.cuda.nearest import nearest_moved
from modgap.core.checks import (
    Array,
    InputTypeError,
    InputValueError,
    check_choice,
    check_count,
    check_numbers,
    check_values,
)
from modgap.core.door import check_matrix, check_two
from modgap.core.results import NOT_IN_JSON, HasFigure, Progress, Result, silent
from modgap.corrections import Correction, Metric, RowMap
from modgap.corrections.bank import keys_of_fitted_rows
from modgap.corrections.hubs import HubMap
from modgap.evaluation.noise import Draws, Noise, Quantiser, kept_in_draws
from modgap.moments.modality import moments_of_rows
from modgap.moments.pair import pair_moments_of
from modgap.search.exact import check_searched
from modgap.search.scores import document_bias, metric_of, row_factors, same_precision

# A block of scores of this size stays in a core's own cache while every amount is tried on it.
_CACHE_BYTES = 2**19
_PRODUCT_ROWS = 512
# The amounts of candidates that stay where they are.
_UNMOVED = np.zeros(1)


@dataclass(frozen=True)
class Robustness(HasFigure, Result):
    """Share of queries whose nearest candidate stays, for each amount of the sweep.

    ``standard_error`` is over draws, NaN for one draw. ``kept`` (amounts, queries) is the share of
    draws in which each query kept its neighbour.
    """

    amounts: np.ndarray
    share: np.ndarray
    standard_error: np.ndarray
    draws: int
    metric: str
    kept: np.ndarray = field(metadata=NOT_IN_JSON)


def robustness(
    queries: Array,
    candidates: Array,
    noise: Noise | Quantiser,
    draws: int = 100,
    amounts: Sequence[float] = (0.0,),
    correction: Correction | None = None,
    *,
    metric: Metric | None = None,
    direction: Array | None = None,
    candidate_side: str = "y",
    query_side: str | None = None,
    keys: np.ndarray | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Robustness:
    """Share of queries whose nearest candidate is the same with noise as without (Chowers, eq. 12).

    Noise falls on the candidates as given and the correction is applied after it; a quantiser
    acts after the correction and needs one draw. The reference is the same without noise. Draws
    depend on ``seed`` and on the shape of the candidates alone, so all amounts, methods and calls
    share them.

    Parameters
    ----------
    queries, candidates : (n, d) and (m, d) arrays
        The query rows, and those that are disturbed and searched.
    noise : Noise or Quantiser
        What happens to the candidates.
    draws : int
        How often noise is drawn.
    amounts : sequence of float
        Moves the candidates by amount·g′ (the papers' sweeps); Euclidean metric.
    correction : Correction, optional
        Applied to both sides.
    metric : {"cosine", "inner_product", "euclidean"}, optional
        The correction's own, else Euclidean.
    direction : (d,) array, optional
        g′; by default from the candidates' mean to the queries' mean.
    candidate_side, query_side : str
        Which modality of the correction the candidates are, "x" or "y" or its name, and the
        queries; of two the other one.
    keys : (m,) integers, optional
        The groups of the candidates, for a correction with hubs; see ``Correction.apply``.
    seed : int
        Seed of the draws.
    progress : callable, optional
        Called as ``progress(step, done, total)``.
    """
    names = ("queries", "candidates")
    metric = metric_of(metric, correction, "euclidean")
    nonzero = metric == "cosine"
    queries, candidates = check_two(
        queries, candidates, names=names, nonzero=nonzero and correction is None
    )
    steps = check_numbers(amounts, "amounts")
    draws = check_count(draws, "draws")
    if np.any(steps != 0) and (correction is not None or metric != "euclidean"):
        raise InputValueError(
            "A sweep over amounts moves the candidates as given and ranks them by Euclidean "
            "distance; it takes no correction and no other metric."
        )
    queries, candidates = as_float(queries), as_float(candidates)
    stored, row_map = candidates, None
    if correction is None:
        check_choice(candidate_side, "candidate_side", ("x", "y"))
    else:
        found, asking = _sides(correction, candidate_side, query_side)
        row_map = correction.map(found)
        row_map.check_columns(candidates)
        keys = keys_of_fitted_rows(correction, candidates, found) if keys is None else keys
        queries = correction.map(asking, "query").mapped(queries, asking, nonzero=nonzero)
        stored = row_map.mapped(candidates, found, keys=keys, nonzero=nonzero)
    if direction is None and np.any(steps != 0):
        moments = pair_moments_of(queries, candidates, names, detail="mean", unit=False)
        direction = moments.gap_vector()
    elif direction is not None and tuple(np.shape(direction)) != (candidates.shape[1],):
        raise InputValueError(
            f"direction must be one vector of {candidates.shape[1]} numbers, "
            f"got shape {tuple(np.shape(direction))}."
        )
    searched = DisturbedSearch(queries, stored, row_map, keys, metric, steps, direction)
    if isinstance(noise, Quantiser):
        return searched.coded(noise)
    if not isinstance(noise, Noise):
        raise InputTypeError(
            f"noise must be a noise or a quantiser of modgap.evaluation, got {noise!r}."
        )
    return searched.under(Draws(noise, candidates, draws, seed), progress or silent)


@dataclass(frozen=True, eq=False)
class DisturbedSearch:
    """Queries and the candidates that they search, in which one noise or another is tried.

    ``queries`` and ``stored`` are checked and corrected; ``row_map`` maps candidates of these
    ``keys`` once noise has fallen on them, None where there is no correction. A column of hubs is
    kept as it is beside the code of a row.
    """

    queries: Array
    stored: Array
    row_map: RowMap | None
    keys: np.ndarray | None
    metric: Metric
    steps: np.ndarray
    direction: Array | None = None

    @cached_property
    def _factors(self) -> Array:
        """The queries as they are multiplied, made once."""
        return row_factors(self.queries, self.metric)

    @cached_property
    def nearest(self) -> Array:
        """The nearest candidate without noise, (amounts, queries)."""
        stored = row_factors(self.stored, self.metric)
        return _nearest(self._factors, stored, self.metric, self.steps, self.direction)

    def coded(self, quantiser: Quantiser) -> Robustness:
        """How many queries keep their nearest when candidates are stored in few bits."""
        found = _quantised(
            self.queries, self.stored, quantiser, self.steps, self.direction, self.metric,
            exact=int(isinstance(self.row_map, HubMap)),
        )  # fmt: skip
        same = found == to_numpy(self.nearest)
        return self._robustness(same.astype(np.int64), same.mean(axis=1)[None, :])

    def under(self, draws: Draws, progress: Progress = silent) -> Robustness:
        """How many queries keep their nearest under noise."""

        # On the device of the rows: a GPU would be waited for at every draw.
        steps = like(self.steps, self._factors, wide_dtype(self._factors))

        def nearest_in(factors: Array) -> Array:
            return _nearest(self._factors, factors, self.metric, steps, self.direction)

        return self._robustness(
            *kept_in_draws(draws, self._mapped, nearest_in, self.nearest, self.metric, progress)
        )

    def _mapped(self, disturbed: Array) -> Array:
        """Candidates of one draw or several as they are stored; not checked."""
        if self.row_map is None:
            return disturbed
        keys = self.keys
        if keys is not None:
            keys = np.tile(keys, disturbed.shape[0] // len(keys))
        return self.row_map.map_checked(disturbed, "candidates", keys=keys)

    def _robustness(self, kept: np.ndarray, shares: np.ndarray) -> Robustness:
        n_draws = len(shares)  # one where it is deterministic
        spread = np.std(shares, axis=0, ddof=1) if n_draws > 1 else np.full(len(self.steps), np.nan)
        return Robustness(
            amounts=self.steps,
            share=np.mean(shares, axis=0),
            standard_error=spread / n_draws**0.5,
            draws=n_draws,
            metric=self.metric,
            kept=kept / n_draws,
        )


def _sides(correction: Correction, candidate_side: str, query_side: str | None) -> tuple[str, str]:
    """The names of the modalities that are searched and that ask."""
    names = correction.names
    known = {"x": names[0], "y": names[1], **{name: name for name in names}}
    found = known[check_choice(candidate_side, "candidate_side", tuple(known))]
    if query_side is None:
        if len(names) > 2:
            raise InputValueError(
                f"Say which modality the queries are of (query_side=…): {', '.join(names)}."
            )
        return found, names[1 - names.index(found)]
    return found, known[check_choice(query_side, "query_side", tuple(known))]


def nearest(
    queries: Array,
    candidates: Array,
    metric: Metric,
    amounts: np.ndarray,
    direction: Array | None = None,
) -> np.ndarray:
    """Index of each query's nearest candidate, (amounts, queries), as the candidates are moved.

    One product serves every amount: ‖c + αg − q‖² differs from the unmoved distance by what depends
    on the candidate alone, and by what is the same for all candidates of a query.
    """
    rows = check_searched(queries, candidates, metric, ("queries", "candidates"))
    return nearest_of(*rows, metric, amounts, direction)


def nearest_of(
    queries: Array,
    candidates: Array,
    metric: Metric,
    amounts: np.ndarray = _UNMOVED,
    direction: Array | None = None,
) -> np.ndarray:
    """``nearest`` of checked rows."""
    Q, D = row_factors(queries, metric), row_factors(candidates, metric)
    return to_numpy(_nearest(Q, D, metric, amounts, direction))


def _nearest(Q: Array, D: Array, metric: Metric, amounts: Array, direction: Array | None) -> Array:
    """The same of rows as they are multiplied, on their device; nothing is read from a GPU.

    On a GPU with kernels, D may also be candidates of several draws, (draws, m, d); the result is
    then (draws, amounts, queries).
    """
    Q, D = same_precision(Q, D)
    xp = namespace(Q)
    shape = (*D.shape[:-2], len(amounts), Q.shape[0])
    biases = _biases(D, metric, amounts, direction)
    if not has_kernels(Q):
        return xp.broadcast_to(_nearest_moved(Q, D, biases), shape)
    if D.ndim == 3:
        return xp.broadcast_to(nearest_moved(Q, D, biases), shape)
    one = nearest_moved(Q, D[None], None if biases is None else biases[None])
    return xp.broadcast_to(one[0], shape)


def _nearest_moved(Q: Array, D: Array, biases: Array | None) -> Array:
    xp = namespace(Q)
    found = []
    # A product of few rows is slow, and many amounts are fast where the scores stay in the cache.
    size = max(_PRODUCT_ROWS, _CACHE_BYTES // (D.shape[0] * D.dtype.itemsize))
    for rows in row_blocks(Q.shape[0], size if not is_torch(Q) else 8192):
        scores = Q[rows] @ D.T
        if biases is None:
            found.append(xp.argmax(scores, axis=1)[None, :])
        elif is_torch(Q) or len(biases) == 1:
            found.append(_best_of_moved(scores, biases))
        else:
            few = max(16, _CACHE_BYTES // (D.shape[0] * D.dtype.itemsize))
            parts = [_best_of_moved(scores[part], biases) for part in row_blocks(len(scores), few)]
            found.append(xp.concat(parts, axis=1))
    return xp.concat(found, axis=1)


def _best_of_moved(scores: Array, biases: Array) -> Array:
    """The column of the largest score + bias in each row, (amounts, rows)."""
    xp = namespace(scores)
    scratch = xp.empty_like(scores)
    return xp.stack([xp.argmax(xp.add(scores, bias, out=scratch), axis=1) for bias in biases])


def _biases(D: Array, metric: Metric, amounts: Array, direction: Array | None) -> Array | None:
    """What to add to the scores of each candidate: a row for each amount, or one for all."""
    flat = D.reshape(-1, D.shape[-1])
    base = document_bias(flat, metric)
    if base is None:
        return None
    xp = namespace(D)
    lines = (*D.shape[:-2], 1, D.shape[-2])
    if direction is None:
        return xp.astype(base, D.dtype).reshape(lines)
    toward = along(flat, widen(like(direction, D))).reshape(lines)
    steps = like(amounts, D, wide_dtype(D))
    return xp.astype(base.reshape(lines) - steps[:, None] * toward, D.dtype)


def _quantised(
    queries: Array,
    candidates: Array,
    quantiser: Quantiser,
    amounts: np.ndarray,
    direction: Array | None,
    metric: Metric,
    exact: int,
) -> np.ndarray:
    """Nearest stored candidate for each amount; what is stored changes with the amount.

    So many last columns are kept as they are: a column of hubs is stored beside the code.
    """
    xp = namespace(candidates)
    found = []
    for amount in amounts:
        moved = candidates
        if direction is not None:
            moved = candidates + xp.astype(like(direction, candidates), candidates.dtype) * float(
                amount
            )
        coded = moved[:, : moved.shape[1] - exact]
        fitted = quantiser.fit(coded)
        stored, asked = fitted.documents(coded), fitted.queries(queries[:, : coded.shape[1]])
        if exact:
            stored = xp.concat([stored, moved[:, -exact:]], axis=1)
            asked = xp.concat([asked, queries[:, -exact:]], axis=1)
        check_values(stored, "coded candidates", nonzero=metric == "cosine")
        found.append(nearest_of(asked, stored, metric)[0])
    return np.stack(found)


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
