"""Figures 1 and 3 of Yaras et al. 2024: what pairs show, whoever trained their model."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from modgap.arrays import unit
from modgap.measures import gap_distance, margin
from modgap.measures.projection import projection
from modgap.reproduce.checks import Check
from modgap.reproduce.entry import Outcome
from modgap.reproduce.flickr8k.results import WHOLE_GAP
from modgap.reproduce.setting import Setting
from modgap.reproduce.sources import Pairs, judged, pairs
from modgap.reproduce.statistics import LEVEL, Interval, around, between, mean_interval
from modgap.reproduce.yaras2024 import PAPER
from modgap.simulate.flow_theory import initial_growth
from modgap.simulate.sphere import critical_temperature, make_sphere_pairs

_DRAWS = 300
# All pairs are compared with all: of more than this, as many are drawn.
_MOST_PAIRS = 2000
_SMALL_START = "amended start, batches of 64"
_SMALL = "gap that was made small, at the start"
_TRAINED = "gap that was made small, after training"


@PAPER.run("fig1")
def fig1(setting: Setting) -> Outcome:
    """Whether the modalities lie apart, and whether a gap that was made small grows."""
    measured: dict[str, float] = {}
    checks: list[Check] = []
    data: dict[str, Any] = {}
    known = pairs(setting)
    chosen = judged(known)
    for source in known:
        X, Y = _unit(source)
        shown = projection(X, Y, "pca")
        rng = np.random.default_rng(setting.seed)
        gap, no_gap = _gap_and_null(X, Y, rng)
        told, by_chance = _told_and_null(shown.x[:, 0], shown.y[:, 0], rng)
        name = source.name
        measured |= {
            f"gap, {name}": gap.value,
            f"gap of sides swapped at random, {name}": no_gap,
            f"share told apart along the first direction, {name}": told.value,
        }
        if source not in chosen:
            continue
        data[name] = {"x": shown.x, "y": shown.y}
        checks += [
            PAPER.above("means_apart", gap, no_gap, name=name),
            PAPER.above("first_direction_tells", told, by_chance, name=name),
        ]
    if setting.rows is not None:
        note = "Part (b), a gap that was made small, is about training and left out."
        return Outcome(measured, checks, data, note=note)
    if setting.file("features_clip_random.npy") is not None:
        X, Y = setting.arrays("clip_random")
        shown = projection(X, Y, "pca")
        measured["gap, CLIP with random weights"] = gap_distance(X, Y)
        data["CLIP with random weights"] = {"x": shown.x, "y": shown.y}
    # Part (b): training from a small gap, seed by seed.
    runs = setting.runs()
    before = np.array([run["course"]["gap"][0] for run in runs.of(_SMALL_START)])
    after = np.array(runs.values(_SMALL_START, WHOLE_GAP))
    measured |= {_SMALL: float(before.mean()), _TRAINED: float(after.mean())}
    checks.append(PAPER.above("small_gap_grows", mean_interval(after - before)))
    on = f"{_on(chosen)}; for part (b), {PAPER.sentences['trained_on']}"
    return Outcome(measured, checks, data, on=on)


@PAPER.run("fig3")
def fig3(setting: Setting) -> Outcome:
    """Six pairs on two parallel circles, two of them crossed or none; and the pairs at hand."""
    measured, checks, data = _six_pairs()
    known = pairs(setting)
    chosen = judged(known)
    for source in known:
        pull, mismatched = _pulls(source, setting.seed)
        name = source.name
        measured |= {
            f"share of mismatched rows, {name}": float(mismatched.mean()),
            f"pull of matched rows, {name}": float(np.mean(pull[~mismatched])),
        }
        checks.append(
            PAPER.check("partner_draws_together", np.all(pull[~mismatched] >= 0), name=name)
        )
        if not mismatched.any():
            continue
        of_mismatched = _mean_of_some(pull, mismatched, np.random.default_rng(setting.seed))
        measured[f"pull of mismatched rows, {name}"] = of_mismatched.value
        if source in chosen:
            checks.append(PAPER.below("mismatched_push_apart", of_mismatched, name=name))
    note = "" if setting.rows is None else f"The temperature is taken as {chosen[0].temperature}."
    return Outcome(measured, checks, data, on=_on(chosen), note=note)


def _on(chosen: list[Pairs]) -> str:
    """What stands in for the paper's own."""
    return ", ".join(PAPER.rows_words(each.name) for each in chosen).replace("and,", "and")


def _unit(source: Pairs) -> list[np.ndarray]:
    """Both sides at unit length, in double precision."""
    return [unit(side.astype(np.float64)) for side in (source.X, source.Y)]


def _weights(n: int, rng: np.random.Generator) -> np.ndarray:
    """How often each of n pairs is drawn, of n with replacement (draws, n)."""
    return rng.multinomial(n, np.full(n, 1 / n), size=_DRAWS)


def _gap_and_null(X: np.ndarray, Y: np.ndarray, rng: np.random.Generator) -> tuple[Interval, float]:
    """The distance of the means; and what it stays below when pairs swap their sides at random."""
    apart, n = X - Y, len(X)
    value = float(np.linalg.norm(apart.mean(axis=0)))
    drawn = np.linalg.norm(_weights(n, rng) @ apart / n, axis=1)
    swapped = np.linalg.norm(rng.choice([-1.0, 1.0], size=(_DRAWS, n)) @ apart / n, axis=1)
    return around(value, drawn), float(np.quantile(swapped, LEVEL))


def _told_and_null(
    a: np.ndarray, b: np.ndarray, rng: np.random.Generator
) -> tuple[Interval, float]:
    """The share of rows on their modality's side of the middle, and with sides swapped at random.

    The directions of all rows together do not depend on which modality a row is of.
    """
    middle = (a.mean() + b.mean()) / 2
    right = _on_their_side(a - middle, b - middle)
    swap = rng.random((_DRAWS, len(a))) < 0.5
    ours, theirs = (np.where(swap, *two) - middle for two in ((b, a), (a, b)))
    swapped = _on_their_side(ours, theirs).mean(axis=1)
    drawn = _weights(len(a), rng) @ right / len(a)
    return between(float(right.mean()), drawn), float(np.quantile(swapped, LEVEL))


def _on_their_side(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Of each pair, the share that lies on the side where the mean of its modality is."""
    side = np.sign(a.mean(axis=-1, keepdims=True) - b.mean(axis=-1, keepdims=True))
    found: np.ndarray = ((side * a > 0).astype(float) + (side * b < 0)) / 2
    return found


def _pulls(source: Pairs, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """How each row draws the modalities together (n, 2: images, texts), and who is mismatched.

    The cosine with the partner less the one that is expected by the softmax of the loss. γ falls
    with their sum (the proof of theorem 3.3).
    """
    X, Y = _unit(source)
    if len(X) > _MOST_PAIRS:
        some = np.sort(np.random.default_rng(seed).choice(len(X), _MOST_PAIRS, replace=False))
        X, Y = X[some], Y[some]
    pulls, mismatched = [], []
    for cosines in (X @ Y.T, Y @ X.T):
        own = np.diag(cosines).copy()
        logits = (cosines - cosines.max(axis=1, keepdims=True)) / source.temperature
        shares = np.exp(logits)
        expected = (shares * cosines).sum(axis=1) / shares.sum(axis=1)
        np.fill_diagonal(cosines, -2.0)
        pulls.append(own - expected)
        mismatched.append(cosines.max(axis=1) >= own)
    return np.column_stack(pulls), np.column_stack(mismatched)


def _mean_of_some(values: np.ndarray, which: np.ndarray, rng: np.random.Generator) -> Interval:
    """The mean of the chosen values of all pairs, with pairs drawn anew."""
    total, count = np.where(which, values, 0.0).sum(axis=1), which.sum(axis=1)
    weights = _weights(len(values), rng)
    drawn = (weights @ total) / np.maximum(weights @ count, 1)
    return between(float(total.sum() / count.sum()), drawn)


def _six_pairs() -> tuple[dict[str, float], list[Check], dict[str, Any]]:
    """The figure's own picture: its signs follow from the definitions of sec. 2."""
    height, beta = 0.5, 50.0
    measured: dict[str, float] = {}
    data: dict[str, Any] = {}
    same = True
    for name, mismatches in (("matched", 0), ("mismatched", 2)):
        # At 90° each text lies on an image: the directions within the planes, to be lifted.
        X, Y = (A[:, :2] for A in make_sphere_pairs(90.0, 6, 60.0, mismatches))
        within = margin(X, Y)
        lifted = [
            np.hstack([math.sqrt(1 - height**2) * A, np.full((6, 1), sign * height)])
            for A, sign in ((X, 1), (Y, -1))
        ]
        # The planes' distance is the same in every product, so it leaves the sign alone.
        same &= bool(np.isclose(margin(*lifted), (1 - height**2) * within))
        measured[f"sign of the margin, {name}"] = int(np.sign(within))
        measured[f"margin, {name}"] = within
        measured[f"twice dγ/dt, {name}"] = initial_growth(X, Y, height, beta)
        data[name] = {"X": lifted[0], "Y": lifted[1], "margin": within}
    hot = {k: critical_temperature(6, 60.0, k) for k in (0, 2)}
    measured["temperature below which a gap is best, mismatched"] = hot[2]
    growth = measured["twice dγ/dt, matched"], measured["twice dγ/dt, mismatched"]
    checks = [
        PAPER.check("margin_positive", measured["margin, matched"] > 0),
        PAPER.check("margin_negative", measured["margin, mismatched"] < 0),
        PAPER.check("margin_scales", same),
        PAPER.check("matched_attract", growth[0] < 0),
        PAPER.check("mismatched_repel", growth[1] > 0, beta=beta),
        PAPER.check("matched_want_no_gap", hot[0] == 0),
        PAPER.check("mismatched_want_gap", hot[2] > 0),
    ]
    return measured, checks, data
