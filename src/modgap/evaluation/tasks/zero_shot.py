"""Zero-shot classification as a task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from modgap._validate import Array, check_rows
from modgap.corrections import Metric
from modgap.evaluation.tasks.task import Published, Task
from modgap.evaluation.zero_shot import check_class_numbers, one_row_per_class, zero_shot
from modgap.io.modalities import DEFAULT_NAMES


def zero_shot_task(
    X: Array,
    class_texts: Array | Sequence[Array],
    labels: Any,
    *,
    names: Sequence[str] = DEFAULT_NAMES,
    groups: Any = None,
    metric: Metric = "cosine",
    published: Sequence[Published] = (),
) -> Task:
    """Is the nearest class text the right one? One outcome a row of X.

    Parameters
    ----------
    X, class_texts, labels
        As for ``zero_shot``: several prompts a class are averaged.
    names : pair of str
        What the modalities of X and of the class texts are called.
    groups : (n,) labels, optional
        Rows that belong together, frames of one video for instance; each by itself when left out.
    metric : {"cosine", "inner_product", "euclidean"}
        How the rows as they are get ranked.
    published : sequence of Published
        What papers print for it.

    >>> task = zero_shot_task(np.eye(3), np.eye(3), [0, 1, 0])
    >>> task.outcomes()
    array([1., 1., 0.])
    """
    X, texts = check_rows(X, nonzero=True), one_row_per_class(class_texts)
    numbers = check_class_numbers(labels, X.shape[0], texts.shape[0])
    return Task(
        name="zero_shot",
        names=(names[0], names[1]),
        X=X,
        Y=texts,
        judge=lambda X, Y, metric: zero_shot(X, Y, numbers, metric=metric).hits,
        groups=np.arange(X.shape[0]) if groups is None else np.asarray(groups),
        metric=metric,
        published=tuple(published),
    )
