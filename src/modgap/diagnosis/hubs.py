"""Do hubs help here? How much hubness to subtract is chosen by cross-fitting.

How it works: the groups of the fit and the choose split are halved. Each half is searched with a
bank of the other half's queries, so that every group is judged by queries it has no part in, in
both asking directions. Other documents of the index are in it, because documents far from every
query of the bank have a small hubness, and rise. A weight is taken where neither the reciprocal
rank across modalities nor NDCG@10 and recall@10 in one index fall: each mean change is above minus
half its standard error. The larger weight is tried first. The confirm split is not looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from modgap.core.checks import Array
from modgap.core.results import Result, changed, signed
from modgap.corrections import Calibrate, ExpectedWrong, Metric, row_length
from modgap.corrections.bank import check_bank
from modgap.evaluation.metric_names import directions
from modgap.evaluation.mixed import mixed_of
from modgap.evaluation.retrieval import Corrected, ranks_across
from modgap.io import Embeddings, Modalities

# Tried in this order; 0 where none of them holds.
WEIGHTS = (0.5, 0.25)
# What is taken without pairs, where nothing can be judged.
UNJUDGED_WEIGHT = 0.25
_FALL = 0.5


@dataclass(frozen=True)
class Change(Result):
    """The mean change of a metric over queries, and its standard error."""

    mean: float
    error: float

    @classmethod
    def of(cls, changes: np.ndarray) -> Change:
        """From the change of each query."""
        error = float(np.std(changes, ddof=1) / len(changes) ** 0.5) if len(changes) > 1 else 0.0
        return cls(float(np.mean(changes)), error)

    @property
    def holds(self) -> bool:
        """Whether the metric does not fall, as far as its standard error tells."""
        return self.mean >= -_FALL * self.error


@dataclass(frozen=True)
class HubTrial(Result):
    """What one weight changes against none, over the queries of both halves."""

    weight: float
    rank: Change
    ndcg: Change
    recall: Change

    @property
    def holds(self) -> bool:
        """Whether no metric falls."""
        return self.rank.holds and self.ndcg.holds and self.recall.holds


@dataclass(frozen=True)
class HubChoice(Result):
    """How much hubness to subtract, and what each weight that was tried changes.

    ``weight`` is the first of ``tried`` that costs nothing, 0 where all do.
    """

    weight: float
    tried: tuple[HubTrial, ...]
    n_groups: int
    n_bank: int
    own_bank: bool

    @property
    def sentence(self) -> str:
        """What was found, in words."""
        best = self.tried[-1]
        said = "Hub correction was tried and costs too much"
        if self.weight:
            best = next(one for one in self.tried if one.weight == self.weight)
            said = f"Hub correction with weight {self.weight:g} holds"
        bank = f"a bank of {self.n_bank:,} queries" + ("" if self.own_bank else ", as given")
        return (
            f"{said}: MRR across modalities {signed(best.rank.mean)}, NDCG@10 "
            f"{signed(best.ndcg.mean)} and recall@10 {signed(best.recall.mean)} in one index, with "
            f"{bank}, cross-fitted on {self.n_groups:,} groups."
        )


def choose_hubs(
    folds: tuple[Modalities, Modalities],
    asking: str,
    *,
    metric: Metric,
    bank: Array | Embeddings | None = None,
    seed: int = 0,
) -> HubChoice | None:
    """The largest weight of hubs that costs nothing; None where no bank is large enough.

    Parameters
    ----------
    folds : two Modalities
        Halves of the groups.
    asking : str
        The query modality.
    metric : {"cosine", "inner_product"}
        The metric that ranks the raw rows.
    bank : (n, d) array, optional
        Unlabelled queries of that modality; by default those of the other half.
    seed : int
        Seed of the mixed index.
    """
    if bank is not None:
        plain = Calibrate().fit(folds[0], queries=asking, rows=row_length(metric))
        check_bank(plain.correction_, bank, folds[0])
    source = folds[0].queries_of(asking) if bank is None else Embeddings.of(bank, "bank")
    found = [
        changes
        for halves in (folds, folds[::-1])
        for name in (folds[0].names if not folds[0].asking else (asking,))
        for changes in _changes(*halves, name, metric, bank if name == asking else None, seed)
    ]
    if not found:
        return None
    tried = []
    for weight in WEIGHTS:
        parts = [changes for of, changes in found if of == weight]
        tried.append(
            HubTrial(weight, *map(Change.of, map(np.concatenate, zip(*parts, strict=True))))
        )
        if tried[-1].holds:
            break
    return HubChoice(
        weight=tried[-1].weight if tried[-1].holds else 0.0,
        tried=tuple(tried),
        n_groups=sum(fold.n_groups for fold in folds),
        n_bank=source.n_rows,
        own_bank=bank is None,
    )


def _changes(
    held: Modalities,
    fitted: Modalities,
    asking: str,
    metric: Metric,
    bank: Array | Embeddings | None,
    seed: int,
) -> Iterator[tuple[float, tuple[np.ndarray, ...]]]:
    """For each weight, what changes for every query of one half and one modality."""
    if metric == "cosine":
        held = held.at_unit_length()
    correction, _ = ExpectedWrong(0.0).try_fit(
        fitted, queries=asking, bank=bank, rows=row_length(metric), check=False
    )
    if correction is None:
        return
    without: tuple[np.ndarray, ...] | None = None
    for weight in (0.0, *WEIGHTS):
        rows = Corrected(held, changed(correction, hubs=changed(correction.hubs, weight=weight)))
        ranks = [
            ranks_across(rows, *way)
            for way in directions(held.names, [asking], held.asking).values()
        ]
        (queries,) = mixed_of(rows, [asking], seed=seed).queries
        reciprocal = np.concatenate([1 / (1.0 + one[one >= 0]) for one in ranks])
        found = reciprocal, queries.ndcg, queries.hit
        if without is None:
            without = found
        else:
            yield weight, tuple(a - b for a, b in zip(found, without, strict=True))
