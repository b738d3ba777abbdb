"""The linear probe as a task: rows of one modality, moved as the gap between two says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from modgap._arrays import to_numpy, unit
from modgap._validate import Array, check_rows, check_same_space
from modgap.corrections import Metric
from modgap.evaluation.probe import linear_probe
from modgap.evaluation.tasks.task import Published, Task
from modgap.evaluation.zero_shot import check_labels
from modgap.io.modalities import DEFAULT_NAMES

# From much regularised to hardly: a correction that changes how rows vary needs another one.
STRENGTHS = (1.0, 10.0, 100.0)
ITERATIONS = 300


def linear_probe_task(
    train: tuple[Array, Any],
    test: tuple[Array, Any],
    Y: Array,
    *,
    names: Sequence[str] = DEFAULT_NAMES,
    C: float | Sequence[float] = STRENGTHS,
    max_iterations: int = ITERATIONS,
    groups: Any = None,
    metric: Metric = "cosine",
    seed: int = 0,
    published: Sequence[Published] = (),
) -> Task:
    """Does a linear classifier find the class of a test row? One outcome a test row.

    A correction maps train and test rows as documents of their modality, and is fitted on the
    train rows and Y. Mapped rows are divided by the root of the mean of their squared lengths, so
    that C means the same everywhere; a probe has an intercept, so a move that brings nothing to
    unit length afterwards changes nothing.

    Parameters
    ----------
    train, test : (rows, labels)
        As for ``linear_probe``.
    Y : (m, d) array
        Rows of the other modality: what the gap is to.
    names : pair of str
        What the modalities of the rows and of Y are called.
    C, max_iterations, seed
        As for ``linear_probe``; of several C the best on a held-out fifth of ``train`` is used.
    groups : (n,) labels, optional
        Test rows that belong together; each by itself when left out.
    metric : {"cosine", "inner_product", "euclidean"}
        "cosine" probes rows as they are at unit length.
    published : sequence of Published
        What papers print for it.
    """
    rows, test_rows = (check_rows(side[0], nonzero=True) for side in (train, test))
    check_same_space(rows, test_rows, ("train", "test"))
    n_train, n_test = rows.shape[0], test_rows.shape[0]
    labels = check_labels(train[1], n_train, "train labels")
    test_labels = check_labels(test[1], n_test, "test labels")

    def judge(X: Array, _: Array, metric: Metric) -> np.ndarray:
        mapped = to_numpy(unit(X) if metric == "cosine" else X).astype(np.float64)
        mapped /= np.sqrt(np.mean(np.sum(mapped[:n_train] ** 2, axis=1)))
        sides = (mapped[:n_train], labels), (mapped[n_train:], test_labels)
        return linear_probe(*sides, C=C, max_iterations=max_iterations, seed=seed).hits

    return Task(
        name="linear_probe",
        names=(names[0], names[1]),
        X=np.concatenate([to_numpy(rows), to_numpy(test_rows)]),
        Y=to_numpy(check_rows(Y, names[1])),
        judge=judge,
        groups=np.arange(n_test) if groups is None else np.asarray(groups),
        metric=metric,
        roles=("document", "document"),
        fit_on=(rows, Y),
        published=tuple(published),
    )
