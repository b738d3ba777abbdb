"""Questions with a few texts each: how they are judged, by scores, and as their texts move.

How it works: the texts of all questions lie in one matrix, those of one question next to each
other. A question is answered by its text of highest score. Where its texts move along a direction
of their own, each score is linear in the amount: two inner products a text give the scores at
every amount.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from modgap.arrays import cached_blocks
from modgap.core.checks import Array, InputTypeError, InputValueError
from modgap.core.door import check_rows
from modgap.corrections import Metric
from modgap.search.exact import given_scores


@dataclass(frozen=True, eq=False)
class QuestionJudge:
    """Judges questions by the scores of their texts for their images.

    ``question_of`` and ``asked_by`` are the question of each text and the row of X it is about. The
    texts of the first answers come first, ``first_of`` is the question of each and ``correct`` the
    place of the right one. ``drawn`` are the texts that are drawn in other words.
    """

    question_of: np.ndarray
    asked_by: np.ndarray
    first_of: np.ndarray
    correct: np.ndarray
    drawn: Sequence[tuple[np.ndarray, np.ndarray]] = ()

    def __call__(self, X: Array, Y: Array, metric: Metric) -> np.ndarray:
        """What `decide` says of the scores of these rows."""
        return self.decide(given_scores(X, Y, self.asked_by, metric))

    def decide(self, scores: np.ndarray) -> np.ndarray:
        """The chosen answer of each question; in other words, the share of draws that are right."""
        if not self.drawn:
            return self.chosen(scores)
        shares = []
        for own, rivals in self.drawn:
            right, wrong = scores[own][:, None], scores[rivals]  # (draws, 1) and (draws, k)
            ties = (wrong == right).sum(axis=1)
            beaten = (wrong > right).any(axis=1)
            shares.append(np.where(beaten, 0.0, 1 / (1 + ties)).mean())
        return np.array(shares)

    def chosen(self, scores: np.ndarray) -> np.ndarray:
        """The place of the nearest text among the first ones of each question, (n,)."""
        first, starts = scores[: len(self.first_of)], starts_of(self.first_of)
        best = np.maximum.reduceat(first, starts)
        places = np.flatnonzero(first == best[self.first_of])
        # The first of equals: places are in order, and so are the questions.
        earliest = np.searchsorted(self.first_of[places], np.arange(len(starts)))
        return np.asarray(places[earliest] - starts)

    def along(
        self, gap: np.ndarray, X: np.ndarray, Y: np.ndarray
    ) -> tuple[np.ndarray, Callable[[float], np.ndarray]]:
        """How far each question's texts move (n, d), and the scores of texts moved by an amount.

        They move along the part of the gap that is orthogonal to the first texts (eq. 11).
        """
        own = np.split(Y[: len(self.first_of)], starts_of(self.first_of)[1:])
        directions = np.concatenate([own_directions(gap, texts[None]) for texts in own])
        near, toward = np.empty(len(Y)), np.empty(len(Y))
        for block in cached_blocks(Y):
            of, moves = self.asked_by[block], directions[self.question_of[block]]
            found = near_and_toward(X[of], Y[block][:, None], moves)
            near[block], toward[block] = (scores[:, 0] for scores in found)
        return directions, lambda amount: near - amount * toward


def starts_of(question_of: np.ndarray) -> np.ndarray:
    """Where the texts of each question begin."""
    return np.flatnonzero(np.diff(question_of, prepend=-1))


def check_answers(
    texts: Any, name: str, n: int | None = None, *, nonzero: bool = False
) -> tuple[Array, np.ndarray]:
    """Rows of texts and the question of each, from 0, in order, each question with a text."""
    if getattr(texts, "ndim", 0) == 3:
        many, answers, columns = texts.shape
        texts = texts.reshape((many * answers, columns)), np.repeat(np.arange(many), answers)
    if not (isinstance(texts, (tuple, list)) and len(texts) == 2):
        raise InputTypeError(
            f"{name} must be a pair (rows, question of each), or an array of three dimensions, got "
            f"{type(texts).__name__}."
        )
    rows = check_rows(texts[0], name, nonzero=nonzero)
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


def check_places(places: np.ndarray, name: str, sizes: np.ndarray, what: str) -> np.ndarray:
    """A place for each question, below its size."""
    if places.shape != sizes.shape or places.dtype.kind not in "iu":
        raise InputValueError(
            f"{name} must be a whole number for each of {len(sizes)} questions, got {places.dtype} "
            f"of shape {places.shape}."
        )
    bad = np.flatnonzero((places < 0) | (places >= sizes))
    if len(bad):
        raise InputValueError(
            f"{name} must count from 0 to below the number of {what}: question {bad[0]} has "
            f"{sizes[bad[0]]}, got {places[bad[0]]}."
        )
    return places.astype(np.int64)


def own_directions(gap: np.ndarray, candidates: np.ndarray) -> np.ndarray:
    """The part (n, d) of the gap orthogonal to each set of candidates, (n, k, d) (eq. 11)."""
    centred = candidates - candidates.mean(axis=1, keepdims=True)
    _, singular, axes = np.linalg.svd(centred.astype(np.float64), full_matrices=False)
    floor = max(centred.shape[1:]) * np.finfo(np.float64).eps * singular[:, :1]
    # Centring costs one dimension, candidates that are the same others.
    axes = (axes * (singular > floor)[:, :, None])[:, : centred.shape[1] - 1]
    directions = np.broadcast_to(gap.astype(np.float64), (len(centred), len(gap)))
    # Twice: one projection leaves rounding of the size of the gap.
    for _ in range(2):
        inside = np.einsum("nkd,nd->nk", axes, directions)
        directions = directions - np.einsum("nkd,nk->nd", axes, inside)
    return np.asarray(directions)


def near_and_toward(
    queries: np.ndarray, rows: np.ndarray, directions: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """How near each candidate is to its query, and how far along its direction, (n, k) each.

    A candidate r moved by amount·g ranks by q · r − ‖r‖²/2 − amount · g · r; the rest is the same
    for all candidates of a query.
    """
    wide = rows.astype(np.float64)
    near = np.einsum("nkd,nd->nk", wide, queries) - (wide**2).sum(axis=2) / 2
    return near, np.einsum("nkd,nd->nk", wide, directions)
