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

Harm = Literal["sum", "crime", "non-human"]


def denigration_task(
    X: Array,
    texts: Array,
    groups: Any,
    kinds: Sequence[str] | None = None,
    *,
    harm: Harm = "sum",
    names: Sequence[str] = DEFAULT_NAMES,
    metric: Metric = "cosine",
    published: Sequence[Published] = (),
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
    published : sequence of Published
        What papers print for it.

    >>> denigration_task(np.eye(2), np.eye(2), ["a", "b"], ["crime", "else"]).outcomes()
    array([1., 0.])
    """
    X, texts = check_rows(X), check_rows(texts, "texts")
    labels = check_labels(groups, X.shape[0], "groups")
    check_choice(harm, "harm", (TOTAL, *HARMS))
    kind_of = check_kinds(kinds, texts.shape[0])
    counts = is_harm(kind_of) if harm == TOTAL else kind_of == harm
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
        published=tuple(published),
    )
