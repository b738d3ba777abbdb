"""Vertical SLERP: interpolating around the mean instead of the origin (figs 12, 23, 24)."""

from __future__ import annotations

from dataclasses import astuple, replace
from functools import partial
from typing import Any

import numpy as np

from modgap.measures import conformity, vslerp
from modgap.reproduce.entry import Outcome
from modgap.reproduce.levi2025 import PAPER
from modgap.reproduce.levi2025.resampled import share_interval
from modgap.reproduce.levi2025.row_sets import (
    RowSet,
    digits,
    labelled_sets,
    of_each,
    row_sets,
)
from modgap.reproduce.levi2025.scans import pictures
from modgap.reproduce.setting import Setting
from modgap.reproduce.statistics import mean_interval
from modgap.search import search

ALPHAS = (0.0, 0.25, 0.5, 0.75, 1.0)
# What figs 23 and 24 compare.
WAYS = {"SLERP": 0.0, "α = 0.5": 0.5, "α = 1": 1.0}
THETAS = (0.0, 0.25, 0.5, 0.75, 1.0)
# Of the rows themselves, by definition.
COMMONEST = 0.05


@PAPER.run("fig12")
def fig12(setting: Setting) -> Outcome:
    """Where the middle between two images lies, by α."""
    found = of_each(row_sets(setting), _middles)
    return replace(found, data={**found.data, **_path(setting)})


def _middles(rows: RowSet) -> Outcome:
    X = rows.X
    first, second = _disjoint(np.zeros(len(X)), rows.seed, same=True)
    radii = np.linalg.norm(X - X.mean(axis=0), axis=1)
    ends = (radii[first] + radii[second]) / 2
    common = float(np.quantile(conformity(X, X), 1 - COMMONEST))
    relative, too_common = [], []
    for alpha in ALPHAS:
        middle = _between(X, first, second, 0.5, alpha)
        relative.append(np.linalg.norm(middle - X.mean(axis=0), axis=1) / ends)
        too_common.append(conformity(middle, X) > common)
    means = [float(values.mean()) for values in relative]
    steps = [mean_interval(values) for values in np.diff(relative, axis=0)]
    lowest, common_share = min(steps, key=lambda s: s.low), share_interval(too_common[0])
    fewer = mean_interval(too_common[0].astype(float) - too_common[-1])
    return Outcome(
        {
            "pairs": len(first),
            "radius of the middle over that of the ends, SLERP": means[0],
            "the same, vSLERP with α = 1": means[-1],
            "middles more common than 95 % of the rows, SLERP": float(too_common[0].mean()),
            "the same share, vSLERP with α = 1": float(too_common[-1].mean()),
        },
        [
            PAPER.below("slerp_cuts_inside", mean_interval(relative[0]), 1.0, name=rows.name),
            PAPER.above("radius_grows_with_alpha", lowest, name=rows.name),
            PAPER.above("slerp_too_common", common_share, COMMONEST, name=rows.name),
            PAPER.above("slerp_more_often_common", fewer, name=rows.name),
            PAPER.check("stays_on_shell", abs(means[-1] - 1) < 0.05, name=rows.name),
        ],
        {
            "alphas": ALPHAS,
            "radius": means,
            "too_common": [float(values.mean()) for values in too_common],
        },
    )


@PAPER.run("fig23")
def fig23(setting: Setting) -> Outcome:
    """Ways between images of different things."""
    return _along(setting, False, "the nearest other row shows one of the two things")


@PAPER.run("fig24")
def fig24(setting: Setting) -> Outcome:
    """Ways between images of the same thing."""
    return _along(setting, True, "the nearest other row shows the same thing")


def _along(setting: Setting, same: bool, statement: str) -> Outcome:
    """The ways between images of every set, and the pictures along one of them."""
    view = partial(_kept, setting=setting, same=same, statement=statement)
    found = of_each(labelled_sets(setting), view)
    return replace(found, data={**found.data, **_path(setting, same)})


def _kept(rows: RowSet, setting: Setting, same: bool, statement: str) -> Outcome:
    """How often the way between two images keeps to what its ends are, by α."""
    X, labels = rows.X, rows.labels
    assert labels is not None
    first, second = _disjoint(labels, setting.seed, same)
    kept, shares, leads = {}, {}, {}
    for done, (name, alpha) in enumerate(WAYS.items()):
        setting.say(f"{rows.name}, {name}", done, len(WAYS))
        middle = _between(X, first, second, 0.5, alpha)
        found = labels[_nearest(X, middle, (first, second))]
        kept[name] = (found == labels[first]) | (found == labels[second])
        shares[name] = share_interval(kept[name])
        leads[name] = _lead(X, _between(X, first, second, 0.25, alpha), first)
    slerp, vertical = kept["SLERP"].astype(float), kept["α = 1"].astype(float)
    better, lead = mean_interval(vertical - slerp), mean_interval(leads["α = 1"] - leads["SLERP"])
    by = {"more often with vSLERP": better, "lead more with vSLERP": lead}
    return Outcome(
        {
            "pairs": len(first),
            f"{statement}, θ = 0.5, SLERP": float(slerp.mean()),
            f"{statement}, θ = 0.5, vSLERP with α = 1": float(vertical.mean()),
            **{said: found.value for said, found in by.items()},
            "lead of the first end, θ = 0.25, SLERP": float(leads["SLERP"].mean()),
            "lead of the first end, θ = 0.25, vSLERP with α = 1": float(leads["α = 1"].mean()),
        },
        [
            PAPER.below("slerp_leaves", shares["SLERP"], 0.5, name=rows.name),
            PAPER.above("vslerp_stays", shares["α = 1"], 0.5, name=rows.name),
        ],
        {
            "shares": [(way, *astuple(share)) for way, share in shares.items()],
            "leads": [(way, *astuple(mean_interval(values))) for way, values in leads.items()],
            "statement": statement,
        },
    )


def _lead(X: np.ndarray, rows: np.ndarray, own: np.ndarray) -> np.ndarray:
    """The cosine of each row to its own row of X, less the largest to any other one."""
    found, scores = _search(rows, X, 2)
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    cosines = (unit * X[own]).sum(axis=1) / np.linalg.norm(X[own], axis=1)
    other = np.where(found[:, 0] == own, scores[:, 1], scores[:, 0])
    return cosines - other


def _disjoint(labels: np.ndarray, seed: int, same: bool) -> tuple[np.ndarray, np.ndarray]:
    """Random pairs of rows, of the same label or of different ones, no row in two of them."""
    rng = np.random.default_rng(seed)
    if not same:
        drawn = rng.permutation(len(labels))
        first, second = drawn[: len(drawn) // 2], drawn[len(drawn) // 2 :][: len(drawn) // 2]
        apart = labels[first] != labels[second]
        return first[apart], second[apart]
    pairs = []
    for label in np.unique(labels):
        drawn = rng.permutation(np.flatnonzero(labels == label))
        pairs.append(drawn[: len(drawn) // 2 * 2].reshape(-1, 2))
    first, second = np.concatenate(pairs).T
    return first, second


def _between(
    X: np.ndarray, first: np.ndarray, second: np.ndarray, theta: float, alpha: float
) -> Any:
    return vslerp(X[first], X[second], theta, alpha, X.mean(axis=0))


def _nearest(X: np.ndarray, rows: np.ndarray, leave_out: tuple[np.ndarray, ...] = ()) -> np.ndarray:
    """The row of X nearest to each row by cosine, some of them left out."""
    found, _ = _search(rows, X, 1 + len(leave_out))
    left_out = np.zeros(found.shape, dtype=bool)
    for those in leave_out:
        left_out |= found == those[:, None]
    return found[np.arange(len(found)), left_out.argmin(axis=1)]


def _search(rows: np.ndarray, X: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The k rows of X nearest to each row, and their cosines; in float32, which is enough."""
    found, scores = search(rows.astype(np.float32), X.astype(np.float32), k)
    return np.asarray(found), np.asarray(scores)


def _path(setting: Setting, same: bool = False) -> dict[str, Any]:
    """Nearest pictures along one way, for SLERP and around the mean; none for files of rows."""
    if setting.rows is not None:
        if setting.model is None or all(items.kind != "image" for items in setting.model.items):
            return {"path": {}}
        shown = pictures(setting)
        alike = same or len(np.unique(shown.labels)) < 2
        return {"path": _nearest_along(shown.X, shown.colour, shown.labels, setting.seed, alike)}
    scans = digits(setting)
    labels = np.array([f"a {label}" for label in scans.labels])
    return {"path": _nearest_along(scans.X, scans.images, labels, setting.seed, same)}


def _nearest_along(
    X: np.ndarray, images: np.ndarray, labels: np.ndarray, seed: int, same: bool
) -> dict[str, Any]:
    """The nearest images along the way between the first two that are drawn."""
    first, second = (ends[:1] for ends in _disjoint(labels, seed, same))
    path = {}
    for name, alpha in (("SLERP", 0.0), ("vSLERP, α = 1", 1.0)):
        near = [int(_nearest(X, _between(X, first, second, theta, alpha))[0]) for theta in THETAS]
        captions = [f"θ = {theta:g}\n{labels[k]}" for theta, k in zip(THETAS, near, strict=True)]
        path[name] = {"images": images[near], "captions": captions}
    return path
