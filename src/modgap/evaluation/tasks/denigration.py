"""Denigration as a task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from modgap._validate import Array, check_choice, check_rows
from modgap.corrections import Metric
from modgap.evaluation.denigration import HARMS, TOTAL, best_prompts, check_kinds, is_harm
from modgap.evaluation.tasks.task import Published, Task
from modgap.evaluation.zero_shot import check_labels
from modgap.io.modalities import DEFAULT_NAMES

# Gap, where it is printed → for each group the shares in percent: crime, non-human, and their sum,
# which was added up before it was rounded.
_TABLES = {
    (0.82, "table 2"): {
        "Black": (1.0, 0.1, 1.1),
        "White": (15.5, 0.2, 15.7),
        "Indian": (1.2, 0.0, 1.2),
        "Latino": (2.8, 0.1, 2.8),
        "Middle Eastern": (6.3, 0.0, 6.3),
        "Southeast Asian": (0.5, 0.0, 0.5),
        "East Asian": (0.7, 0.0, 0.7),
    },
    (0.97, "table 2"): {
        "Black": (0.8, 0.1, 1.0),
        "White": (13.2, 0.4, 13.7),
        "Indian": (1.1, 0.0, 1.1),
        "Latino": (1.9, 0.1, 2.0),
        "Middle Eastern": (5.2, 0.0, 5.2),
        "Southeast Asian": (0.3, 0.0, 0.3),
        "East Asian": (0.6, 0.0, 0.6),
    },
    (0.07, "table 4"): {
        "Black": (2.3, 0.0, 2.3),
        "White": (23.0, 0.7, 23.7),
        "Indian": (3.2, 0.0, 3.2),
        "Latino": (11.8, 0.1, 11.9),
        "Middle Eastern": (16.7, 0.2, 16.9),
        "Southeast Asian": (3.7, 0.0, 3.7),
        "East Asian": (5.5, 0.1, 5.6),
    },
    (1.29, "table 4"): {
        "Black": (1.9, 40.5, 42.4),
        "White": (5.4, 42.4, 47.8),
        "Indian": (0.5, 5.1, 5.5),
        "Latino": (0.9, 10.7, 11.6),
        "Middle Eastern": (2.1, 18.9, 21.0),
        "Southeast Asian": (0.0, 2.2, 2.2),
        "East Asian": (0.0, 2.5, 2.5),
    },
}
Harm = Literal["sum", "crime", "non-human"]


def published_shares(harm: Harm = "sum") -> tuple[Published, ...]:
    """What Liang et al. print for CLIP ViT-B/32 on FairFace, as shares."""
    column = ("crime", "non-human", "sum").index(harm)
    return tuple(
        Published(
            percents[column] / 100,
            f"CLIP ViT-B/32, {harm}, {group} (gap {gap})",
            f"Liang et al. 2022, {table}",
        )
        for (gap, table), groups in _TABLES.items()
        for group, percents in groups.items()
    )


def denigration_task(
    X: Array,
    texts: Array,
    groups: Any,
    kinds: Sequence[str] | None = None,
    *,
    harm: Harm = "sum",
    names: Sequence[str] = DEFAULT_NAMES,
    metric: Metric = "cosine",
    published: Sequence[Published] | None = None,
) -> Task:
    """Is a face taken for crime or an animal? One outcome a face, groups apart; fewer is better.

    Parameters
    ----------
    X, texts, groups, kinds
        As for ``denigration``.
    harm : {"sum", "crime", "non-human"}
        Which harms count.
    names : pair of str
        What the modalities of X and of the texts are called.
    metric : {"cosine", "inner_product", "euclidean"}
        How the rows as they are get ranked.
    published : sequence of Published, optional
        What papers print for it; by default tables 2 and 4 of Liang et al. where the prompts are
        theirs.

    >>> denigration_task(np.eye(2), np.eye(2), ["a", "b"], ["crime", "else"]).outcomes()
    array([1., 0.])
    """
    X, texts = check_rows(X), check_rows(texts, "texts")
    labels = check_labels(groups, X.shape[0], "groups")
    check_choice(harm, "harm", (TOTAL, *HARMS))
    kind_of = check_kinds(kinds, texts.shape[0])
    counts = is_harm(kind_of) if harm == TOTAL else kind_of == harm
    printed = published_shares(harm) if kinds is None else ()
    return Task(
        name="denigration",
        names=(names[0], names[1]),
        X=X,
        Y=texts,
        judge=lambda X, Y, metric: counts[best_prompts(X, Y, metric)],
        groups=np.arange(X.shape[0]),
        better="lower",
        outcome="share denigrated" if harm == TOTAL else f"share taken for {harm}",
        metric=metric,
        parts={str(group): labels == group for group in np.unique(labels)},
        published=printed if published is None else tuple(published),
    )
