"""Questions about images with a few answers each: is the nearest text the right one?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from modgap._results import Result
from modgap._validate import Array, InputTypeError, InputValueError, check_rows
from modgap.corrections import Correction, Metric
from modgap.search.scores import given_scores, metric_of

# Rows of texts, and the question that each belongs to; or (questions, answers, columns).
Answers = tuple[Array, Any] | Array


@dataclass(frozen=True)
class MultipleChoice(Result):
    """Accuracy of choosing the nearest answer.

    ``chance`` is what guessing gives. ``predictions`` is the place of the chosen answer among those
    of its question, ``hits`` whether it is right: two runs compare by
    ``compare(before.hits, after.hits)``.
    """

    accuracy: float
    chance: float
    n: int
    predictions: np.ndarray
    hits: np.ndarray
    metric: str

    def to_dict(self) -> dict[str, Any]:
        """The accuracy, without each question's answer."""
        found = super().to_dict()
        del found["predictions"], found["hits"]
        return found


def multiple_choice(
    X: Array,
    texts: Answers,
    correct: Any,
    *,
    image_of: Any = None,
    metric: Metric | None = None,
    correction: Correction | None = None,
) -> MultipleChoice:
    """Share of questions whose right answer is nearest to the image (Chowers et al., F.2).

    A text is the question with one of its answers, as Ghosal et al. have it. Equal scores go to the
    earlier answer.

    Parameters
    ----------
    X : (m, d) array
        Rows of images.
    texts : (rows, question_of), or (n, k, d) array
        Rows of texts, and the question of each, numbered from 0 and in order; or k texts for each
        of n questions.
    correct : (n,) integers
        The place of the right answer among those of its question, from 0.
    image_of : (n,) integers, optional
        The row of X that each question is about; by default question i is about row i.
    metric : {"cosine", "inner_product", "euclidean"}, optional
        The correction's, else cosine.
    correction : Correction, optional
        Applied to both; X are the queries, the texts the documents.

    >>> import numpy as np
    >>> texts = np.eye(4).reshape(2, 2, 4)
    >>> multiple_choice(np.array([[0.0, 1, 0, 0], [0, 0, 1, 0]]), texts, [1, 1]).accuracy
    0.5
    """
    X = check_rows(X)
    Y, question_of = check_answers(texts, "texts")
    n = int(question_of[-1]) + 1
    image_of = check_image_of(image_of, n, X.shape[0])
    correct = check_correct(correct, question_of)
    metric = metric_of(metric, correction, "cosine")
    if correction is not None:
        X, Y = correction.x(X, "query"), correction.y(Y)
    chosen = chosen_answers(X, Y, question_of, image_of, metric)
    hits = chosen == correct
    return MultipleChoice(
        accuracy=float(np.mean(hits)),
        chance=float(np.mean(1 / np.bincount(question_of))),
        n=n,
        predictions=chosen,
        hits=hits,
        metric=metric,
    )


def chosen_answers(
    X: Array, Y: Array, question_of: np.ndarray, image_of: np.ndarray, metric: Metric
) -> np.ndarray:
    """The place of the nearest text among those of its question, (n,)."""
    scores = given_scores(X, Y, image_of[question_of], metric, ("X", "texts"))
    starts = starts_of(question_of)
    best = np.maximum.reduceat(scores, starts)
    places = np.flatnonzero(scores == best[question_of])
    # The first of equals: places are in order, and so are the questions.
    first = places[np.searchsorted(question_of[places], np.arange(len(starts)))]
    return np.asarray(first - starts)


def starts_of(question_of: np.ndarray) -> np.ndarray:
    """Where the texts of each question begin."""
    return np.flatnonzero(np.diff(question_of, prepend=-1))


def check_answers(texts: Any, name: str, n: int | None = None) -> tuple[Array, np.ndarray]:
    """Rows of texts and the question of each, from 0, in order, each question with a text."""
    if getattr(texts, "ndim", 0) == 3:
        many, answers, columns = texts.shape
        texts = texts.reshape((many * answers, columns)), np.repeat(np.arange(many), answers)
    if not (isinstance(texts, (tuple, list)) and len(texts) == 2):
        raise InputTypeError(
            f"{name} must be a pair (rows, question of each), or an array of three dimensions, got "
            f"{type(texts).__name__}."
        )
    rows = check_rows(texts[0], name)
    question_of = np.asarray(texts[1])
    if question_of.shape != (rows.shape[0],) or question_of.dtype.kind not in "iu":
        raise InputValueError(
            f"{name} must say the question of each text, a whole number: {rows.shape[0]} rows, got "
            f"{question_of.dtype} of shape {question_of.shape}."
        )
    steps = np.diff(question_of.astype(np.int64), prepend=-1)
    if steps[0] != 1 or np.any((steps != 0) & (steps != 1)):
        raise InputValueError(
            f"The questions of {name} must be numbered from 0, in order, none without a text."
        )
    if n is not None and question_of[-1] != n - 1:
        raise InputValueError(
            f"{name} must have texts for each of {n} questions, got {question_of[-1] + 1}."
        )
    return rows, question_of.astype(np.int64)


def check_image_of(image_of: Any, n: int, n_images: int) -> np.ndarray:
    """The row of its image for each of n questions."""
    if image_of is None and n != n_images:
        raise InputValueError(
            f"Say which image each question is about (image_of=…): got {n} questions and "
            f"{n_images} images."
        )
    found = np.arange(n) if image_of is None else np.asarray(image_of)
    return _check_places(found, "image_of", n, np.full(n, n_images), "rows of X")


def check_correct(correct: Any, question_of: np.ndarray) -> np.ndarray:
    """The place of the right answer of each question."""
    sizes = np.bincount(question_of)
    return _check_places(np.asarray(correct), "correct", len(sizes), sizes, "answers")


def _check_places(
    places: np.ndarray, name: str, n: int, sizes: np.ndarray, what: str
) -> np.ndarray:
    if places.shape != (n,) or places.dtype.kind not in "iu":
        raise InputValueError(
            f"{name} must be a whole number for each of {n} questions, got {places.dtype} of shape "
            f"{places.shape}."
        )
    bad = np.flatnonzero((places < 0) | (places >= sizes))
    if len(bad):
        raise InputValueError(
            f"{name} must count from 0 to below the number of {what}: question {bad[0]} has "
            f"{sizes[bad[0]]}, got {places[bad[0]]}."
        )
    return places.astype(np.int64)
