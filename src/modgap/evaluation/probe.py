"""Linear probe: what a linear classifier reads from the rows of one modality."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from modgap._arrays import to_numpy
from modgap._validate import (
    Array,
    InputTypeError,
    InputValueError,
    check_count,
    check_numbers,
    check_rows,
)
from modgap.evaluation.zero_shot import Classification, accuracies, check_labels

# Radford et al.'s published example of a probe uses this C; their paper sweeps it.
CLIP_C = 0.316
CLIP_ITERATIONS = 1_000


@dataclass(frozen=True)
class LinearProbe(Classification):
    """A ``Classification`` by logistic regression, with the inverse regularisation it used."""

    n_train: int
    C: float
    converged: bool
    seed: int


def linear_probe(
    train: tuple[Array, Any],
    test: tuple[Array, Any],
    *,
    C: float | Sequence[float] = CLIP_C,
    max_iterations: int = CLIP_ITERATIONS,
    seed: int = 0,
) -> LinearProbe:
    """Accuracy on ``test`` of a logistic regression fitted on ``train`` (Radford et al. 2021, 3.2).

    Rows of small norm need a large C: compare models at a sweep, or at unit rows (Yaras et al.,
    E.3).

    Parameters
    ----------
    train, test : (rows, labels)
        Rows are used as given; labels are numbers or texts.
    C : float or several
        Inverse strength of the penalty. Of several, the one that does best on a held-out fifth of
        ``train`` is fitted on all of it.
    max_iterations : int
        Steps of the solver at most.
    seed : int
        Seed of the held-out fifth.

    >>> import numpy as np
    >>> X = np.array([[0.0, 1], [0, 2], [1, 0], [2, 0]])
    >>> linear_probe((X, [0, 0, 1, 1]), (X, [0, 0, 1, 0])).accuracy
    0.75
    """
    rows, labels = _check_side(train, "train")
    test_rows, test_labels = _check_side(test, "test")
    if rows.shape[1] != test_rows.shape[1]:
        raise InputValueError(
            f"train and test must have the same number of columns, "
            f"got {rows.shape[1]} and {test_rows.shape[1]}. Embed both with the same model."
        )
    classes = np.unique(labels)
    if len(classes) < 2:
        raise InputValueError(f"train needs at least two classes, got only {classes[0]!r}.")
    unknown = np.setdiff1d(test_labels, classes)
    if len(unknown):
        raise InputValueError(
            f"test has {len(unknown)} classes that train does not have, the first {unknown[0]!r}. "
            "Leave those items out or add examples."
        )
    strengths = check_numbers(C, "C", positive=True)
    iterations = check_count(max_iterations, "max_iterations")
    chosen = _choose(rows, labels, strengths, iterations, seed)
    model, converged = _fit(rows, labels, chosen, iterations)
    return LinearProbe(
        **accuracies(test_labels, model.predict(test_rows), classes),
        n_train=len(labels),
        C=chosen,
        converged=converged,
        seed=seed,
    )


def _check_side(side: Any, name: str) -> tuple[np.ndarray, np.ndarray]:
    if not (isinstance(side, (tuple, list)) and len(side) == 2):
        raise InputTypeError(f"{name} must be a pair (rows, labels), got {type(side).__name__}.")
    rows = to_numpy(check_rows(side[0], f"{name} rows"))
    return rows.astype(np.float64), check_labels(side[1], rows.shape[0], f"{name} labels")


def _choose(
    rows: np.ndarray, labels: np.ndarray, strengths: np.ndarray, iterations: int, seed: int
) -> float:
    """The C of best held-out accuracy, the smallest of equals."""
    if len(strengths) == 1:
        return float(strengths[0])
    from sklearn.model_selection import train_test_split

    classes, counts = np.unique(labels, return_counts=True)
    if counts.min() < 2 or len(labels) < 5 * len(classes):
        raise InputValueError(
            f"Choosing among several C needs about five train rows per class, got {len(labels)} "
            f"rows of {len(classes)} classes. Give one C."
        )
    fit, held_out = train_test_split(
        np.arange(len(labels)), test_size=0.2, random_state=seed, stratify=labels
    )
    scores = []
    for strength in np.sort(strengths):
        model, _ = _fit(rows[fit], labels[fit], float(strength), iterations)
        scores.append(float(np.mean(model.predict(rows[held_out]) == labels[held_out])))
    return float(np.sort(strengths)[int(np.argmax(scores))])


def _fit(rows: np.ndarray, labels: np.ndarray, C: float, iterations: int) -> tuple[Any, bool]:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=C, max_iter=iterations)
    with warnings.catch_warnings():
        # Said by ``converged`` instead: a probe that stops early is still a probe.
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(rows, labels)
    return model, bool(np.max(model.n_iter_) < iterations)
