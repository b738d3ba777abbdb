"""What common, unusual and long scans look like (figs 8, 14, 19, 20)."""

from __future__ import annotations

from typing import Any

import numpy as np

from modgap.measures import conformity, norms
from modgap.reproduce.drawing import counted, some
from modgap.reproduce.entry import Outcome, check
from modgap.reproduce.levi2025 import PAPER
from modgap.reproduce.levi2025.joined import joined
from modgap.reproduce.levi2025.rows import digits, extremeness
from modgap.reproduce.setting import Setting
from modgap.reproduce.statistics import by_chance, rank_correlation
from modgap.search import search


@PAPER.run("fig8")
def fig8(setting: Setting) -> Outcome:
    """Conformity of the scans' rows against how common the scans are by their pixels."""
    rows = digits()
    values = conformity(rows.X)
    alike = rank_correlation(values, conformity(rows.images.reshape(len(values), -1)))
    rare = rank_correlation(values, extremeness(rows.images))
    chance = by_chance(len(values))
    return Outcome(
        {
            "rank correlation with the likeness of the pixels to all others": alike,
            "rank correlation with how unusual the scan is": rare,
            "by chance, at most": chance,
            "highest conformity": float(values.max()),
            "lowest conformity": float(values.min()),
        },
        [
            check(
                "Scans of high conformity are more like the other scans, pixel by pixel, beyond "
                "chance.",
                alike > chance,
            ),
            check(
                "Scans of low conformity are more unusual in what is measured in them.",
                rare < -chance,
            ),
        ],
        _extremes(values, rows.images),
    )


@PAPER.run("fig14")
def fig14(setting: Setting) -> Outcome:
    """Norms of the digits' rows before normalisation."""
    rows = digits()
    rare = extremeness(rows.images)
    values = {"image": norms(rows.X).values, "text": norms(rows.Y).values}
    common = {"image": conformity(rows.X), "text": conformity(rows.Y)}
    found = joined(_norms(side, values[side], common[side], rare) for side in values)
    longest = rows.captions[int(np.argmax(values["text"]))]
    return Outcome(
        found.measured,
        found.checks,
        {
            "norms": counted(values),
            "points": some(np.column_stack([rare, values["image"]])),
            **_extremes(values["image"], rows.images, ("longest", "shortest"), 10, 2),
        },
        note=f"The caption of largest norm: “{longest}”",
    )


def _norms(side: str, values: np.ndarray, common: np.ndarray, rare: np.ndarray) -> Outcome:
    """What goes with the norms of one side: conformity, and how unusual the scan is."""
    long = values >= np.quantile(values, 0.95)
    unusual = rank_correlation(values, rare)
    return Outcome(
        {
            f"mean norm, {side}": float(values.mean()),
            f"largest norm, {side}": float(values.max()),
            f"rank correlation with the conformity, {side}": rank_correlation(values, common),
            f"rank correlation with how unusual the scan is, {side}": unusual,
            f"mean conformity of the longest 5 %, {side}": float(common[long].mean()),
            f"mean conformity of all, {side}": float(common.mean()),
        },
        [
            check(
                f"The longest 5 % of the {side} rows are less common than the average row.",
                common[long].mean() < common.mean() - 2 * common.std() / long.sum() ** 0.5,
            ),
            check(
                f"The more unusual a scan is by its pixels, the longer its {side} row, beyond "
                "chance.",
                unusual > by_chance(len(values)),
            ),
        ],
    )


@PAPER.run("fig19")
def fig19(setting: Setting) -> Outcome:
    """Conformity of the scans against how much goes on in them."""
    rows = digits()
    values = conformity(rows.X)
    variation = _total_variation(rows.images)
    ink = rows.images.sum(axis=(1, 2))
    rank, chance = rank_correlation(values, variation), by_chance(len(values))
    return Outcome(
        {
            "rank correlation with the total variation": rank,
            "rank correlation with the variation per ink": rank_correlation(
                values, variation / ink
            ),
            "rank correlation with the ink": rank_correlation(values, ink),
            "by chance, at most": chance,
        },
        [
            check(
                "Scans of high conformity are simpler: their total variation is smaller, beyond "
                "chance.",
                rank < -chance,
            )
        ],
        _extremes(values, rows.images) | {"points": some(np.column_stack([variation, values]))},
    )


def _total_variation(images: np.ndarray) -> np.ndarray:
    """How much neighbouring pixels differ, summed over each scan."""
    steps = [np.abs(np.diff(images, axis=axis)).sum(axis=(1, 2)) for axis in (1, 2)]
    return steps[0] + steps[1]


@PAPER.run("fig20")
def fig20(setting: Setting) -> Outcome:
    """Conformity of the scans that miss their caption against the entropy of their pixels."""
    rows = digits()
    found, _ = search(rows.X, rows.Y, 1)
    hard = found[:, 0] != np.arange(len(found))
    values, images = conformity(rows.X)[hard], rows.images[hard]
    entropy = _entropy(images)
    rank, chance = rank_correlation(values, entropy), by_chance(len(values))
    return Outcome(
        {
            "hard scans": len(values),
            "rank correlation with the entropy of the pixels": rank,
            "by chance, at most": chance,
            "holds less information": "low conformity" if rank > 0 else "high conformity",
        },
        [
            check(
                "Conformity goes with the entropy of the pixels, beyond chance.", abs(rank) > chance
            )
        ],
        _extremes(values, images) | {"points": some(np.column_stack([entropy, values]))},
    )


def _entropy(images: np.ndarray) -> np.ndarray:
    """Entropy of each scan's 17 levels of ink, in bits."""
    levels = images.reshape(len(images), -1).round().astype(np.int64)
    shares = np.stack([(levels == level).mean(axis=1) for level in range(17)], axis=1)
    logarithms = np.log2(shares, where=shares > 0, out=np.zeros_like(shares))
    return -(shares * logarithms).sum(axis=1)


def _extremes(
    values: np.ndarray,
    images: np.ndarray,
    names: tuple[str, str] = ("high", "low"),
    count: int = 12,
    decimals: int = 3,
) -> dict[str, Any]:
    """The scans of the largest and of the smallest values, with the value under each."""
    order = np.argsort(-values, kind="stable")
    return {
        name: {"images": images[chosen], "captions": [f"{values[k]:.{decimals}f}" for k in chosen]}
        for name, chosen in zip(names, (order[:count], order[::-1][:count]), strict=True)
    }
