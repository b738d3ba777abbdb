"""Conformity of what is generated as a task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from modgap._arrays import namespace, to_numpy
from modgap._validate import Array, check_rows, check_same_space
from modgap.evaluation.tasks.task import Task
from modgap.io.modalities import DEFAULT_NAMES
from modgap.measures.conformity import conformity


def conformity_task(
    generated: Array,
    real: Array,
    others: Array,
    *,
    names: Sequence[str] = DEFAULT_NAMES,
    groups: Any = None,
) -> Task:
    """How many real rows are less common than a generated one? One share a generated row.

    0.5 where generated rows are as common as real ones, above where they are more common. The real
    rows are the reference, each without itself. ``conformity_test`` tests the difference of the
    means; this shows whether it depends on the gap.

    Parameters
    ----------
    generated, real : (n, d) and (m, d) arrays
        Rows of one modality.
    others : (r, d) array
        Rows of the other modality, to which there is a gap: captions, for images.
    names : pair of str
        What the modality of the generated rows and the other one are called.
    groups : (n,) labels, optional
        Generated rows that belong together; each by itself when left out.

    >>> task = conformity_task(np.array([[1.0, 0], [0, 1]]), np.array([[1.0, 0], [1, 0], [1, 1]]),
    ...                        np.eye(2))
    >>> task.outcomes().round(2)
    array([1., 0.])
    """
    made = check_rows(generated, "generated", nonzero=True)
    real = check_rows(real, "real", min_rows=2, nonzero=True)
    check_same_space(made, real, ("generated", "real"))
    n = made.shape[0]
    return Task(
        name="conformity",
        names=(names[0], names[1]),
        X=namespace(made, real).concat([made, real]),
        Y=others,
        judge=lambda X, Y, metric: _shares_below(X[:n], X[n:]),
        groups=np.arange(n) if groups is None else np.asarray(groups),
        better="lower",
        outcome="share of real rows less common",
        roles=("document", "query"),
        fit_on=(real, others),
    )


def _shares_below(made: Array, real: Array) -> np.ndarray:
    """For each generated row, the share of real ones below it; equal ones count half."""
    among = np.sort(to_numpy(conformity(real)))
    values = to_numpy(conformity(made, real))
    below = np.searchsorted(among, values, "left") + np.searchsorted(among, values, "right")
    return np.asarray(below / (2 * len(among)))
