"""Do hubs help here? How much hubness to subtract is chosen, and tested, by cross-fitting.

The groups of the fit and the choose split are halved. Each half is searched with corrections
fitted on the other, whose queries are the bank, so every group is judged by queries it has no part
in. The confirm split is not looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

import numpy as np

from modgap.arrays import is_torch
from modgap.core.checks import Array, InputError
from modgap.core.results import Result, signed
from modgap.core.threads import in_threads
from modgap.corrections import Calibrate, Metric, row_length
from modgap.corrections.bank import check_bank, with_hubs
from modgap.corrections.hubs import MIN_BANK, NEIGHBOURS, WEIGHTS, with_column
from modgap.evaluation import GroupBootstrap, Interval
from modgap.evaluation.metrics import directions
from modgap.evaluation.mixed import mixed_of
from modgap.evaluation.retrieval import Corrected, ranks_across
from modgap.evaluation.significance import beyond_max_t
from modgap.io import Embeddings, Modalities

# A gain of NDCG@10 in one index that is worth it where ranks across modalities only hold.
MIN_NDCG_GAIN = 0.05
# An index may lean this far to one modality, or as far as the calibrated one does.
FAIR = 0.03
Key = tuple[Literal["keep", "mixed"], float, int]
MODES: tuple[Literal["keep", "mixed"], ...] = ("keep", "mixed")


@dataclass(frozen=True)
class HubChoice(Result):
    """The best of the hub corrections, and whether it finds matches across modalities better.

    ``rank_gain`` is the change of the mean reciprocal rank across modalities, ``ndcg_gain`` that of
    NDCG@10 in one index, both against ``Calibrate("keep")``, which ranks as the rows as they are
    do. ``helps`` where the first is certainly above zero and the second not below it, and where the
    gain over the same correction without hubs is beyond what the best of so many gains by chance;
    or where the first is not below zero and the second certainly above 0.05. In either case the
    index must not lean further to one modality than the calibrated one: marking down all documents
    of a modality is no gain.
    """

    method: str
    mode: str
    weight: float
    neighbours: int
    helps: bool
    rank_gain: Interval
    ndcg_gain: Interval
    n_groups: int
    n_bank: int
    own_bank: bool

    @property
    def corrector(self) -> Calibrate:
        """Unfitted."""
        return _corrector(self.mode, self.weight, self.neighbours)

    @property
    def sentence(self) -> str:
        """What was found, in words."""
        bank = f"a bank of {self.n_bank:,} queries" + ("" if self.own_bank else ", as given")
        rank = self.rank_gain
        gain = (
            f"MRR across modalities {signed(rank.value)} ({signed(rank.low)} to "
            f"{signed(rank.high)}), NDCG@10 in one index {signed(self.ndcg_gain.value)}, with "
            f"{bank}, cross-fitted on {self.n_groups:,} groups"
        )
        if self.helps:
            return f"Hub correction helps: {gain}."
        foreign = "" if self.own_bank else " The bank may not hold queries like those of the users."
        return f"Hub correction was tried; its gain is too small ({gain}).{foreign}"


def choose_hubs(
    folds: tuple[Modalities, Modalities],
    asking: str,
    *,
    metric: Metric,
    bank: Array | Embeddings | None = None,
    seed: int = 0,
) -> HubChoice | None:
    """The best of the hub corrections on two halves of the data; None where none can be fitted.

    Parameters
    ----------
    folds : two Modalities
        Halves of the groups.
    asking : str
        The modality that asks.
    metric : {"cosine", "inner_product"}
        How the rows as they are get ranked.
    bank : (n, d) array, optional
        Unlabelled queries; by default those of the other half.
    seed : int
        Seed of the mixed index and the resamples.
    """
    if bank is not None:
        whole_kind = Calibrate().fit(folds[0], queries=asking, rows=row_length(metric))
        check_bank(whole_kind.correction_, bank, folds[0])
    found: dict[Key, list[tuple[_Search, _Search, _Search]]] = {}
    n_bank = 0
    for fitted, held in (folds, folds[::-1]):
        if metric == "cosine":
            held = held.at_unit_length()
        fold = _Fold(fitted, held, asking, metric, bank, seed)
        n_bank = max(n_bank, fold.n_bank)
        for key, searches in fold.every():
            found.setdefault(key, []).append(searches)
    whole = {
        key: _Gains(*map(_Search.joined, zip(*parts, strict=True)))
        for key, parts in found.items()
        if len(parts) == len(folds)
    }
    if not whole:
        return None
    bootstrap = GroupBootstrap(next(iter(whole.values())).hubs.groups, seed=seed)
    ranks, mixed, by_hubs = {}, {}, []
    for key, one in whole.items():
        hubs, calibrated = one.hubs, one.calibrated
        ranks[key] = bootstrap.ratios(hubs.ranks - calibrated.ranks, hubs.groups)
        mixed[key] = bootstrap.ratios(hubs.ndcg - calibrated.ndcg, hubs.ndcg_groups)
        by_hubs.append(bootstrap.ratios(hubs.ranks - one.without.ranks, hubs.groups))
    beyond = dict(zip(whole, beyond_max_t(by_hubs), strict=True))
    intervals = {
        key: (bootstrap.interval(*ranks[key]), bootstrap.interval(*mixed[key])) for key in whole
    }
    helping = {
        key for key, one in whole.items() if one.is_fair and _helps(*intervals[key], beyond[key])
    }

    # One that helps before one that does not; then by both gains together.
    def worth(key: Key) -> tuple[bool, bool, float]:
        return key in helping, whole[key].is_fair, ranks[key][0] + mixed[key][0]

    best = max(whole, key=worth)
    mode, weight, neighbours = best
    rank_gain, ndcg_gain = intervals[best]
    return HubChoice(
        method=_corrector(*best).label,
        mode=mode,
        weight=weight,
        neighbours=neighbours,
        helps=best in helping,
        rank_gain=rank_gain,
        ndcg_gain=ndcg_gain,
        n_groups=len(bootstrap.labels),
        n_bank=n_bank,
        own_bank=bank is None,
    )


def _helps(rank_gain: Interval, ndcg_gain: Interval, beyond: bool) -> bool:
    if beyond and rank_gain.low > 0 and ndcg_gain.value >= 0:
        return True
    return rank_gain.value >= 0 and ndcg_gain.low >= MIN_NDCG_GAIN


@dataclass(frozen=True, eq=False)
class _Search:
    """What queries found: reciprocal ranks across modalities, and NDCG@10 in one index.

    ``excess`` are wrong results of the asking modality beyond its share, and all wrong ones.
    """

    ranks: np.ndarray
    groups: np.ndarray
    ndcg: np.ndarray
    ndcg_groups: np.ndarray
    excess: np.ndarray

    @classmethod
    def joined(cls, folds: Sequence[_Search]) -> _Search:
        """That of all folds; groups of different folds differ."""
        starts = np.cumsum([0, *(1 + max(f.groups.max(), f.ndcg_groups.max()) for f in folds)])
        shifted = list(zip(folds, starts, strict=False))
        return cls(
            np.concatenate([fold.ranks for fold in folds]),
            np.concatenate([fold.groups + start for fold, start in shifted]),
            np.concatenate([fold.ndcg for fold in folds]),
            np.concatenate([fold.ndcg_groups + start for fold, start in shifted]),
            np.sum([fold.excess for fold in folds], axis=0),
        )


@dataclass(frozen=True, eq=False)
class _Gains:
    """A search with hubs, beside the calibrated index and the same correction without hubs."""

    hubs: _Search
    calibrated: _Search
    without: _Search

    @property
    def is_fair(self) -> bool:
        """Whether the index leans no further to one modality than the calibrated one."""
        leaning, before = (
            abs(own) / wrong if wrong else 0.0
            for own, wrong in (self.hubs.excess, self.calibrated.excess)
        )
        return bool(leaning <= max(before, FAIR))


class _Fold:
    """One half, searched with corrections of the other."""

    def __init__(
        self,
        fitted: Modalities,
        held: Modalities,
        asking: str,
        metric: Metric,
        bank: Array | Embeddings | None,
        seed: int,
    ) -> None:
        self.fitted, self.held, self.asking = fitted, held, asking
        self.rows, self.bank, self.seed = row_length(metric), bank, seed
        source = fitted.queries_of(asking) if bank is None else Embeddings.of(bank, "bank")
        self.n_bank = source.n_rows

    def every(self) -> Iterator[tuple[Key, tuple[_Search, _Search, _Search]]]:
        """Each setting that this bank is large enough for: with hubs, calibrated, without hubs."""
        if self.n_bank < MIN_BANK:
            return
        bases = {
            mode: Calibrate(mode).try_fit(
                self.fitted, queries=self.asking, rows=self.rows, check=False
            )[0]
            for mode in MODES
        }
        if bases["keep"] is None:
            return
        raw = self._search(Corrected(self.held, bases["keep"]))
        for mode, base in bases.items():
            if base is None:
                continue
            plain = Corrected(self.held, base)
            without = raw if mode == "keep" else self._search(plain)
            settings = self._settings(plain)
            workers = 1 if is_torch(plain.documents(self.asking)) else None
            for key, found in in_threads(self._tried, settings, workers, whole_jobs=True):
                if found is not None:
                    yield (mode, *key), (found, raw, without)

    def _settings(self, plain: Corrected) -> Iterator[tuple[tuple[float, int], Corrected]]:
        """The rows with a column of hubs, for every weight and number of neighbours.

        Nothing but that column changes with them.
        """
        data, base, asking = plain.data, plain.correction, self.asking
        assert base is not None
        with suppress(InputError):  # a row on the origin, for instance
            correction = with_hubs(base, self.fitted, WEIGHTS[0], NEIGHBOURS[0], self.bank)
            hubs = correction.hubs
            assert hubs is not None
            mapped = {name: plain.documents(name) for name in data.names}
            queries = {asking: Corrected(data, correction).queries(asking)}
            for neighbours in (k for k in NEIGHBOURS if 2 * k <= self.n_bank):
                hubness = {
                    name: hubs.hubness(rows, data.keys_of(name), neighbours)
                    for name, rows in mapped.items()
                }
                for weight in WEIGHTS:
                    documents = {
                        name: with_column(rows, -weight * hubness[name])
                        for name, rows in mapped.items()
                    }
                    marked = Corrected(data, correction, documents=documents, queries=queries)
                    yield (weight, neighbours), marked

    def _tried(
        self, setting: tuple[tuple[float, int], Corrected]
    ) -> tuple[tuple[float, int], _Search | None]:
        key, rows = setting
        try:
            return key, self._search(rows)
        except InputError:
            return key, None

    def _search(self, rows: Corrected) -> _Search:
        data, asking = rows.data, self.asking
        ranks, groups = [], []
        for asks, searched in directions(data.names, [asking], data.asking).values():
            found = ranks_across(rows, asks, searched)
            answered = found >= 0
            ranks.append(1 / (1.0 + found[answered]))
            groups.append(data.query_groups(asks)[answered])
        (queries,) = mixed_of(rows, [asking], seed=self.seed).queries
        excess = np.array(
            [np.sum(queries.own_excess(data.names)), np.sum(queries.non_relevant)], dtype=float
        )
        return _Search(
            np.concatenate(ranks), np.concatenate(groups), queries.ndcg, queries.group, excess
        )


def _corrector(mode: str, weight: float, neighbours: int) -> Calibrate:
    return Calibrate(mode, hubs=weight, neighbours=neighbours)  # type: ignore[arg-type]
