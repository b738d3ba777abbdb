"""Linear probe: what a linear classifier reads from the rows of one modality."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from modgap.arrays import to_numpy, unit
from modgap.core.checks import Array, InputTypeError, InputValueError, check_count, check_numbers
from modgap.core.door import check_matrix, check_rows
from modgap.core.results import NOT_IN_JSON, Result
from modgap.corrections import Metric
from modgap.io import Items
from modgap.io.modalities import DEFAULT_NAMES
from modgap.tasks.command import (
    COLUMN,
    MODEL,
    ROWS,
    Option,
    Prepared,
    TaskCommand,
    TaskInputs,
    TaskModel,
    read_rows,
    rows_with,
    task_rows,
)
from modgap.tasks.task import Task, check_labels
from modgap.tasks.zero_shot import CLASS_OPTIONS, LABELS, LabelledItems, open_labelled

# Radford et al.'s published example of a probe uses this C; their paper sweeps it.
CLIP_C = 0.316
CLIP_ITERATIONS = 1_000
# From much regularised to hardly: a correction that changes how rows vary needs another one.
STRENGTHS = (1.0, 10.0, 100.0)
ITERATIONS = 300
# Rows with a label each.
Labelled = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class LinearProbe(Result):
    """Accuracy of a logistic regression, with the inverse regularisation it used.

    ``predictions`` and ``hits`` have one entry per test row: two probes of the same rows compare by
    ``compare(before.hits, after.hits)``.
    """

    accuracy: float
    n: int
    n_train: int
    C: float
    converged: bool
    seed: int
    predictions: np.ndarray = field(metadata=NOT_IN_JSON)
    hits: np.ndarray = field(metadata=NOT_IN_JSON)


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
    sides = _check_sides(train, test)
    strengths = check_numbers(C, "C", positive=True)
    return _probe(*sides, strengths, check_count(max_iterations, "max_iterations"), seed)


def _check_sides(train: Any, test: Any) -> tuple[Labelled, Labelled]:
    (rows, labels), (test_rows, test_labels) = (
        _check_side(side, name) for side, name in ((train, "train"), (test, "test"))
    )
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
    return (rows, labels), (test_rows, test_labels)


def _check_side(side: Any, name: str) -> Labelled:
    if not (isinstance(side, (tuple, list)) and len(side) == 2):
        raise InputTypeError(f"{name} must be a pair (rows, labels), got {type(side).__name__}.")
    rows = to_numpy(check_rows(side[0], f"{name} rows"))
    return rows.astype(np.float64), check_labels(side[1], rows.shape[0], f"{name} labels")


def _probe(
    train: Labelled, test: Labelled, strengths: np.ndarray, iterations: int, seed: int
) -> LinearProbe:
    """The probe of checked rows."""
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        # Said by ``converged`` instead: a probe that stops early is still a probe.
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = _fitted(*train, strengths, iterations, seed)
    predictions = model.predict(test[0])
    hits = predictions == test[1]
    return LinearProbe(
        accuracy=float(np.mean(hits)),
        n=len(hits),
        n_train=len(train[1]),
        C=float(model.C),
        converged=bool(np.max(model.n_iter_) < iterations),
        seed=seed,
        predictions=predictions,
        hits=hits,
    )


def _fitted(
    rows: np.ndarray, labels: np.ndarray, strengths: np.ndarray, iterations: int, seed: int
) -> Any:
    """Fitted with the C of best accuracy on a held-out fifth, the smallest of equals."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV, StratifiedShuffleSplit

    model = LogisticRegression(C=float(strengths[0]), max_iter=iterations)
    if len(strengths) == 1:
        return model.fit(rows, labels)
    classes, counts = np.unique(labels, return_counts=True)
    if counts.min() < 2 or len(labels) < 5 * len(classes):
        raise InputValueError(
            f"Choosing among several C needs about five train rows per class, got {len(labels)} "
            f"rows of {len(classes)} classes. Give one C."
        )
    fifth = StratifiedShuffleSplit(1, test_size=0.2, random_state=seed)
    search = GridSearchCV(model, {"C": np.sort(strengths)}, cv=fifth).fit(rows, labels)
    return search.best_estimator_


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
        The names of the modalities of the rows and of Y.
    C, max_iterations, seed
        As for ``linear_probe``; of several C the best on a held-out fifth of ``train`` is used.
    groups : (n,) labels, optional
        Test rows that belong together; by default each by itself.
    metric : {"cosine", "inner_product", "euclidean"}
        "cosine" brings uncorrected rows to unit length.
    """
    (_, labels), (_, test_labels) = _check_sides(train, test)
    strengths = check_numbers(C, "C", positive=True)
    iterations = check_count(max_iterations, "max_iterations")
    n_train = len(labels)

    def judge(X: Array, _: Array, metric: Metric) -> np.ndarray:
        mapped = to_numpy(unit(X) if metric == "cosine" else X).astype(np.float64)
        mapped /= np.sqrt(np.mean(np.sum(mapped[:n_train] ** 2, axis=1)))
        sides = (mapped[:n_train], labels), (mapped[n_train:], test_labels)
        return _probe(*sides, strengths, iterations, seed).hits

    rows, test_rows, Y = (to_numpy(check_matrix(side)) for side in (train[0], test[0], Y))
    return Task(
        name="linear_probe",
        names=(names[0], names[1]),
        X=np.concatenate([rows, test_rows]),
        Y=Y,
        judge=judge,
        groups=np.arange(len(test_labels)) if groups is None else np.asarray(groups),
        metric=metric,
        roles=("document", "document"),
        fit_on=(rows, Y),
    )


# What the command line offers.


def _shares(rows: Any, labels: Any, share: float, seed: int) -> tuple[Labelled, Labelled]:
    """Rows that train and rows that test, drawn at random."""
    X, numbers = to_numpy(rows), np.asarray(labels)
    order = np.random.default_rng(seed).permutation(len(X))
    n_train = round(share * len(X))
    train, test = np.sort(order[:n_train]), np.sort(order[n_train:])
    return (X[train], numbers[train]), (X[test], numbers[test])


def _read(given: Any) -> dict[str, Any]:
    rows, labels = rows_with(given.rows, given.labels, given.column)
    train, test = _shares(rows, labels, given.train_share, given.seed)
    Y = read_rows(given.text, given.text_column)
    return {"train": train, "test": test, "Y": Y, "names": given.names}


def _embed(
    model: TaskModel,
    data: LabelledItems,
    *,
    train_split: str | None,
    test_split: str | None,
    train_share: float,
    seed: int,
    **options: Any,
) -> TaskInputs:
    found = task_rows(model, data, **options)
    X, labels = found.inputs["X"], found.inputs["labels"]
    splits = _splits(data.items, train_split, test_split)
    if splits is None:
        train, test = _shares(X, labels, train_share, seed)
    else:
        train, test = (
            (X[chosen], labels[chosen])
            for chosen in (np.isin(found.items, data.items.split(name).names) for name in splits)
        )
    Y = found.inputs["class_texts"].reshape(-1, X.shape[1])
    inputs = {"train": train, "test": test, "Y": Y, "names": found.inputs["names"]}
    return replace(found, inputs=inputs)


def _splits(items: Items, train: str | None, test: str | None) -> tuple[str, str] | None:
    """The splits that train and test, by their names; None where the data have none."""
    known = items.splits()
    if not known and train is None and test is None:
        return None
    wanted = test or next((name for name in ("test", "val", "dev") if name in known), "test")
    if (train or "train") == wanted:
        raise InputValueError(f"--train-split and --test-split must differ, got {wanted} twice.")
    return train or "train", wanted


COMMAND = TaskCommand(
    name="linear_probe",
    help="""Fit a logistic regression on rows of one modality, moved and corrected in every way.

    Example: modgap task linear_probe images.npy --labels labels.txt --text texts.npy

    Example: modgap task linear_probe --model hf:openai/clip-vit-base-patch32 --data photos
    """,
    options=(
        Option("text", Path, panel=ROWS, needed=True),
        LABELS,
        COLUMN,
        Option("text_column", panel=ROWS),
        Option("train_share", float, 0.5),
        Option("train_split", panel=MODEL),
        Option("test_split", panel=MODEL),
        *CLASS_OPTIONS,
    ),
    read=_read,
    open=open_labelled,
    settings=("train_split", "test_split", "train_share", "seed"),
    embed=_embed,
    prepare=lambda inputs, given, progress: Prepared(
        linear_probe_task(**inputs, metric=given.metric, seed=given.seed),
        more={"n_train": len(inputs["train"][1])},
    ),
    bank=False,
)
