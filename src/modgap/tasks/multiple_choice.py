"""Questions about images with a few answers each: is the nearest text the right one?

Also in other words: wrong and right texts are drawn anew, and the gap is closed by a direction of
its own for each question.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from modgap.arrays import namespace, to_numpy, unit
from modgap.core.checks import (
    Array,
    InputTypeError,
    InputValueError,
    check_count,
    check_numbers,
    check_same_space,
)
from modgap.core.door import check_matrix, check_rows
from modgap.core.results import NOT_IN_JSON, Progress, Result, Table, silent
from modgap.core.tables import HasTable
from modgap.corrections import Metric
from modgap.evaluation.significance import DEFAULT_RESAMPLES, Comparison, compare
from modgap.io.modalities import DEFAULT_NAMES
from modgap.tasks.aokvqa import WRONG, open_aokvqa
from modgap.tasks.command import (
    COLUMN,
    IMAGES,
    MODEL,
    ROWS,
    SPLIT,
    SWEEP,
    Option,
    Prepared,
    TaskCommand,
    numbers_of,
    read_rows,
    rows_with,
)
from modgap.tasks.questions import QuestionJudge, check_answers, check_places, starts_of
from modgap.tasks.task import Task
from modgap.tasks.tried_corrections import BOTH_WAYS, AtAmount, TaskRows, Way, default_ways

# Rows of texts, and the question that each belongs to; or (questions, answers, columns).
Answers = tuple[Array, Any] | Array
# −1 doubles the gap, 0 leaves it, 1 closes what the direction can close.
AMOUNTS = (-1.0, -0.75, -0.5, -0.25, 0.0, 0.25, 0.5, 0.75, 1.0)
# Chowers et al., fig. 10.
DRAWS = 500


def multiple_choice_task(
    X: Array,
    texts: Answers,
    correct: Any,
    *,
    image_of: Any = None,
    names: Sequence[str] = DEFAULT_NAMES,
    metric: Metric = "cosine",
) -> Task:
    """Is the text with the right answer nearest to the image? One outcome a question.

    A text is the question with one of its answers, as Ghosal et al. have it (Chowers et al., F.2).
    Equal scores go to the earlier answer. X are the queries, the texts the documents.

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
    names : pair of str
        The names of the modalities of X and of the texts.
    metric : {"cosine", "inner_product", "euclidean"}
        How uncorrected rows are ranked.

    >>> multiple_choice_task(np.eye(2), np.eye(2)[[[0, 1], [0, 1]]], [0, 0]).score().predictions
    array([0, 1])
    """
    X = check_matrix(X)
    Y, question_of = check_answers(texts, "texts")
    sizes, n_images = np.bincount(question_of), X.shape[0]
    n = len(sizes)
    if image_of is None and n != n_images:
        raise InputValueError(
            f"Say which image each question is about (image_of=…): got {n} questions and "
            f"{n_images} images."
        )
    image_of = np.arange(n) if image_of is None else np.asarray(image_of)
    image_of = check_places(image_of, "image_of", np.full(n, n_images), "rows of X")
    right = check_places(np.asarray(correct), "correct", sizes, "answers")
    return Task(
        name="multiple_choice",
        names=(names[0], names[1]),
        X=X,
        Y=Y,
        judge=QuestionJudge(question_of, image_of[question_of], question_of, right),
        right=right,
        chance=float(np.mean(1 / sizes)),
        groups=image_of,
        x_groups=np.arange(n_images),
        metric=metric,
        row_names=("X", "texts"),
    )


@dataclass(frozen=True)
class RephrasedChoice(HasTable, Result):
    """Accuracy of multiple choice as the gap closes, in the first wording and in others.

    ``clean`` and ``rephrased`` (amounts,) are the accuracies; ``closed`` the share of the gap that
    amount 1 closes, on average over the questions. ``clean_hits`` (amounts, n) and
    ``rephrased_shares`` (amounts, n), the share of draws answered right, are of each question;
    ``groups`` (n,) are those about one image.
    """

    amounts: np.ndarray
    clean: np.ndarray
    rephrased: np.ndarray
    closed: float
    draws: int
    n: int
    clean_hits: np.ndarray = field(metadata=NOT_IN_JSON)
    rephrased_shares: np.ndarray = field(metadata=NOT_IN_JSON)
    groups: np.ndarray = field(metadata=NOT_IN_JSON)

    def gain(
        self, amount: float = 1.0, *, resamples: int = DEFAULT_RESAMPLES, seed: int = 0
    ) -> Comparison:
        """Accuracy in other words at this amount against the gap as it is, by image."""
        places = {float(a): i for i, a in enumerate(self.amounts)}
        if 0.0 not in places or amount not in places:
            raise InputValueError(
                f"amounts must hold 0 and {amount:g} for that comparison, got "
                f"{self.amounts.tolist()}."
            )
        before, after = (self.rephrased_shares[places[a]] for a in (0.0, amount))
        return compare(before, after, self.groups, resamples=resamples, seed=seed)

    def table(self) -> Table:
        """The accuracies at each amount."""
        header = ("shift by question", "accuracy", "accuracy in other words")
        lines = zip(self.amounts, self.clean, self.rephrased, strict=True)
        return header, [(f"{amount:g}", f"{a:.3f}", f"{b:.3f}") for amount, a, b in lines]


def rephrased_choice(
    task: Task,
    *,
    gap: Array | None = None,
    amounts: Sequence[float] = AMOUNTS,
    progress: Progress | None = None,
) -> RephrasedChoice:
    """Accuracy when answers are said in other words, as the gap closes (Chowers et al., fig. 10).

    The texts of a question move by amount·g′, where g′ is the part of the gap orthogonal to its own
    first texts (eq. 11), so that the clean accuracy cannot change. All rows at unit length, nearest
    by Euclidean distance.

    Parameters
    ----------
    task : Task
        What ``rephrased_choice_task`` gives.
    gap : (d,) array, optional
        From the mean of the texts to that of the images; by default of the first texts and X.
    amounts : sequence of float
        How far the gap is closed: −1 doubles it.
    progress : callable, optional
        Called as ``progress(step, done, total)``.
    """
    judge = task.judge
    if not (isinstance(judge, QuestionJudge) and judge.drawn):
        raise InputTypeError("rephrased_choice needs a task that rephrased_choice_task makes.")
    steps, (images, rows) = check_numbers(amounts, "amounts"), _unit_rows(task)
    between = images.mean(axis=0) - rows[: len(judge.first_of)].mean(axis=0)
    vector = between if gap is None else to_numpy(gap).astype(np.float64)
    if vector.shape != between.shape or not np.all(np.isfinite(vector)):
        raise InputValueError(
            f"gap must be one vector of {len(between)} finite numbers, got shape {vector.shape}."
        )
    directions, scores_at = judge.along(vector, images, rows)
    clean, shares = [], []
    for k, amount in enumerate(steps):
        (progress or silent)("amounts", k, len(steps))
        scores = scores_at(amount)
        clean.append(judge.chosen(scores) == judge.correct)
        shares.append(judge.decide(scores))
    length = float(np.linalg.norm(vector))
    closed = np.linalg.norm(directions, axis=1).mean() / length if length > 0 else 0.0
    return RephrasedChoice(
        amounts=steps,
        clean=np.mean(clean, axis=1),
        rephrased=np.mean(shares, axis=1),
        closed=float(closed),
        draws=len(judge.drawn[0][0]),
        n=task.n_items,
        clean_hits=np.array(clean),
        rephrased_shares=np.array(shares),
        groups=task.groups,
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
) -> Task:
    """Is the right answer nearest when answers are said in other words? One share a question.

    In each draw a question has one of its right answers and as many wrong ones as before, drawn
    without replacement; answers that tie share the hit. Corrections are fitted on ``X`` and
    ``texts``.

    Parameters
    ----------
    X, texts, correct, image_of, names, metric
        As for ``multiple_choice_task``: images, the first texts, and which of them are right.
    right, wrong : (rows, question_of), or (n, k, d) array
        Other texts that are right for their question, one or more; and wrong ones, at least as many
        as a question has wrong answers.
    draws : int
        How often answers are drawn.
    seed : int
        Seed of the draws.
    """
    clean = multiple_choice_task(X, texts, correct, image_of=image_of, names=names, metric=metric)
    judge: QuestionJudge = clean.judge  # type: ignore[assignment]
    question_of, n = judge.first_of, clean.n_items
    others = [
        check_answers(given, name, n, nonzero=metric == "cosine")
        for given, name in ((right, "right"), (wrong, "wrong"))
    ]
    needed, found = np.bincount(question_of) - 1, np.bincount(others[1][1])
    short = np.flatnonzero(found < needed)
    if len(short):
        raise InputValueError(
            f"wrong must have at least as many texts as a question has wrong answers: question "
            f"{short[0]} has {found[short[0]]} for {needed[short[0]]}."
        )
    for rows, name in zip(others, ("right", "wrong"), strict=True):
        check_same_space(clean.Y, rows[0], ("texts", name))
    drawn = _draws(question_of, others[0][1], others[1][1], check_count(draws, "draws"), seed)
    every = np.concatenate([question_of, *(of for _, of in others)])
    return replace(
        clean,
        name="rephrased_choice",
        Y=namespace(clean.Y).concat([clean.Y, *(rows for rows, _ in others)]),
        judge=QuestionJudge(every, clean.groups[every], question_of, judge.correct, drawn),
        right=None,
        chance=float("nan"),
        outcome="accuracy in other words",
        fit_on=(clean.X, clean.Y),
    )


def _draws(
    question_of: np.ndarray, right_of: np.ndarray, wrong_of: np.ndarray, draws: int, seed: int
) -> list[tuple[np.ndarray, np.ndarray]]:
    """For each question the texts drawn: right ones (draws,), and wrong ones (draws, k − 1).

    The wrong ones of a draw are all different.
    """
    rng = np.random.default_rng(seed)
    sizes = (np.bincount(question_of) - 1, np.bincount(right_of), np.bincount(wrong_of))
    right_at = len(question_of) + starts_of(right_of)
    wrong_at = len(question_of) + len(right_of) + starts_of(wrong_of)
    found = []
    for i, (rivals, n_right, n_wrong) in enumerate(zip(*sizes, strict=True)):
        own = right_at[i] + rng.integers(n_right, size=draws)
        against = wrong_at[i] + np.argsort(rng.random((draws, n_wrong)), axis=1)[:, :rivals]
        found.append((own.astype(np.int32), against.astype(np.int32)))
    return found


@dataclass(frozen=True, eq=False)
class OwnShift(Way):
    """The texts of each question moved along the part of the gap orthogonal to its first ones.

    Chowers et al., eq. 11, question by question; the metric is Euclidean.
    """

    name: str = "shift by question"
    amounts: tuple[float, ...] = BOTH_WAYS

    def fitted(self, rows: TaskRows) -> AtAmount:
        """A direction for each question, from the gap of the rows to fit on."""
        task, judge = rows.task, rows.task.judge
        if not isinstance(judge, QuestionJudge):
            raise InputValueError("it needs a task of questions")
        X, Y = _unit_rows(task)
        sides = rows.fit.side_moments(detail="mean")
        asking, found = (to_numpy(sides[name].unit_rows().mean) for name in task.names)
        directions, scores_at = judge.along(asking - found, X, Y)
        raw = X.mean(axis=0) - Y.mean(axis=0)
        drift = np.bincount(judge.question_of) @ directions / len(Y)

        def at(amount: float) -> tuple[np.ndarray, float]:
            left = raw - amount * drift
            sign = -1.0 if left @ raw < 0 else 1.0
            outcomes = task.checked(judge.decide(scores_at(amount)))
            return outcomes, float(sign * np.linalg.norm(left))

        return at


def _unit_rows(task: Task) -> tuple[np.ndarray, np.ndarray]:
    X, Y = (
        unit(to_numpy(check_rows(rows, name, nonzero=True)).astype(np.float64))
        for rows, name in zip((task.X, task.Y), task.row_names, strict=True)
    )
    return X, Y


# What the command line offers.


def _read(given: Any) -> dict[str, Any]:
    found = {
        "X": read_rows(given.rows, given.column),
        "texts": rows_with(given.text, given.question_of),
        "correct": numbers_of(given.correct, "--correct"),
        "names": given.names,
    }
    if given.image_of is not None:
        found["image_of"] = numbers_of(given.image_of, "--image-of")
    others = {"--right": given.right, "--right-of": given.right_of, "--wrong": given.wrong,
              "--wrong-of": given.wrong_of}  # fmt: skip
    missing = [option for option, value in others.items() if value is None]
    if len(missing) == len(others):
        return found
    if missing:
        raise InputValueError(f"Answers in other words need {' and '.join(missing)}, too.")
    found["right"] = rows_with(given.right, given.right_of)
    found["wrong"] = rows_with(given.wrong, given.wrong_of)
    return found


def _prepare(inputs: Any, given: Any, progress: Progress) -> Prepared:
    inputs = {"names": given.names, "metric": given.metric, **inputs}
    if "right" not in inputs:
        task = multiple_choice_task(**inputs)
        return Prepared(task, ways=(*default_ways(task), OwnShift()))
    task = rephrased_choice_task(**inputs, draws=given.draws, seed=given.seed)
    found = rephrased_choice(task, progress=progress)
    more = {"rephrasing": found, "gain_when_closed": found.gain(seed=given.seed)}
    return Prepared(task, found, (*default_ways(task), OwnShift()), more)


COMMAND = TaskCommand(
    name="multiple_choice",
    help="""Choose the answer whose text is nearest to the image, and see what each correction changes.

    DATA is A-OKVQA. Texts are moved question by question, too (Chowers et al., eq. 11).

    Example: modgap task multiple_choice --model hf:openai/clip-vit-base-patch32 --data aokvqa --rephrase

    Example: modgap task multiple_choice images.npy --text texts.npy --question-of question.txt --correct correct.txt
    """,  # noqa: E501 - an example is one line
    options=(
        Option("text", Path, panel=ROWS, needed=True),
        Option("question_of", panel=ROWS, needed=True),
        Option("correct", Path, panel=ROWS, needed=True),
        Option("image_of", Path, panel=ROWS),
        Option("right", Path, panel=ROWS),
        Option("right_of", panel=ROWS),
        Option("wrong", Path, panel=ROWS),
        Option("wrong_of", panel=ROWS),
        COLUMN,
        IMAGES,
        SPLIT,
        Option("rephrase", bool, False, panel=MODEL),
        Option("wrong_answers", int, WRONG, panel=MODEL),
        Option("draws", int, DRAWS, panel=SWEEP),
    ),
    read=_read,
    open=lambda given: open_aokvqa(given.data, split=given.split or "val", images=given.images),
    settings=("rephrase", "wrong_answers", "seed"),
    prepare=_prepare,
)
