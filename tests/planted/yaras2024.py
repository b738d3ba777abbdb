"""Violations of the claims of yaras2024, in the rows that its checks read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from modgap.reproduce.flickr8k.methods import CLOSURES
from modgap.reproduce.flickr8k.results import FIRST, GAP, WHOLE_GAP, Runs
from planted import Plant, on_pairs, only

Metrics = Callable[[str, dict[str, float]], dict[str, float]]


def metrics(change: Metrics) -> Any:
    """Metrics of the runs, by recipe."""

    def changed(runs: Runs) -> Runs:
        return Runs(
            {
                recipe: [
                    {**run, "metrics": {**run["metrics"], **change(recipe, run["metrics"])}}
                    if "metrics" in run
                    else run
                    for run in found
                ]
                for recipe, found in runs.runs.items()
            }
        )

    return of_runs(changed)


def courses(recipe: str, kind: str, change: Callable[[np.ndarray], np.ndarray]) -> Any:
    """The gap or the temperature over the runs of recipes that begin so."""

    def one(name: str, run: Any) -> Any:
        if "course" not in run or not name.startswith(recipe):
            return run
        return {**run, "course": {**run["course"], kind: change(np.array(run["course"][kind]))}}

    def changed(runs: Runs) -> Runs:
        return Runs({name: [one(name, run) for run in found] for name, found in runs.runs.items()})

    return of_runs(changed)


def of_runs(changed: Callable[[Runs], Runs]) -> Any:
    """Changes of every training run, pretrained or from scratch."""
    return lambda read, value: changed(value) if read.startswith("runs") else value


def first_steps(runs: Runs) -> Runs:
    """Gaps that only shrink in the first steps."""
    shrinking = [
        {**run, "starts": [{"gap": list(np.linspace(1.2, 1.0, 11) + k / 100)} for k in range(5)]}
        for run in runs.of(FIRST)
    ]
    return Runs({**runs.runs, FIRST: shrinking})


def mixed(X: np.ndarray, Y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Every other pair with its sides swapped."""
    swap = (np.arange(len(X)) % 2 == 0)[:, None]
    return np.where(swap, Y, X), np.where(swap, X, Y)


def nearly_one(X: np.ndarray, Y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows so alike that the softmax is even, and a partner is nearer than most."""
    common = np.eye(X.shape[1])[0] * 20
    return X + common, Y + common


def matched(start: np.ndarray) -> np.ndarray:
    """Pairs that lie on each other."""
    return np.stack([start[0], start[0]])


def crowd(start: np.ndarray) -> np.ndarray:
    """Many more pairs than can find each other in the time."""
    return np.random.default_rng(0).normal(size=(2, 200, 2))


def mirrored(start: np.ndarray) -> np.ndarray:
    """Texts as far as can be from their images, so that nothing moves for long, but for a touch."""
    angles = np.linspace(0, 2 * np.pi, start.shape[1], endpoint=False)
    return np.stack([_circle(angles), _circle(-angles)]) + 1e-12 * start


def turned(start: np.ndarray) -> np.ndarray:
    """Texts turned away from their images: the means approach while the planes part."""
    angles = np.linspace(-0.8, 0.8, start.shape[1])
    return np.stack([_circle(angles), _circle(angles + 1.5)])


def _circle(angles: np.ndarray) -> np.ndarray:
    return np.column_stack([np.cos(angles), np.sin(angles)])


def gaps(**given: float) -> Metrics:
    """A gap of its own for some recipes, in place of theirs."""
    return lambda recipe, _: {GAP: given[recipe]} if recipe in given else {}


def rising_gap(recipe: str, found: dict[str, float]) -> dict[str, float]:
    """The order of the gaps turned around."""
    return {GAP: 2.0 - found[GAP], WHOLE_GAP: -found[WHOLE_GAP]}


def turned_around(runs: Runs) -> Runs:
    """The order of the gaps turned around, with every seed."""
    return Runs(
        {
            recipe: [
                run | {"metrics": {GAP: {"baseline": 0.0, "HS 1": 1.0}.get(recipe, 0.5)}}
                for run in found
            ]
            for recipe, found in runs.runs.items()
        }
    )


def in_step(*signs: tuple[str, str, int]) -> Metrics:
    """Scores that follow a metric, up or down."""
    return lambda _, found: {score: 50 + sign * found[of] for score, of, sign in signs}


_SHARES = ("image_retrieval_recall@1", "text_retrieval_recall@1")
_ACCURACIES = ("cifar_zero_shot", "cifar_linear_probe")
_SMALLER = " ends with a smaller gap than the baseline."
_SCOPES = ("On the settings of table 2, trained here", "On all settings trained here")

PLANTS: dict[str, tuple[Plant, ...]] = {
    "fig1": (
        Plant(on_pairs(mixed), ("The means lie", "The first principal direction")),
        Plant(metrics(rising_gap), ("A gap that was made small",)),
    ),
    "fig2": (
        Plant(only(start=matched), ("The gap grows at first", "Where the gap is widest")),
        Plant(only(start=crowd), ("In the end", "Once all pairs")),
        Plant(only(start=mirrored), ("It slows down",)),
        Plant(only(start=turned), ("Until the pairs are matched",)),
    ),
    "fig3": (Plant(on_pairs(nearly_one), ("Rows that have a nearer one",)),),
    "fig4": (
        Plant(
            only(**{"runs from scratch": first_steps}), ("The gap of trained starts", "It is wider")
        ),
        Plant(courses(CLOSURES[0].name, "gap", np.sort), ("In training a falling line",)),
    ),
    "fig5": (
        Plant(
            metrics(gaps(**{"baseline": 0.0, "baseline, 100 passes": 0.0})),
            (f"TS{_SMALLER}", f"HS 1{_SMALLER}"),
        ),
        Plant(
            courses("baseline, 100 passes", "temperature", lambda t: t + 1),
            ("FLT ends at a higher",),
        ),
    ),
    "fig6": (
        Plant(metrics(in_step(*((s, GAP, 1) for s in _SHARES))), _SCOPES),
        Plant(metrics(in_step(*((s, "uniformity", 1) for s in _SHARES))), _SCOPES),
    ),
    "fig7": (
        Plant(metrics(in_step(*((s, GAP, 1) for s in _ACCURACIES))), _SCOPES),
        Plant(metrics(in_step(*((s, "uniformity", -1) for s in _ACCURACIES))), _SCOPES),
    ),
    "table2": (
        Plant(metrics(gaps(**{"baseline, 100 passes": 0.0})), (f"TS{_SMALLER}", f"SS{_SMALLER}")),
    ),
    "table3": (Plant(metrics(rising_gap), ("Over all eight", "The gap falls from 0.1")),),
    "table4": (
        Plant(metrics(rising_gap), ("The gap falls from S0", "The gap falls from A0")),
        Plant(metrics(gaps(**{"baseline, 30 epochs": 0.0})), (f"S3{_SMALLER}",)),
    ),
    "table5": (
        Plant(metrics(rising_gap), ("softplus", "scale 2", "scale 10", "Without normalisation")),
        Plant(
            metrics(gaps(baseline=0.05, **{"HS 0.01": 0.1, "HS 0.1": 0.15, "HS 1": 0.2})),
            ("The gap falls from", "Swapping whole rows", "hard swap of rows"),
        ),
        Plant(only(**{"digit swaps": turned_around}), ("On the digits, too", "On the digits it")),
    ),
}
# Entries that take a second or more, which are tried with the long tests.
SLOW: tuple[str, ...] = ("fig2", "fig4")
# Entries whose violations show in the published rows alone.
PUBLISHED: tuple[str, ...] = ("fig1",)
