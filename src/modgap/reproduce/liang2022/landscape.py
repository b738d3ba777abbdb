"""The loss as the gap is closed: on CLIP and on six pairs on a sphere (figs 3, 9 and 12)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from modgap.arrays import unit
from modgap.measures.gap import gap_distance, gap_vector
from modgap.measures.loss import batched_terms, contrastive_loss, stacked_batches
from modgap.reproduce.entry import Check, Number, Outcome
from modgap.reproduce.liang2022 import PAPER
from modgap.reproduce.liang2022.row_statistics import on_words, row_interval
from modgap.reproduce.setting import Setting
from modgap.reproduce.sources import Pairs, judged, pairs
from modgap.reproduce.statistics import Interval, mean_interval
from modgap.simulate.sphere import critical_temperature, make_sphere_pairs

# CLIP's own, and those it is fine-tuned with in sec. 4.2.
TEMPERATURES = (1 / 100, 1 / 50, 1 / 30, 1 / 20, 1 / 10, 1.0)
_BATCH = 50


@dataclass(frozen=True, eq=False)
class Landscape:
    """The loss of every batch (temperatures × shifts × batches), and the signed gap that is left.

    The first temperature is the one that the rows were trained with.
    """

    gap: float
    gaps: np.ndarray
    losses: np.ndarray

    @property
    def means(self) -> np.ndarray:
        """The loss of all batches, (temperatures × shifts)."""
        return self.losses.mean(axis=2)

    def best(self, temperature: int, seed: int, signed: bool = True) -> Interval:
        """The gap of least loss, with its interval over the batches."""
        curves, gaps = self.losses[temperature], self.gaps if signed else np.abs(self.gaps)

        def of_batches(counts: np.ndarray) -> np.ndarray:
            return gaps[np.argmin(curves @ counts.T, axis=0)]

        return row_interval(curves.shape[1], of_batches, seed)

    @property
    def half_step(self) -> float:
        """Half of the way from the trained gap to the farther of the shifts beside it."""
        beside = np.diff(self.gaps)[max(self.trained - 1, 0) : self.trained + 1]
        return float(np.abs(beside).max()) / 2

    def over(self, here: int, there: int) -> Interval:
        """How much larger the loss at the first temperature is at one shift than at another."""
        return mean_interval(self.losses[0, here] - self.losses[0, there])

    @property
    def closed(self) -> int:
        """The shift that leaves the smallest gap."""
        return int(np.argmin(np.abs(self.gaps)))

    @property
    def trained(self) -> int:
        """The shift that leaves the gap as it is."""
        return int(np.argmin(np.abs(self.gaps - self.gap)))

    @property
    def back(self) -> int | None:
        """The least local minimum with the centres on the other side, if there is one."""
        values = self.means[0]
        below = (values[1:-1] < values[:-2]) & (values[1:-1] < values[2:])
        inner = np.r_[False, below, False] & (self.gaps < 0)
        return int(np.flatnonzero(inner)[np.argmin(values[inner])]) if inner.any() else None


@PAPER.run("fig3")
def fig3(setting: Setting) -> Outcome:
    """Landscapes b–d on the authors' CLIP rows, e–g on the sphere."""
    sources = judged(pairs(setting), ("CLIP", "Unsplash"))
    measured: dict[str, Number] = {}
    checks: list[Check] = []
    drawn: list[dict[str, Any]] = []
    for k, source in enumerate(sources):
        setting.say(f"shifts of {source.name}", k, len(sources) + 1)
        found = _landscape(setting, source)
        heats = (source.temperature, *TEMPERATURES[1:])
        best = [found.best(row, setting.seed) for row in range(len(heats))]
        checks += _landscape_checks(source, found, setting.seed)
        measured |= _landscape_values(source, found, best, heats, first=k == 0)
        least = found.means.min(axis=1)
        drawn.append(
            {
                "gap": found.gap,
                "gaps": found.gaps,
                "losses": found.means,
                "temperatures": heats,
                "best": [interval.value for interval in best],
                "least": least,
            }
        )
    setting.say("the sphere", len(sources), len(sources) + 1)
    ball = _sphere(setting, (0.01, 1.0), crossed=2)
    x, y = make_sphere_pairs(45.0)
    authors = "500 pairs of MS-COCO by CLIP ViT-B/16"
    words = [
        "500 photos of Unsplash by ViT-B/32" if each.name == "Unsplash" else on_words(each, authors)
        for each in sources
    ]
    return Outcome(
        measured | _by_temperature((0.01, 1.0), {"sphere, barrier": ball.barrier}),
        [
            *checks,
            PAPER.above("closed_gap_not_best_cold", float(ball.barrier[0])),
            PAPER.check("closed_gap_best_hot", ball.best_angle[1] == 90),
        ],
        {
            **drawn[0],
            "x": x,
            "y": y,
            "angles": ball.angles,
            "sphere_losses": ball.losses,
            "sphere_temperatures": (0.01, 1.0),
        },
        on=f"{' and '.join(words)}, where the paper has 5,000 pairs of MS-COCO; the sphere is as "
        "printed",
    )


def _landscape(setting: Setting, source: Pairs) -> Landscape:
    """Pairs in a random order, shifted, in the paper's batches."""
    step = 0.01 if setting.full else 0.05
    lambdas = np.arange(round(-0.5 / step), round(2.5 / step) + 1) * step
    order = np.random.default_rng(setting.seed).permutation(len(source.X))
    order = order[: len(order) // _BATCH * _BATCH or None]
    X, Y = (unit(A[order].astype(np.float64)) for A in (source.X, source.Y))
    gap = gap_vector(X, Y)
    gaps, losses = [], []
    for amount in lambdas.tolist():
        x, y = unit(X - amount * gap), unit(Y + amount * gap)
        left = gap_vector(x, y)
        gaps.append(float(np.copysign(np.linalg.norm(left), left @ gap)))
        losses.append(_batch_losses(x, y, (source.temperature, *TEMPERATURES[1:])))
    return Landscape(gap_distance(X, Y), np.array(gaps), np.stack(losses, axis=1))


def _batch_losses(x: np.ndarray, y: np.ndarray, temperatures: Iterable[float]) -> np.ndarray:
    """The loss of every batch of unit rows, (temperatures × batches)."""
    cosines = np.concatenate(
        [A @ np.swapaxes(B, 1, 2) for A, B in stacked_batches(x, y, min(_BATCH, len(x)))]
    )
    found = []
    for temperature in temperatures:
        _, rows, columns, *_ = batched_terms(cosines, temperature)
        found.append(((rows + columns) / 2).reshape(len(cosines), -1).mean(axis=1))
    return np.array(found)


def _landscape_checks(source: Pairs, found: Landscape, seed: int) -> list[Check]:
    """What figs 3b to 3d show; halfway between the gap and none is the bound of either."""
    name, own = source.name, f"its own temperature, {source.temperature:g},"
    half, least = found.gap / 2, found.best(0, seed)
    outside = max(least.low - found.gap, found.gap - least.high, 0.0)
    at_back = Interval(np.nan, np.nan, np.nan)
    if found.back is not None:
        at_back = found.over(found.closed, found.back)
    return [
        PAPER.below("minimum_at_trained", outside, found.half_step, name=name, own=own),
        PAPER.above(
            "closing_raises_loss", found.over(found.closed, found.trained), name=name, own=own
        ),
        PAPER.above("minimum_back_to_back", at_back, name=name, own=own),
        PAPER.below("least_loss_near_closed", found.best(-1, seed, signed=False), half, name=name),
    ]


def _landscape_values(
    source: Pairs, found: Landscape, best: list[Interval], heats: tuple[float, ...], first: bool
) -> dict[str, Number]:
    """The numbers of one landscape; those of the first have the names of the published ones."""
    cost = found.means[:, found.closed] - found.means.min(axis=1)
    values = {
        "gap": found.gap,
        **_by_temperature(
            heats,
            {"least loss at": np.array([at.value for at in best]), "cost of closing": cost},
        ),
        "back-to-back minimum at": None if found.back is None else float(found.gaps[found.back]),
    }
    return values if first else {f"{name}, {source.name}": value for name, value in values.items()}


@dataclass(frozen=True, eq=False)
class Sphere:
    """The loss of pairs on the sphere (temperatures × angles), and what closing the gap costs."""

    angles: np.ndarray
    losses: np.ndarray
    best_angle: np.ndarray
    barrier: np.ndarray


def _sphere(setting: Setting, temperatures: tuple[float, ...], crossed: int) -> Sphere:
    """Texts at every degree between pole and equator; the other side mirrors it."""
    angles = np.arange(91.0)
    rows = [make_sphere_pairs(angle, mismatches=crossed) for angle in angles.tolist()]
    rows = setting.read(f"sphere, {crossed} crossed", rows)
    losses = np.array([[contrastive_loss(x, y, t) for x, y in rows] for t in temperatures])
    return Sphere(
        angles,
        losses,
        best_angle=angles[np.argmin(losses, axis=1)],
        barrier=losses[:, -1] - losses.min(axis=1),
    )


@PAPER.run("fig9")
def fig9(setting: Setting) -> Outcome:
    """Six pairs on the sphere, with two crossed and with none."""
    temperatures = (0.01, 0.02, 0.05)
    crossed, matched = (_sphere(setting, temperatures, crossed=k) for k in (2, 0))
    x, y_crossed = make_sphere_pairs(45.0)
    _, y_matched = make_sphere_pairs(45.0, mismatches=0)
    return Outcome(
        {
            "pairs": len(x),
            "crossed": 2,
            "spacing, degrees": 15,
            "loss at the closed gap, τ = 1/100": float(crossed.losses[0, -1]),
            "least loss, τ = 1/100": float(crossed.losses[0].min()),
            "best angle, τ = 1/100": float(crossed.best_angle[0]),
            "barrier without mismatch, τ = 1/100": float(matched.barrier[0]),
            "temperature above which the barrier is gone": critical_temperature(),
        },
        [
            PAPER.above("crossing_makes_barrier", float(crossed.barrier[0])),
            PAPER.check("uncrossed_closed_best", np.all(matched.best_angle == 90)),
            PAPER.check("crossed_closed_best_warm", crossed.best_angle[2] == 90),
        ],
        {
            "x": x,
            "crossed": y_crossed,
            "matched": y_matched,
            "angles": crossed.angles,
            "temperatures": temperatures,
            "with mismatch": crossed.losses,
            "without": matched.losses,
        },
    )


@PAPER.run("fig12")
def fig12(setting: Setting) -> Outcome:
    """The pseudo-code, run."""
    rng = np.random.default_rng(setting.seed)
    X, Y = rng.standard_normal((2, 64, 32))
    ours = [contrastive_loss(X, Y, t) for t in TEMPERATURES]
    theirs = [_pseudo_code(X, Y, -math.log(t)) for t in TEMPERATURES]
    worst = max(abs(a / b - 1) for a, b in zip(ours, theirs, strict=True))
    return Outcome(
        {"largest relative difference": worst},
        [PAPER.below("pseudo_code_agrees", worst, 1e-9)],
        {"temperatures": TEMPERATURES, "ours": ours, "theirs": theirs},
    )


def _by_temperature(
    temperatures: Iterable[float], columns: Mapping[str, np.ndarray]
) -> dict[str, Number]:
    """The values at each temperature, under its name."""
    return {
        f"{name}, τ = {f'1/{round(1 / t)}' if t < 1 else 1}": float(values[k])
        for k, t in enumerate(temperatures)
        for name, values in columns.items()
    }


def _pseudo_code(image_rows: np.ndarray, text_rows: np.ndarray, t: float) -> float:
    """The loss line by line as the figure has it, from rows before normalisation."""
    I_e = image_rows / np.linalg.norm(image_rows, axis=1, keepdims=True)
    T_e = text_rows / np.linalg.norm(text_rows, axis=1, keepdims=True)
    logits = np.dot(I_e, T_e.T) * np.exp(t)

    def cross_entropy(axis: int) -> float:
        top = logits.max(axis=axis, keepdims=True)
        shares = np.exp(logits - top) / np.exp(logits - top).sum(axis=axis, keepdims=True)
        return float(-np.mean(np.log(np.diag(shares))))

    return (cross_entropy(0) + cross_entropy(1)) / 2
