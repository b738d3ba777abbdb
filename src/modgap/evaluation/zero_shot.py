"""Zero-shot classification: is the nearest class text the right one?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from modgap._arrays import namespace, unit
from modgap._results import Result
from modgap._text import same_texts
from modgap._validate import Array, InputTypeError, InputValueError, check_rows
from modgap.corrections import Correction, Metric
from modgap.search import search
from modgap.search.scores import metric_of


@dataclass(frozen=True)
class Classification(Result):
    """Accuracy of predicted classes, over all items and by class.

    ``class_accuracy`` has one number per entry of ``classes``, NaN where no item has that class.
    ``hits`` has one Boolean per item: two runs over the same items compare by
    ``compare(before.hits, after.hits)``.
    """

    accuracy: float
    class_accuracy: np.ndarray
    classes: np.ndarray
    n: int
    predictions: np.ndarray
    hits: np.ndarray

    @property
    def mean_class_accuracy(self) -> float:
        """Mean over the classes that have items: each class counts the same."""
        return float(np.nanmean(self.class_accuracy))

    def to_dict(self) -> dict[str, Any]:
        """The accuracies, without each item's prediction."""
        found = super().to_dict()
        del found["predictions"], found["hits"]
        return {**found, "mean_class_accuracy": self.mean_class_accuracy}


def accuracies(labels: np.ndarray, predictions: np.ndarray, classes: np.ndarray) -> dict[str, Any]:
    """The fields of a ``Classification`` for predictions among the classes."""
    hits = predictions == labels
    place = np.searchsorted(classes, labels)
    counts = np.bincount(place, minlength=len(classes))
    right = np.bincount(place, weights=hits, minlength=len(classes))
    by_class = np.where(counts > 0, right / np.maximum(counts, 1), np.nan)
    return {
        "accuracy": float(np.mean(hits)),
        "class_accuracy": by_class,
        "classes": classes,
        "n": len(labels),
        "predictions": predictions,
        "hits": hits,
    }


@dataclass(frozen=True)
class ZeroShot(Classification):
    """A ``Classification`` by the nearest class text; classes are numbered from 0."""

    metric: str


def zero_shot(
    X: Array,
    class_texts: Array | Sequence[Array],
    labels: Any,
    *,
    metric: Metric | None = None,
    correction: Correction | None = None,
) -> ZeroShot:
    """Accuracy of giving each row of X the class whose text is nearest (Radford et al. 2021).

    ``class_texts`` (c, d) has one row per class; several prompts per class come as (c, p, d) or as
    c matrices, and are averaged at unit length, as CLIP does. ``labels`` are class numbers, 0 to
    c − 1, one per row of X. Equal scores go to the earlier class. Chance is 1/c. The metric is the
    correction's, else cosine; X are the queries, the texts the documents (Yaras et al., E.3). A
    correction with hubs must have been fitted on other rows than X; see ``zero_shot_hubs``.

    >>> import numpy as np
    >>> zero_shot(np.eye(3), np.eye(3), [0, 1, 0]).class_accuracy
    array([0.5, 1. , nan])
    """
    X = check_rows(X)
    texts = one_row_per_class(class_texts)
    n_classes = texts.shape[0]
    labels = check_class_numbers(labels, X.shape[0], n_classes)
    metric = metric_of(metric, correction, "cosine")
    if correction is not None:
        X, texts = correction.x(X, "query"), correction.y(texts)
    nearest, _ = search(X, texts, 1, metric, names=("X", "class_texts"))
    return ZeroShot(**accuracies(labels, nearest[:, 0], np.arange(n_classes)), metric=metric)


def check_labels(labels: Any, n: int, name: str = "labels") -> np.ndarray:
    """One label per row, in the memory of NumPy."""
    if hasattr(labels, "detach"):
        labels = labels.detach().cpu()
    found = same_texts(labels)
    if found.ndim != 1 or len(found) != n:
        raise InputValueError(
            f"{name} must give one label per row: {n} rows, got shape {found.shape}."
        )
    return found


def check_class_numbers(labels: Any, n: int, n_classes: int) -> np.ndarray:
    """One class number per row, from 0."""
    found = check_labels(labels, n)
    if found.dtype.kind not in "iu":
        raise InputTypeError(
            f"labels must be class numbers, whole numbers from 0, got {found.dtype}. "
            "Number the classes in the order of class_texts."
        )
    if found.min() < 0 or found.max() >= n_classes:
        raise InputValueError(
            f"labels must be between 0 and {n_classes - 1}, one class per row of class_texts, "
            f"got {found.min()} to {found.max()}."
        )
    return found


def one_row_per_class(class_texts: Array | Sequence[Array]) -> Array:
    """Class rows as given, or the unit mean of each class's unit prompts."""
    listed = isinstance(class_texts, (list, tuple)) and len(class_texts) > 0
    if not (listed and np.ndim(class_texts[0]) == 2) and getattr(class_texts, "ndim", 2) != 3:
        return check_rows(class_texts, "class_texts")
    means = []
    for place, prompts in enumerate(class_texts):
        prompts = unit(check_rows(prompts, f"class_texts[{place}]", nonzero=True))
        means.append(namespace(prompts).mean(prompts, axis=0))
    return unit(namespace(*means).stack(means))
