"""Expected wrong results: how many documents that are no match score at least as well as a hit.

How it works, for one list of results (the documents of one modality, a lexical engine):

1. A query's level is its r-th best score there, r = 30. Its slope says how fast scores rise above
   that level; the first three results may be matches and are left out of it.
2. A hit's height U is its score above the level, in units of the geometric mean of the query's
   slope and that of all queries. So scores of different queries and lists can be compared.
3. A bank holds unlabelled queries like those of your users. E is how many documents a query
   of the bank has at this height or above, on average. BLAST calls this an E-value.
4. Few documents lie far above the level; there log E goes on as a straight line.
5. Whether a query has a match at all is decided from the E and the score of its best hit, and
   from its level and slope, each beside those of the bank.

A hit of E = 0.1 is one that a query without any match would show once in ten times. Lists are
merged by E; where a list has its match, its next results are less likely to be another, and come
later. It needs the best 30 of each list, and no pairs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from modgap.arrays import row_blocks, rows_per_block
from modgap.core.checks import InputValueError, check_all_finite
from modgap.core.results import Brief, unchecked
from modgap.corrections.hubs import Hubs

# The level of a query is its score at this place; a small list has half of its documents above it.
PLACES, LEAST_PLACES = 30, 6
# The first three results may be matches: the slope starts after them.
FIRST = 4
# Heights that are kept of each query of the bank.
_DEPTH = 2 * PLACES
# Results of so many bank queries carry the least E that can be asked for.
LEAST_SEEN = 5
# A slope is at least this share of the usual one: all scores of a query may be equal.
FLATTEST = 0.01
_STEEP = 10.0  # where the line beyond the highest heights starts: E of ten documents
# Steps of log E at which its curve is kept, and how far it goes on beyond its last.
_STEP, _FAR = 0.002, 600.0
# A hit with this E is taken to be as likely right as wrong; smaller ones than the last are that.
EVEN, LEAST_HELD = 0.05, 1e-30
_DRAWS = 500
# How much best score, level and log slope weigh beside log E in telling whether there is a match.
SIGNAL_SHARES = np.array([5.0, 3.0, 2.0])
# So many standard deviations from the bank's queries: another kind of query.
_FOREIGN_DEVIATIONS = 2.5


def places_of(n_documents: int) -> int:
    """r: the place whose score is the level of a query."""
    return PLACES if n_documents >= 2 * PLACES else max(LEAST_PLACES, n_documents // 2)


@dataclass(frozen=True, eq=False)
class Levels:
    """What the best scores of queries say of each query: level, slope, and their mean score.

    ``places`` is r, half of the results where a query has fewer than r.
    """

    places: np.ndarray
    level: np.ndarray
    slope: np.ndarray
    mean: np.ndarray

    @classmethod
    def of(cls, scores: np.ndarray, places: int) -> Levels:
        """Those of scores (n, k), best first, −∞ where a query has fewer results."""
        n = len(scores)
        level, slope, mean = np.full(n, np.nan), np.full(n, np.nan), np.full(n, np.nan)
        reached = np.full(n, places)
        found = np.sum(np.isfinite(scores), axis=1)
        for count in np.unique(found[found > 0]):
            asked = found == count
            last = places if count >= places else max(min(LEAST_PLACES, count), count // 2)
            reached[asked] = last
            best = scores[asked, :last]
            level[asked], mean[asked] = best[:, -1], best.mean(axis=1)
            if last >= FIRST:
                ranks = np.arange(FIRST, last + 1)
                rise = np.mean(best[:, FIRST - 1 :] - best[:, -1:], axis=1)
                slope[asked] = rise / np.mean(np.log(last / (ranks - 0.5)))
        return cls(reached, level, slope, mean)

    def usual_slope(self) -> float:
        """The geometric mean of the slopes above zero."""
        known = self.slope[self.slope > 0]
        return float(np.exp(np.mean(np.log(known)))) if len(known) else 1.0

    @np.errstate(over="ignore")  # far below the level as many are wrong as you like
    def expected_without_bank(self, scores: np.ndarray) -> np.ndarray:
        """E where there is no bank, on the safe side: r · e^(−U) of scores (n, k), best first."""
        heights = self.heights(scores, self.usual_slope())
        return np.asarray(self.places[:, None] * np.exp(-heights))

    def heights(self, scores: np.ndarray, usual_slope: float) -> np.ndarray:
        """U of scores (n, k) of the same queries."""
        unit_height = np.sqrt(self._slopes(usual_slope) * usual_slope)
        with np.errstate(invalid="ignore"):
            heights = (scores - self.level[:, None]) / unit_height[:, None]
        return np.where(np.isnan(heights), -np.inf, heights)

    def signals(self, scores: np.ndarray, usual_slope: float) -> np.ndarray:
        """Best score, level and log slope of the same queries, (n, 3); NaN without results."""
        found = np.stack([scores[:, 0], self.level, np.log(self._slopes(usual_slope))], axis=1)
        found[np.isneginf(scores[:, 0])] = np.nan
        return found

    def _slopes(self, usual_slope: float) -> np.ndarray:
        own = np.where(np.isnan(self.slope), usual_slope, self.slope)
        return np.maximum(own, FLATTEST * usual_slope)


@dataclass(frozen=True, eq=False)
class ListBackground(Brief):
    """What the bank found in one list.

    ``places`` is r, ``slope`` the usual one, ``n_documents`` how many the list had. ``heights``
    (b, ≤ 60) are those of each bank query's best results, highest first, −∞ where there are fewer;
    own ones are left out. ``signals`` (b, 3) are best score, level and log slope of each query.
    ``level`` and ``spread`` hold mean and standard deviation of the queries' mean score and log
    slope. ``matched`` (b,) is how many of a query's first three results may be matches: the first
    ones, as long as no other query of the bank has a better score on the document. It is None
    where the bank has no matches in the list.
    """

    places: int
    slope: float
    n_documents: int
    heights: np.ndarray
    signals: np.ndarray
    level: np.ndarray
    spread: np.ndarray
    matched: np.ndarray | None = None

    def __post_init__(self) -> None:
        if self.signals.shape != (len(self.heights), len(SIGNAL_SHARES)):
            raise InputValueError("A background must have three signals for each query.")
        check_all_finite(np.array([self.slope, *self.level, *self.spread]), "A background")
        if np.any(np.isnan(self.heights)) or self.heights.ndim != 2 or not self.heights.size:
            raise InputValueError("The heights of a background must be a matrix of numbers.")

    @classmethod
    def of_scores(
        cls, scores: np.ndarray, n_documents: int, matched: np.ndarray | None = None
    ) -> ListBackground:
        """From the best scores (b, k) of each bank query, best first, own results left out."""
        places = places_of(n_documents)
        levels = Levels.of(scores, places)
        if not np.any(np.isfinite(scores)):
            raise InputValueError("The bank found no document in a list.")
        slope = levels.usual_slope()
        heights = levels.heights(scores, slope)[:, :_DEPTH].astype(np.float32)
        known = np.isfinite(levels.mean)
        spreads = np.log(levels.slope[levels.slope > 0])
        level, spread = (
            np.array([np.mean(of), np.std(of)]) if len(of) else np.zeros(2)
            for of in (levels.mean[known], spreads)
        )
        return unchecked(
            cls,
            places=places,
            slope=slope,
            n_documents=n_documents,
            heights=heights,
            signals=levels.signals(scores, slope).astype(np.float32),
            level=level,
            spread=spread,
            matched=matched,
        )

    @property
    def n_queries(self) -> int:
        """b, the queries of the bank."""
        return len(self.heights)

    def expected(self, heights: np.ndarray) -> np.ndarray:
        """E of these heights."""
        found = np.exp(np.interp(heights, *self.curve))
        return np.where(np.isneginf(heights), np.inf, found)

    @cached_property
    def curve(self) -> tuple[np.ndarray, np.ndarray]:
        """Heights, lowest first, and log E there; straight lines between them."""
        held = [known for known in (self._every, self._unmatched) if known is not None]
        curves = [self._curve(known) for known in held]
        heights = np.unique(np.concatenate([at for at, _ in curves]))
        return heights, np.mean([np.interp(heights, *one) for one in curves], axis=0)

    @cached_property
    def _every(self) -> np.ndarray:
        return np.sort(self.heights[np.isfinite(self.heights)].astype(np.float64))[::-1]

    @cached_property
    def _unmatched(self) -> np.ndarray | None:
        """The heights without results that may be matches."""
        if self.matched is None or not self.matched.any():
            return None
        kept = self.heights.astype(np.float64)
        kept[np.arange(kept.shape[1]) < self.matched[:, None]] = -np.inf
        return np.sort(kept[np.isfinite(kept)])[::-1]

    def _curve(self, known: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Heights from the known ones, lowest first, one far out on either side, and log E."""
        b, n = self.n_queries, len(known)
        log_e = np.log((np.arange(1, n + 1) + 0.5) / b)
        # Deeper than this some query's results are not known.
        deep = n - 1
        floor = float(np.max(self.heights[:, -1]))
        if self.heights.shape[1] < self.n_documents and np.isfinite(floor):
            deep = max(int(np.searchsorted(-known, -floor, side="right")) - 1, 0)
        top = min(max(LEAST_SEEN, b // 10), n, deep + 1) - 1
        ten = min(max(round(_STEEP * b), 2 * (top + 1)), deep + 1) - 1
        above = self._line(known, log_e, top, ten)
        below = self._line(known, log_e, ten, deep)
        # Of many ranks some will do; of equal heights the last counts them all.
        n_knots = round(np.log((deep + 1) / (top + 1)) / _STEP) + 2
        ranks = np.round(np.geomspace(top + 1, deep + 1, n_knots)).astype(int) - 1
        # Every query has its level, height 0: E leaps there.
        leap = int(np.clip(np.searchsorted(-known, 0.0) - 1, top, deep))
        ranks = np.union1d(ranks, leap)
        last = np.searchsorted(-known, -known[ranks], side="right") - 1
        heights, first = np.unique(known[last], return_index=True)
        inner = log_e[last][first]
        return (
            np.hstack([heights[0] + _FAR / below, heights, heights[-1] - _FAR / above]),
            np.hstack([inner[0] + _FAR, inner, inner[-1] - _FAR]),
        )

    @staticmethod
    def _line(known: np.ndarray, log_e: np.ndarray, first: int, second: int) -> float:
        rise = known[first] - known[second]
        # Without a bank log E falls by 1 a unit of height.
        return float((log_e[first] - log_e[second]) / rise) if rise > 1e-9 else -1.0

    def height_at(self, expected: float) -> float:
        """The height with this E."""
        heights, log_e = self.curve
        return float(np.interp(-np.log(expected), -log_e, heights))

    def interval(self, expected: float, seed: int = 0) -> tuple[float, float, int]:
        """95 % interval of E where it is said to be ``expected``, and the queries that carry it.

        The bank's queries are drawn anew. Fewer than five that carry it say too little.
        """
        seen = self._every[min(LEAST_SEEN, len(self._every)) - 1]
        height = min(self.height_at(expected), float(seen))
        counts = np.sum(self.heights >= height, axis=1).astype(np.float64)
        rng = np.random.default_rng(seed)
        drawn = counts[rng.integers(0, len(counts), (_DRAWS, len(counts)))].mean(axis=1)
        off = np.quantile((drawn + 0.5 / len(counts)) / (counts.mean() + 0.5 / len(counts)),
                          (0.025, 0.975))  # fmt: skip
        return float(expected * off[0]), float(expected * off[1]), int(np.sum(counts > 0))

    def surprise(self, heights: np.ndarray, signals: np.ndarray) -> np.ndarray:
        """How unlike the best result of a query without a match, (n,).

        −log E of the best result, plus five times its score, three times the level where it is
        below the bank's mean, and twice the log slope, each in standard deviations above that mean.
        A low level means a foreign topic. A small slope means a generic query, whose scores are
        high without a match.
        """
        means, weights = self.signal_scale
        above = (signals - means) * weights
        above[:, 1] = np.minimum(above[:, 1], 0)
        found = above.sum(axis=1) - np.log(self.expected(heights))
        return np.where(np.isneginf(heights), -np.inf, found)

    @cached_property
    def surprises(self) -> np.ndarray:
        """Those of the bank's queries, (b,)."""
        return self.surprise(self.heights[:, 0].astype(np.float64), self.signals)

    @cached_property
    def signal_scale(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean of each signal of the bank, and what one unit counts; 0 where all are equal."""
        signals = self.signals.astype(np.float64)
        deviations = np.nanstd(signals, axis=0)
        weights = np.divide(
            SIGNAL_SHARES, deviations, out=np.zeros(len(SIGNAL_SHARES)), where=deviations > 0
        )
        return np.nanmean(signals, axis=0), weights

    def foreign_share(self, levels: Levels) -> float:
        """The share of queries that lie far from the bank's in mean score or log slope."""
        far = np.zeros(len(levels.mean), dtype=bool)
        with np.errstate(divide="ignore", invalid="ignore"):
            for values, (mean, deviation) in (
                (levels.mean, self.level),
                (np.log(levels.slope), self.spread),
            ):
                if deviation > 0:
                    far |= np.abs(values - mean) > _FOREIGN_DEVIATIONS * deviation
        return float(far.mean())


def merging_order(expected: np.ndarray) -> np.ndarray:
    """What lists are merged by, smallest first, from E (n, k) of one list, best first.

    E_i (1 + 0.05 Σ 1/E_j) over the better results j of the list: the odds against a hit where a
    list has one match, and a hit of E = 0.05 has even odds. Within a list the order stays.
    """
    held = np.maximum(expected, LEAST_HELD)
    better = np.cumsum(1 / held, axis=1)[:, :-1]
    return held * (1 + EVEN * np.pad(better, ((0, 0), (1, 0))))


def in_one_list(expected: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """In which order results of several lists stand, and how many wrong ones to expect, (n, all).

    ``expected`` (n, k) of each list counts the wrong results of all lists.
    """
    key = np.hstack([merging_order(of / len(expected)) for of in expected])
    return np.argsort(key, axis=1, kind="stable"), np.hstack(expected)


def list_background(
    hubs: Hubs,
    batches: Iterable[tuple[np.ndarray, np.ndarray | None]],
    *,
    may_match: bool = False,
) -> ListBackground:
    """What the bank of ``hubs`` finds in batches of mapped documents, each with its keys or None.

    A query of the bank is left out of the hubness that its own score is compared with.
    """
    bank = hubs.rows
    b = len(bank)
    scores = np.full((b, 0), -np.inf, dtype=np.float32)
    # Beside each score the best one that any query of the bank has on its document.
    beside = scores
    n_documents = 0
    for rows, given in batches:
        for block in row_blocks(len(rows), rows_per_block(b, 4)):
            own = None if given is None else given[block]
            found = _bank_scores(hubs, bank, rows[block], own)
            scores, beside = _best_of_both(scores, beside, found)
            n_documents += found.shape[1]
    matched = None
    if may_match:
        mutual = scores[:, : FIRST - 1] >= beside[:, : FIRST - 1]
        matched = np.cumprod(mutual, axis=1).sum(axis=1)
    return ListBackground.of_scores(scores.astype(np.float64), n_documents, matched)


def _bank_scores(
    hubs: Hubs, bank: np.ndarray, rows: np.ndarray, keys: np.ndarray | None
) -> np.ndarray:
    """Scores (b, m) of the bank's queries less their documents' hubness without that query."""
    scores = bank @ rows.astype(np.float32).T
    if keys is not None and hubs.keys is not None:
        scores[hubs.keys[:, None] == keys[None, :]] = -np.inf
    if not hubs.weight:
        return scores
    k = hubs.neighbours
    best = np.partition(scores, len(bank) - k - 1, axis=0)[len(bank) - k - 1 :]
    left = np.maximum(np.isfinite(best).sum(axis=0) - 1, 1)  # most queries may be its own
    total = np.where(np.isfinite(best), best, 0.0).sum(axis=0)
    # A query among the k best gives way to the next one.
    less = np.maximum(scores, best.min(axis=0))
    less -= total
    less *= (hubs.weight / left).astype(np.float32)
    scores += less
    return scores


def _best_of_both(
    scores: np.ndarray, beside: np.ndarray, found: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The best results of each query, of those kept so far and of one more block."""
    highest = np.broadcast_to(found.max(axis=0), found.shape)
    if scores.shape[1] == _DEPTH:
        found, highest = _better(found, highest, scores[:, -1:])
    if found.shape[1] > _DEPTH:  # a full sort of many columns takes long
        best = np.argpartition(-found, _DEPTH - 1, axis=1)[:, :_DEPTH]
        found, highest = (np.take_along_axis(part, best, axis=1) for part in (found, highest))
    every, all_beside = np.hstack([scores, found]), np.hstack([beside, highest])
    order = np.argsort(-every, axis=1, kind="stable")[:, :_DEPTH]
    return np.take_along_axis(every, order, axis=1), np.take_along_axis(all_beside, order, axis=1)


def _better(
    found: np.ndarray, beside: np.ndarray, least: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Of each query the scores above its ``least``, side by side, with what stands beside them."""
    rows, columns = np.nonzero(found > least)
    held = np.bincount(rows, minlength=len(found))
    places = np.arange(len(rows)) - np.repeat(np.cumsum(held) - held, held)
    kept = np.full((2, len(found), held.max(initial=0)), -np.inf, dtype=found.dtype)
    kept[0, rows, places], kept[1, rows, places] = found[rows, columns], beside[rows, columns]
    return kept[0], kept[1]
