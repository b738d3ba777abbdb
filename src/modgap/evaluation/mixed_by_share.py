"""How well an index of both modalities ranks, as the share of each among its documents changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from modgap.core.checks import Array, check_choice, check_count
from modgap.core.results import HasFigure, Result
from modgap.corrections import Correction, Metric, query_modalities
from modgap.evaluation.mixed import NDCG_PLACES, check_share, mixed_of
from modgap.evaluation.mixed_index import Targets
from modgap.evaluation.retrieval import Corrected, check_searchable, matched
from modgap.io import Modalities
from modgap.io.modalities import DEFAULT_NAMES
from modgap.search.scores import metric_of


@dataclass(frozen=True, eq=False)
class MixedCurve(HasFigure, Result):
    """NDCG@10 and shares as the corpus goes from all Y to all X.

    ``ndcg`` and ``own_excess`` are keyed by the query modality.
    """

    names: tuple[str, ...]
    x_shares: np.ndarray
    ndcg: dict[str, np.ndarray]
    share_off: np.ndarray
    own_excess: dict[str, np.ndarray]

    def _brief(self) -> str:
        least = ", ".join(f"{name} {np.nanmin(found):.3f}" for name, found in self.ndcg.items())
        return f"{len(self.x_shares)} shares of {self.names[0]}, least NDCG@10 {least}"


def mixed_curve(
    X: Array | Modalities,
    Y: Array | None = None,
    x_shares: Sequence[float] = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0),
    k: int = 10,
    metric: Metric | None = None,
    groups: tuple[Any, Any] | None = None,
    *,
    names: Sequence[str] = DEFAULT_NAMES,
    correction: Correction | None = None,
    queries: str | Sequence[str] | None = None,
    targets: Targets = "both",
    repeats: int = 2,
    seed: int = 0,
) -> MixedCurve:
    """NDCG@10 of the queries of each modality over mixing ratios: a U where there is a gap.

    At both ends the index holds one modality and a gap does no harm; in between, matches of the
    other modality come too late to be seen.

    Parameters
    ----------
    X, Y, k, metric, groups, names, correction, queries, targets, repeats, seed
        As for ``mixed_retrieval``.
    x_shares : sequence of float
        Shares of the groups that are in the index as X.
    """
    data = matched(X, Y, names, groups)
    check_count(k, "k")
    check_count(repeats, "repeats")
    check_choice(targets, "targets", ("other", "both"))
    for share in x_shares:
        check_share(share, "x_shares")
    metric = metric_of(metric, correction, "cosine")
    check_searchable(data, metric, correction)
    asking = query_modalities(queries, data.names, correction, default="all")
    rows = Corrected(data, correction, metric)
    return curve_of(rows, asking, x_shares, k, targets, repeats, seed)


def curve_of(
    rows: Corrected,
    asking: Sequence[str],
    x_shares: Sequence[float],
    k: int = 10,
    targets: Targets = "both",
    repeats: int = 2,
    seed: int = 0,
) -> MixedCurve:
    """``mixed_curve`` of rows that are checked and corrected."""
    data = rows.data
    data.two()
    results = [
        mixed_of(rows, asking, (float(share), 1 - float(share)), k, targets, repeats, seed)
        for share in x_shares
    ]
    by_share = [{q.modality: q.metrics(k, data.names) for q in r.queries} for r in results]

    def over_shares(metric: str) -> dict[str, np.ndarray]:
        return {name: np.array([found[name][metric] for found in by_share]) for name in asking}

    return MixedCurve(
        data.names,
        np.asarray(x_shares, dtype=np.float64),
        over_shares(f"ndcg@{NDCG_PLACES}"),
        np.array([r.share_off for r in results]),
        over_shares(f"own_modality_excess@{k}"),
    )
