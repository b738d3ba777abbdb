"""Vertical SLERP: interpolating around the mean instead of the origin (figs 12, 23, 24)."""

from __future__ import annotations

from typing import Any

import numpy as np

from modgap.measures import conformity, vslerp
from modgap.reproduce.entry import Outcome, check
from modgap.reproduce.levi2025 import PAPER
from modgap.reproduce.levi2025.joined import joined
from modgap.reproduce.levi2025.rows import digits
from modgap.reproduce.setting import Setting
from modgap.reproduce.statistics import falls
from modgap.search import search

ALPHAS = (0.0, 0.25, 0.5, 0.75, 1.0)
THETAS = (0.0, 0.25, 0.5, 0.75, 1.0)


@PAPER.run("fig12")
def fig12(setting: Setting) -> Outcome:
    """Where the middle between two scans lies, by α."""
    X = digits().X
    first, second = _pairs(setting)
    radii = np.linalg.norm(X - X.mean(axis=0), axis=1)
    ends = (radii[first] + radii[second]) / 2
    common = float(np.quantile(conformity(X, X), 0.95))
    relative, too_common = [], []
    for done, alpha in enumerate(ALPHAS):
        setting.say(f"α = {alpha:g}", done, len(ALPHAS))
        middle = _between(first, second, 0.5, alpha)
        distance = np.linalg.norm(middle - X.mean(axis=0), axis=1)
        relative.append(float(np.mean(distance / ends)))
        too_common.append(float(np.mean(conformity(middle, X) > common)))
    return Outcome(
        {
            "radius of the middle over that of the ends, SLERP": relative[0],
            "the same, vSLERP with α = 1": relative[-1],
            "middles more common than 95 % of the scans, SLERP": too_common[0],
            "the same share, vSLERP with α = 1": too_common[-1],
        },
        [
            check(
                "SLERP cuts through the inside of the shell: its middle lies at less than 0.9 of "
                "the ends' radius.",
                relative[0] < 0.9,
            ),
            check(
                "Around the mean the middle stays on the shell, within 5 %.",
                abs(relative[-1] - 1) < 0.05,
            ),
            check("The radius grows with α throughout.", falls(relative[::-1])),
            check(
                "SLERP's middles are more common than 95 % of the scans far more often than around "
                "the mean.",
                too_common[0] > 5 * too_common[-1],
            ),
        ],
        {
            "alphas": ALPHAS,
            "radius": relative,
            "too_common": too_common,
            "path": _path(first[:1], second[:1]),
        },
    )


@PAPER.run("fig23")
def fig23(setting: Setting) -> Outcome:
    """Ways between scans of different digits."""
    return _kept(setting, False, "nearest other scan is of one of the two digits")


@PAPER.run("fig24")
def fig24(setting: Setting) -> Outcome:
    """Ways between scans of the same digit."""
    return _kept(setting, True, "nearest other scan is of the same digit")


def _kept(setting: Setting, same: bool, statement: str) -> Outcome:
    """How often the way between two scans keeps to what its ends are, by α."""
    labels = digits().labels
    first, second = _pairs(setting, same)
    kept, stays = {}, {}
    for done, alpha in enumerate(ALPHAS):
        setting.say(f"α = {alpha:g}", done, len(ALPHAS))
        name = f"α = {alpha:g}" if alpha else "SLERP"
        found = labels[_nearest(_between(first, second, 0.5, alpha), (first, second))]
        kept[name] = (found == labels[first]) | (found == labels[second])
        stays[name] = _nearest(_between(first, second, 0.25, alpha)) == first
    gains = joined(
        [
            _gain(statement, "θ = 0.5", kept),
            _gain("the first scan is still the nearest", "θ = 0.25", stays),
        ]
    )
    data = {"shares": gains.data, "path": _path(first[:1], second[:1])}
    return Outcome(gains.measured, gains.checks, data)


def _gain(statement: str, where: str, hits: dict[str, np.ndarray]) -> Outcome:
    """How much more often a statement holds around the mean than with SLERP, pair by pair."""
    slerp, vertical = hits["SLERP"].astype(float), hits["α = 1"].astype(float)
    _, low, high = _share(vertical - slerp)
    return Outcome(
        {
            f"{statement}, {where}, SLERP": float(slerp.mean()),
            f"{statement}, {where}, vSLERP with α = 1": float(vertical.mean()),
            f"gain, low, {where}: {statement}": low,
            f"gain, high, {where}: {statement}": high,
        },
        [
            check(
                f"At {where}, more often with vSLERP than with SLERP, {statement} (the interval of "
                "the paired difference lies above 0).",
                low > 0,
            )
        ],
        {statement: [(name, *_share(values)) for name, values in hits.items()]},
    )


def _share(values: np.ndarray) -> tuple[float, float, float]:
    """A mean with its interval of 95 %."""
    mean, half = float(values.mean()), 1.96 * float(values.std()) / len(values) ** 0.5
    return mean, mean - half, mean + half


def _pairs(setting: Setting, same: bool | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Random pairs of scans: of the same digit, of different ones, or of any."""
    labels = digits().labels
    wanted = 20_000 if setting.full else 4_000
    rng = np.random.default_rng(setting.seed)
    first = second = np.zeros(0, dtype=np.int64)
    while len(first) < wanted:
        a, b = rng.integers(len(labels), size=(2, wanted))
        keep = a != b
        if same is not None:
            keep &= (labels[a] == labels[b]) == same
        first, second = np.append(first, a[keep]), np.append(second, b[keep])
    return first[:wanted], second[:wanted]


def _between(first: np.ndarray, second: np.ndarray, theta: float, alpha: float) -> Any:
    X = digits().X
    return vslerp(X[first], X[second], theta, alpha, X.mean(axis=0))


def _nearest(rows: np.ndarray, leave_out: tuple[np.ndarray, ...] = ()) -> np.ndarray:
    """The scan nearest to each row by cosine, some of them left out."""
    found, _ = search(rows, digits().X, 1 + len(leave_out))
    left_out = np.zeros(found.shape, dtype=bool)
    for scans in leave_out:
        left_out |= found == scans[:, None]
    return found[np.arange(len(found)), left_out.argmin(axis=1)]


def _path(first: np.ndarray, second: np.ndarray) -> dict[str, Any]:
    """Nearest scans along one way, for SLERP and around the mean."""
    rows = digits()
    data = {}
    for name, alpha in (("SLERP", 0.0), ("vSLERP, α = 1", 1.0)):
        scans = [int(_nearest(_between(first, second, theta, alpha))[0]) for theta in THETAS]
        data[name] = {
            "images": rows.images[scans],
            "captions": [
                f"θ = {theta:g}\na {rows.labels[k]}" for theta, k in zip(THETAS, scans, strict=True)
            ],
        }
    return data
