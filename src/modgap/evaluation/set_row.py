"""A set of embeddings in twelve numbers, so that sets and models can be compared in one table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from modgap.core.checks import Array, InputValueError
from modgap.core.results import Result
from modgap.corrections import Calibrate, Metric, query_modalities
from modgap.evaluation.evaluator import Evaluator
from modgap.evaluation.metric_names import NDCG, directions
from modgap.io import Embeddings, Modalities
from modgap.io.modalities import DEFAULT_NAMES
from modgap.measures import (
    cone,
    conformity_divergence,
    gap_distance,
    relative_gap,
    wasserstein_uniformity,
)

# What is quadratic is measured on so many groups at most.
MAX_GROUPS = 2_000
MIN_GROUPS = 20
ONE_BIT = "robust_to_1bit"


@dataclass(frozen=True)
class SetRow(Result):
    """Twelve numbers of one set of embeddings; ``markdown`` is its line of a table.

    ``n`` groups of ``dimension`` columns, all at unit length. ``gap`` is the distance of the means,
    ``cone`` the mean cosine within a modality, ``conformity`` the divergence of the conformities,
    ``uniformity`` that of Yaras et al. ``recall_x`` finds rows of the first modality, ``recall_y``
    of the second, at rank 1. On the held-out half ``mixed`` is NDCG@10 of one index of both,
    ``mixed_fixed`` that by ``Calibrate`` fitted on the other half, and ``one_bit`` the share of
    nearest neighbours that 1-bit documents keep.
    """

    n: int
    dimension: int
    gap: float
    relative_gap: float
    cone: float
    conformity: float
    uniformity: float
    recall_x: float
    recall_y: float
    mixed: float
    mixed_fixed: float
    one_bit: float

    def cells(self) -> tuple[str, ...]:
        """The twelve numbers as text."""
        values = [getattr(self, field.name) for field in fields(self)]
        return tuple(f"{v:,}" if isinstance(v, int) else f"{v:.3f}" for v in values)

    def markdown(self, name: str) -> str:
        """The line of a table in Markdown."""
        return f"| {name} | {' | '.join(self.cells())} |"

    @classmethod
    def header(cls) -> str:
        """The head of such a table."""
        return "\n".join(
            f"| {' | '.join(cells)} |"
            for cells in (("set", *_COLUMNS), ("---", *("--:" for _ in _COLUMNS)))
        )


_COLUMNS = (
    "n", "dimension", "gap", "relative gap", "cone", "conformity (KL)", "uniformity",
    "recall@1, first found", "recall@1, second found", "mixed NDCG@10", "fixed", "1-bit",
)  # fmt: skip


def set_row(
    X: Array | Embeddings | Modalities | Mapping[str, Array],
    Y: Array | Embeddings | None = None,
    names: tuple[str, str] = DEFAULT_NAMES,
    *,
    groups: Any = None,
    queries: str | None = None,
    seed: int = 0,
) -> SetRow:
    """A set of embeddings in twelve numbers, for a table of many sets.

    Parameters
    ----------
    X, Y, names, groups
        Two modalities and what matches, as for ``measure``.
    queries : str, optional
        The query modality, "text" where that is a name; recall is measured both ways.
    seed : int
        Of the groups that are drawn where there are more than 2,000, and of the halves.
    """
    data = Modalities.of(X, Y, names, groups=groups).with_duplicates_grouped()
    if len(data.names) != 2 or not data.paired or len(data.matched_groups) < MIN_GROUPS:
        pairs = f"{len(data.matched_groups)} groups" if data.paired else "no pairs"
        raise InputValueError(
            f"The table takes two modalities with at least {MIN_GROUPS} groups that match, "
            f"got {len(data.names)} with {pairs}. Pass rows that match row by row, or groups."
        )
    chosen = np.random.default_rng(seed).permutation(data.matched_groups)[:MAX_GROUPS]
    rows = data.take_groups(np.sort(chosen)).at_unit_length()
    x, y = rows.X, rows.Y
    asking = query_modalities(queries, data.names)
    half = len(chosen) // 2
    fit, judged = (rows.take_groups(np.sort(part)) for part in (chosen[:half], chosen[half:]))
    correction = Calibrate().fit(fit, queries=asking[0]).correction_
    cosine: Metric = "cosine"
    both = tuple(directions(data.names))
    recalls = Evaluator(rows, metric=cosine, seed=seed, wanted=both).raw.metrics
    held_out = Evaluator(judged, metric=cosine, queries=asking, seed=seed, wanted=(NDCG, ONE_BIT))
    fixed = held_out.evaluate(correction).metrics
    found = {name: recalls[f"{name}_retrieval_recall@1"].value.value for name in data.names}
    return SetRow(
        n=data.n_groups,
        dimension=data.dim,
        gap=gap_distance(x, y),
        relative_gap=relative_gap(x, y, groups=rows.groups),
        cone=(cone(x).mean + cone(y).mean) / 2,
        conformity=conformity_divergence(x, y),
        uniformity=wasserstein_uniformity(x, y),
        recall_x=found[data.names[0]],
        recall_y=found[data.names[1]],
        mixed=held_out.raw.metrics[NDCG].value.value,
        mixed_fixed=fixed[NDCG].value.value,
        one_bit=held_out.raw.metrics[ONE_BIT].value.value,
    )
