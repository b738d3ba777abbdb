"""Questions whose answers come in other words: accuracy as the gap closes, question by question."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from modgap._arrays import to_numpy, unit
from modgap._results import Progress, Result, silent
from modgap._validate import (
    Array,
    InputValueError,
    check_count,
    check_numbers,
    check_rows,
    check_same_space,
)
from modgap.evaluation.multiple_choice import (
    Answers,
    check_answers,
    check_correct,
    check_image_of,
    starts_of,
)
from modgap.evaluation.significance import DEFAULT_RESAMPLES, Comparison, compare

# −1 doubles the gap, 0 leaves it, 1 closes what the direction can close.
AMOUNTS = (-1.0, -0.75, -0.5, -0.25, 0.0, 0.25, 0.5, 0.75, 1.0)
# Chowers et al., fig. 10.
DRAWS = 500


@dataclass(frozen=True)
class RephrasedChoice(Result):
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
    clean_hits: np.ndarray
    rephrased_shares: np.ndarray
    groups: np.ndarray

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

    def to_dict(self) -> dict[str, Any]:
        """The accuracies, without each question's."""
        found = super().to_dict()
        for name in ("clean_hits", "rephrased_shares", "groups"):
            del found[name]
        return found


def rephrased_choice(
    X: Array,
    texts: Answers,
    correct: Any,
    right: Answers,
    wrong: Answers,
    *,
    image_of: Any = None,
    gap: Array | None = None,
    amounts: Sequence[float] = AMOUNTS,
    draws: int = DRAWS,
    seed: int = 0,
    progress: Progress | None = None,
) -> RephrasedChoice:
    """Accuracy when answers are said in other words, as the gap closes (Chowers et al., fig. 10).

    In each draw a question has one of its right answers and as many wrong ones as before, drawn
    without replacement. Its texts move by amount·g′, where g′ is the part of the gap orthogonal to
    its own first texts (eq. 11), so that the clean accuracy cannot change. All rows at unit length,
    nearest by Euclidean distance; answers that tie share the hit.

    Parameters
    ----------
    X, texts, correct, image_of
        As for ``multiple_choice``: images, the first texts, and which of them are right.
    right, wrong : (rows, question_of), or (n, k, d) array
        Other texts that are right for their question, one or more; and wrong ones, at least as many
        as a question has wrong answers.
    gap : (d,) array, optional
        From the mean of the texts to that of the images; by default of ``texts`` and ``X``.
    amounts : sequence of float
        How far the gap is closed: −1 doubles it.
    draws : int
        How often answers are drawn.
    seed : int
        Seed of the draws.
    progress : callable, optional
        Called as ``progress(step, done, total)``.
    """
    images = _unit_rows(X, "X")
    of = {"texts": check_answers(texts, "texts")}
    n = int(of["texts"][1][-1]) + 1
    of |= {"right": check_answers(right, "right", n), "wrong": check_answers(wrong, "wrong", n)}
    check_enough(of["texts"][1], of["wrong"][1])
    correct, image_of = (
        check_correct(correct, of["texts"][1]),
        check_image_of(image_of, n, len(images)),
    )
    steps, draws = check_numbers(amounts, "amounts"), check_count(draws, "draws")
    rows = {name: _unit_rows(found, name) for name, (found, _) in of.items()}
    for name, found in rows.items():
        check_same_space(images, found, ("X", name))
    between = images.mean(axis=0) - rows["texts"].mean(axis=0)
    vector = between if gap is None else _check_gap(gap, images.shape[1])
    starts = {name: starts_of(question_of)[1:] for name, (_, question_of) in of.items()}
    by_question = {name: np.split(found, starts[name]) for name, found in rows.items()}
    clean, shares, lengths = np.zeros((len(steps), n), bool), np.zeros((len(steps), n)), np.zeros(n)
    rng = np.random.default_rng(seed)
    say = progress or silent
    for i in range(n):
        own = {name: found[i][None] for name, found in by_question.items()}
        direction = own_directions(vector, own["texts"])
        lengths[i] = np.linalg.norm(direction)
        scores = {
            name: _swept(images[image_of[i]][None], found, direction, steps)
            for name, found in own.items()
        }
        clean[:, i] = np.argmax(scores["texts"], axis=1) == correct[i]
        rivals = scores["texts"].shape[1] - 1
        shares[:, i] = _drawn(scores["right"], scores["wrong"], rivals, draws, rng)
        say("questions", i + 1, n)
    length = float(np.linalg.norm(vector))
    return RephrasedChoice(
        amounts=steps,
        clean=clean.mean(axis=1),
        rephrased=shares.mean(axis=1),
        closed=float(lengths.mean() / length) if length > 0 else 0.0,
        draws=draws,
        n=n,
        clean_hits=clean,
        rephrased_shares=shares,
        groups=image_of,
    )


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


def moved(near: np.ndarray, toward: np.ndarray, amount: float) -> np.ndarray:
    """Scores (n, k) of the candidates moved by this amount; the largest is the nearest."""
    return near - amount * toward


def _swept(
    query: np.ndarray, rows: np.ndarray, direction: np.ndarray, amounts: np.ndarray
) -> np.ndarray:
    """Scores (amounts, k) of the candidates of one query."""
    scores = near_and_toward(query, rows, direction)
    return np.array([moved(*scores, amount)[0] for amount in amounts])


def _drawn(
    right: np.ndarray, wrong: np.ndarray, rivals: int, draws: int, rng: np.random.Generator
) -> np.ndarray:
    """Share of draws (amounts,) in which the right answer is nearest; ties share the hit."""
    own, against = draw_answers(right.shape[1], wrong.shape[1], rivals, draws, rng)
    return np.asarray(shared_hits(right[:, own], wrong[:, against]).mean(axis=1))


def draw_answers(
    n_right: int, n_wrong: int, rivals: int, draws: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """For each draw a right answer (draws,), and wrong ones (draws, rivals), all different."""
    own = rng.integers(n_right, size=draws)
    return own, np.argsort(rng.random((draws, n_wrong)), axis=1)[:, :rivals]


def shared_hits(own: np.ndarray, others: np.ndarray) -> np.ndarray:
    """1 where the right score (…) is above all others (…, rivals); with ties the chance of it."""
    ties = (others == own[..., None]).sum(axis=-1)
    return np.where((others > own[..., None]).any(axis=-1), 0.0, 1 / (1 + ties))


def _unit_rows(rows: Array, name: str) -> np.ndarray:
    return unit(to_numpy(check_rows(rows, name, nonzero=True)).astype(np.float64))


def check_enough(question_of: np.ndarray, wrong_of: np.ndarray) -> None:
    """Refuse a question with fewer wrong texts than it has wrong answers."""
    needed, found = np.bincount(question_of) - 1, np.bincount(wrong_of)
    short = np.flatnonzero(found < needed)
    if len(short):
        raise InputValueError(
            f"wrong must have at least as many texts as a question has wrong answers: question "
            f"{short[0]} has {found[short[0]]} for {needed[short[0]]}."
        )


def _check_gap(gap: Any, dim: int) -> np.ndarray:
    found = to_numpy(gap).astype(np.float64)
    if found.shape != (dim,) or not np.all(np.isfinite(found)):
        raise InputValueError(
            f"gap must be one vector of {dim} finite numbers, got shape {found.shape}."
        )
    return found
