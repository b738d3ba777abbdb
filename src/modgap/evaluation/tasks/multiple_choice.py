"""Multiple choice as a task: with the first wording of the answers, and with others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from modgap._arrays import namespace, to_numpy, unit
from modgap._validate import Array, check_count, check_rows, check_same_space
from modgap.corrections import Metric
from modgap.evaluation.multiple_choice import (
    Answers,
    check_answers,
    check_correct,
    check_image_of,
    chosen_answers,
    starts_of,
)
from modgap.evaluation.rephrasing import (
    DRAWS,
    check_enough,
    draw_answers,
    own_directions,
    shared_hits,
)
from modgap.evaluation.tasks.task import Published, Task
from modgap.evaluation.tasks.ways import BOTH_WAYS, AtAmount, TaskRows, Way
from modgap.io.modalities import DEFAULT_NAMES
from modgap.search.scores import given_scores


def multiple_choice_task(
    X: Array,
    texts: Answers,
    correct: Any,
    *,
    image_of: Any = None,
    names: Sequence[str] = DEFAULT_NAMES,
    metric: Metric = "cosine",
    published: Sequence[Published] = (),
) -> Task:
    """Is the text with the right answer nearest to the image? One outcome a question.

    Parameters
    ----------
    X, texts, correct, image_of
        As for ``multiple_choice``.
    names : pair of str
        What the modalities of X and of the texts are called.
    metric : {"cosine", "inner_product", "euclidean"}
        How the rows as they are get ranked.
    published : sequence of Published
        What papers print for it.

    >>> task = multiple_choice_task(np.eye(2), np.eye(2)[[[0, 1], [0, 1]]], [0, 0])
    >>> task.outcomes()
    array([1., 0.])
    """
    X = check_rows(X)
    Y, question_of = check_answers(texts, "texts")
    image_of = check_image_of(image_of, int(question_of[-1]) + 1, X.shape[0])
    right = check_correct(correct, question_of)
    return Task(
        name="multiple_choice",
        names=(names[0], names[1]),
        X=X,
        Y=Y,
        judge=lambda X, Y, metric: chosen_answers(X, Y, question_of, image_of, metric) == right,
        groups=image_of,
        x_groups=np.arange(X.shape[0]),
        metric=metric,
        published=tuple(published),
    )


def rephrased_choice_task(
    X: Array,
    texts: Answers,
    correct: Any,
    right: Answers,
    wrong: Answers,
    *,
    image_of: Any = None,
    names: Sequence[str] = DEFAULT_NAMES,
    metric: Metric = "cosine",
    draws: int = DRAWS,
    seed: int = 0,
    published: Sequence[Published] = (),
) -> Task:
    """Is the right answer nearest when answers are said in other words? One share a question.

    Parameters
    ----------
    X, texts, correct, right, wrong, image_of, draws, seed
        As for ``rephrased_choice``. Corrections are fitted on ``X`` and ``texts``.
    names, metric, published
        As for ``multiple_choice_task``.
    """
    X = check_rows(X)
    first, question_of = check_answers(texts, "texts")
    n = int(question_of[-1]) + 1
    check_correct(correct, question_of)
    image_of = check_image_of(image_of, n, X.shape[0])
    others = [check_answers(right, "right", n), check_answers(wrong, "wrong", n)]
    check_enough(question_of, others[1][1])
    for rows, name in zip(others, ("right", "wrong"), strict=True):
        check_same_space(first, rows[0], ("texts", name))
    asked_by = image_of[np.concatenate([question_of, *(of for _, of in others)])]
    drawn = _drawn(question_of, others[0][1], others[1][1], check_count(draws, "draws"), seed)

    def judge(X: Array, Y: Array, metric: Metric) -> np.ndarray:
        scores = given_scores(X, Y, asked_by, metric, ("X", "texts"))
        return np.array([shared_hits(scores[own], scores[rivals]).mean() for own, rivals in drawn])

    return Task(
        name="rephrased_choice",
        names=(names[0], names[1]),
        X=X,
        Y=namespace(first).concat([first, *(rows for rows, _ in others)]),
        judge=judge,
        groups=image_of,
        outcome="accuracy in other words",
        x_groups=np.arange(X.shape[0]),
        metric=metric,
        fit_on=(X, first),
        published=tuple(published),
    )


def _drawn(
    question_of: np.ndarray, right_of: np.ndarray, wrong_of: np.ndarray, draws: int, seed: int
) -> list[tuple[np.ndarray, np.ndarray]]:
    """For each question the rows of Y drawn: right (draws,), and wrong (draws, k − 1)."""
    rng = np.random.default_rng(seed)
    sizes = (np.bincount(question_of) - 1, np.bincount(right_of), np.bincount(wrong_of))
    right_at = len(question_of) + starts_of(right_of)
    wrong_at = len(question_of) + len(right_of) + starts_of(wrong_of)
    found = []
    for i, (rivals, n_right, n_wrong) in enumerate(zip(*sizes, strict=True)):
        own, against = draw_answers(n_right, n_wrong, rivals, draws, rng)
        found.append(
            ((own + right_at[i]).astype(np.int32), (against + wrong_at[i]).astype(np.int32))
        )
    return found


@dataclass(frozen=True, eq=False)
class OwnShift(Way):
    """The texts of each question moved along the part of the gap orthogonal to its first ones.

    Chowers et al., eq. 11, question by question; the metric is Euclidean. ``question_of`` is of
    each row of Y, of which the first ``n_first`` are the first texts.
    """

    question_of: np.ndarray
    n_first: int

    def fitted(self, rows: TaskRows) -> AtAmount:
        """A direction for each question, from the gap of the rows to fit on."""
        task = rows.task
        X, Y = (unit(to_numpy(side).astype(np.float64)) for side in (task.X, task.Y))
        sides = rows.fit.side_moments(detail="mean")
        asking, found = (to_numpy(sides[name].unit_rows().mean) for name in task.names)
        starts = starts_of(self.question_of[: self.n_first])
        own = np.split(Y[: self.n_first], starts[1:])
        directions = np.concatenate([own_directions(asking - found, texts[None]) for texts in own])
        raw = X.mean(axis=0) - Y.mean(axis=0)

        def at(amount: float) -> tuple[np.ndarray, float]:
            moved = Y + amount * directions[self.question_of]
            left = X.mean(axis=0) - moved.mean(axis=0)
            sign = -1.0 if left @ raw < 0 else 1.0
            return task.judge(X, moved, "euclidean"), float(sign * np.linalg.norm(left))

        return at


def own_shift(texts: Answers, *others: Answers, amounts: Sequence[float] = BOTH_WAYS) -> OwnShift:
    """The way for a task of these texts; the rephrased one has right and wrong texts, too."""
    first = check_answers(texts, "texts")[1]
    rest = [check_answers(given, "texts", int(first[-1]) + 1)[1] for given in others]
    return OwnShift("shift by question", tuple(amounts), np.concatenate([first, *rest]), len(first))
