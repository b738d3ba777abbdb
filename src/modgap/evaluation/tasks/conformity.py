"""Conformity of what is generated as a task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from modgap._arrays import like, namespace, to_numpy
from modgap._validate import Array, check_rows, check_same_space
from modgap.evaluation.tasks.task import Task
from modgap.io.modalities import DEFAULT_NAMES
from modgap.measures.conformity import conformity


def conformity_task(
    generated: Array,
    real: Array,
    others: Array,
    *,
    reference: Array | None = None,
    names: Sequence[str] = DEFAULT_NAMES,
    groups: Any = None,
    seed: int = 0,
) -> Task:
    """How many real rows are less common than a generated one? One share a generated row.

    0.5 where generated rows are as common as real ones, above where they are more common.
    ``conformity_test`` tests the difference of the means; this shows whether it depends on the gap.
    Corrections are fitted on the reference, which has none of the rows that are compared.

    Parameters
    ----------
    generated, real : (n, d) and (m, d) arrays
        Rows of one modality.
    others : (r, d) array
        Rows of the other modality, to which there is a gap: captions, for images.
    reference : (s, d) array, optional
        The rows to compare both with; by default a half of the real ones, drawn with ``seed``.
    names : pair of str
        What the modality of the generated rows and the other one are called.
    groups : (n,) labels, optional
        Generated rows that belong together; each by itself when left out.

    >>> made, real = np.array([[1.0, 0.1], [0, 1]]), np.array([[1.0, 0], [1, 1], [0, 1]])
    >>> conformity_task(made, real, np.eye(2), reference=real[:2]).outcomes().round(2)
    array([1.  , 0.17])
    """
    made = check_rows(generated, "generated", nonzero=True)
    real = check_rows(real, "real", min_rows=2, nonzero=True)
    if reference is None:
        half, rest = np.array_split(np.random.default_rng(seed).permutation(real.shape[0]), 2)
        real, reference = real[like(half, real)], real[like(rest, real)]
    reference = check_rows(reference, "reference", nonzero=True)
    for rows, name in ((real, "real"), (reference, "reference")):
        check_same_space(made, rows, ("generated", name))
    cuts = (made.shape[0], made.shape[0] + real.shape[0])
    return Task(
        name="conformity",
        names=(names[0], names[1]),
        X=namespace(made, real).concat([made, real, reference]),
        Y=others,
        judge=lambda X, Y, metric: _shares_below(X[: cuts[0]], X[cuts[0] : cuts[1]], X[cuts[1] :]),
        groups=np.arange(cuts[0]) if groups is None else np.asarray(groups),
        better="lower",
        outcome="share of real rows less common",
        roles=("document", "query"),
        fit_on=(reference, others),
    )


def _shares_below(made: Array, real: Array, reference: Array) -> np.ndarray:
    """For each generated row, the share of real ones below it; equal ones count half."""
    values, among = (to_numpy(conformity(rows, reference)) for rows in (made, real))
    among = np.sort(among)
    below = np.searchsorted(among, values, "left") + np.searchsorted(among, values, "right")
    return np.asarray(below / (2 * len(among)))
