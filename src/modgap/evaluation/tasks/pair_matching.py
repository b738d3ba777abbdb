"""Matching of pairs as a task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from modgap._validate import Array, check_choice, check_pairs
from modgap.corrections import Metric
from modgap.evaluation.pair_matching import check_patterns, matched
from modgap.evaluation.tasks.task import Published, Task
from modgap.io.modalities import DEFAULT_NAMES


def pair_matching_task(
    X: Array,
    Y: Array,
    patterns: Any = None,
    *,
    asking: Literal["text", "image"] = "text",
    names: Sequence[str] = DEFAULT_NAMES,
    metric: Metric = "cosine",
    published: Sequence[Published] = (),
) -> Task:
    """Are both pairs of a set matched? One outcome a set; patterns are reported apart.

    Who asks comes first in the task: its modalities are text and image when the texts ask. Its mean
    is over the sets, that of ``pair_matching`` over the patterns; they agree where all patterns
    have as many sets, as those of MMVP-VLM do.

    Parameters
    ----------
    X, Y, patterns, asking
        As for ``pair_matching``, but only one side can ask.
    names : pair of str
        What the modalities of X and Y are called.
    metric : {"cosine", "inner_product", "euclidean"}
        How the rows as they are get ranked.
    published : sequence of Published
        What papers print for it.

    >>> pair_matching_task(np.eye(4), np.eye(4)[[0, 1, 3, 2]]).outcomes()
    array([1., 0.])
    """
    X, Y = check_pairs(X, Y)
    check_choice(asking, "asking", ("text", "image"))
    labels = check_patterns(patterns, X.shape[0])
    sides = ((names[0], X), (names[1], Y))
    (first, queries), (second, documents) = sides if asking == "image" else sides[::-1]
    kinds = np.unique(labels) if patterns is not None else ()
    return Task(
        name="pair_matching",
        names=(first, second),
        X=queries,
        Y=documents,
        judge=matched,
        groups=np.arange(len(labels)),
        x_groups=np.repeat(np.arange(len(labels)), 2),
        metric=metric,
        parts={str(kind): labels == kind for kind in kinds},
        published=tuple(published),
    )
