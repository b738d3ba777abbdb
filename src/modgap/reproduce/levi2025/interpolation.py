"""Vertical SLERP: interpolating around the mean instead of the origin (figs 12, 23, 24)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from modgap._arrays import unit
from modgap.measures import conformity, vslerp
from modgap.reproduce.entry import Check, Number, Outcome, check
from modgap.reproduce.levi2025 import PAPER
from modgap.reproduce.levi2025.rows import DIGITS, digits
from modgap.reproduce.setting import Setting

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ALPHAS = (0.0, 0.25, 0.5, 0.75, 1.0)
THETAS = (0.0, 0.25, 0.5, 0.75, 1.0)
HOW = (
    "The paper's own pictures need unCLIP (a decoder of CLIP image rows, such as Karlo or Stable "
    "unCLIP) to turn interpolated rows into images: modgap.measures.vslerp gives the rows, the "
    "decoder's image-variation pipeline with image_embeds the pictures."
)
FAST = "4,000 pairs of scans, α 0, 0.25, 0.5, 0.75, 1"
FULL = "20,000 pairs of scans"
ON = f"rows between scans, shown by their nearest scans, no picture being generated; {DIGITS}"
NOTE = (
    "α = 0 is SLERP; α = 1 interpolates around the mean. The α of the paper's pictures is not "
    "printed. Pairs share scans, which makes the intervals a little too narrow."
)


def _pairs(setting: Setting, same: bool | None) -> tuple[np.ndarray, np.ndarray]:
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


def _between(first: np.ndarray, second: np.ndarray, theta: float, alpha: float) -> np.ndarray:
    X = digits().X
    return np.asarray(vslerp(X[first], X[second], theta, alpha, X.mean(axis=0)))


def _nearest(rows: np.ndarray, leave_out: tuple[np.ndarray, ...] = ()) -> np.ndarray:
    """The scan nearest to each row by cosine, some of them left out."""
    candidates = unit(digits().X)
    found = []
    for start in range(0, len(rows), 2_000):
        part = slice(start, start + 2_000)
        cosines = unit(rows[part]) @ candidates.T
        for scans in leave_out:
            cosines[np.arange(len(cosines)), scans[part]] = -np.inf
        found.append(cosines.argmax(axis=1))
    return np.concatenate(found)


def _path(first: int, second: int) -> dict[str, Any]:
    """Nearest scans along one way, for SLERP and around the mean."""
    rows = digits()
    ends = np.array([first]), np.array([second])
    data = {}
    for name, alpha in (("SLERP", 0.0), ("vSLERP, α = 1", 1.0)):
        scans = [int(_nearest(_between(*ends, theta, alpha))[0]) for theta in THETAS]
        data[name] = {
            "images": rows.images[scans],
            "captions": [
                f"θ = {theta:g}\na {rows.labels[k]}" for theta, k in zip(THETAS, scans, strict=True)
            ],
        }
    return data


def _draw_path(path: Mapping[str, Any], axes: list[Axes]) -> None:
    from modgap.plot import image_grid

    for ax, (name, shown) in zip(axes, path.items(), strict=True):
        image_grid(
            shown["images"],
            shown["captions"],
            columns=len(THETAS),
            title=f"{name}: nearest scans",
            ax=ax,
        )


@PAPER.draw("fig12")
def draw_fig12(outcome: Outcome) -> Figure:
    """How far inside the shell the middle falls, how common it is, and one way."""
    from modgap.plot import curves, panels

    figure, axes = panels(4, size=(4.2, 3))
    curves(
        outcome.data["alphas"],
        {"radius of the middle": outcome.data["radius"]},
        horizontal={"on the shell": 1.0},
        xlabel="α",
        ylabel="radius over that of the ends",
        ax=axes[0],
    )
    curves(
        outcome.data["alphas"],
        {"middles": outcome.data["too_common"]},
        horizontal={"scans": 0.05},
        xlabel="α",
        ylabel="share of the middles",
        title="more common than 95 % of the scans",
        ax=axes[1],
    )
    _draw_path(outcome.data["path"], axes[2:])
    return figure


@PAPER.run("fig12")
def fig12(setting: Setting) -> Outcome:
    """Where the middle between two scans lies, by α."""
    X = digits().X
    first, second = _pairs(setting, None)
    radii = np.linalg.norm(X - X.mean(axis=0), axis=1)
    ends = (radii[first] + radii[second]) / 2
    common = float(np.quantile(np.asarray(conformity(X, X)), 0.95))
    relative, too_common = [], []
    for done, alpha in enumerate(ALPHAS):
        setting.say(f"α = {alpha:g}", done, len(ALPHAS))
        middle = _between(first, second, 0.5, alpha)
        distance = np.linalg.norm(middle - X.mean(axis=0), axis=1)
        relative.append(float(np.mean(distance / ends)))
        too_common.append(float(np.mean(np.asarray(conformity(middle, X)) > common)))
    measured = {
        "radius of the middle over that of the ends, SLERP": relative[0],
        "the same, vSLERP with α = 1": relative[-1],
        "middles more common than 95 % of the scans, SLERP": too_common[0],
        "the same share, vSLERP with α = 1": too_common[-1],
    }
    checks = (
        check(
            "SLERP cuts through the inside of the shell: its middle lies at less than 0.9 of the "
            "ends' radius.",
            relative[0] < 0.9,
        ),
        check(
            "Around the mean the middle stays on the shell, within 5 %.",
            abs(relative[-1] - 1) < 0.05,
        ),
        check("The radius grows with α throughout.", bool(np.all(np.diff(relative) > 0))),
        check(
            "SLERP's middles are more common than 95 % of the scans far more often than around "
            "the mean.",
            too_common[0] > 5 * too_common[-1],
        ),
    )
    data = {
        "alphas": ALPHAS,
        "radius": relative,
        "too_common": too_common,
        "path": _path(int(first[0]), int(second[0])),
    }
    return Outcome(measured, checks, data)


def _shares(hits: np.ndarray) -> tuple[float, float, float]:
    """A share with its interval of 95 %."""
    share = float(hits.mean())
    half = 1.96 * float(hits.std()) / len(hits) ** 0.5
    return share, share - half, share + half


def _kept(setting: Setting, same: bool, theta: float, what: str) -> Outcome:
    """How often the way between two scans keeps to what its ends are, by α."""
    rows = digits()
    first, second = _pairs(setting, same)
    at = f"θ = {theta:g}"
    kept: dict[str, np.ndarray] = {}
    stays: dict[str, np.ndarray] = {}
    for done, alpha in enumerate(ALPHAS):
        setting.say(f"α = {alpha:g}", done, len(ALPHAS))
        between = _between(first, second, theta, alpha)
        found = rows.labels[_nearest(between, (first, second))]
        own = (found == rows.labels[first]) | (found == rows.labels[second])
        name = "SLERP" if alpha == 0 else f"α = {alpha:g}"
        kept[name] = own.astype(np.float64)
        start = _between(first, second, 0.25, alpha)
        stays[name] = (_nearest(start) == first).astype(np.float64)
    measured: dict[str, Number] = {}
    checks: list[Check] = []
    gains = {}
    for statement, hits, where in (
        (f"nearest other scan {what}", kept, at),
        ("the first scan is still the nearest", stays, "θ = 0.25"),
    ):
        gain = _shares(hits["α = 1"] - hits["SLERP"])
        measured |= {
            f"{statement}, {where}, SLERP": float(hits["SLERP"].mean()),
            f"{statement}, {where}, vSLERP with α = 1": float(hits["α = 1"].mean()),
            f"gain, low, {where}: {statement}": gain[1],
            f"gain, high, {where}: {statement}": gain[2],
        }
        checks.append(
            check(
                f"At {where}, more often with vSLERP than with SLERP, {statement} (the interval of "
                "the paired difference lies above 0).",
                gain[1] > 0,
            )
        )
        gains[statement] = [(name, *_shares(values)) for name, values in hits.items()]
    data = {"shares": gains, "path": _path(int(first[0]), int(second[0]))}
    return Outcome(measured, tuple(checks), data, ON, NOTE)


@PAPER.draw("fig23", "fig24")
def draw_kept(outcome: Outcome) -> Figure:
    """Shares by α with their intervals, and one way."""
    from modgap.plot import intervals, panels

    figure, axes = panels(4, size=(4.6, 2.7))
    for ax, (statement, found) in zip(axes[:2], outcome.data["shares"].items(), strict=True):
        intervals(
            [tuple(row) for row in found], xlabel="share of the pairs", title=statement, ax=ax
        )
        ax.locator_params(axis="x", nbins=5)
    _draw_path(outcome.data["path"], axes[2:])
    return figure


@PAPER.run("fig23")
def fig23(setting: Setting) -> Outcome:
    """Ways between scans of different digits."""
    return _kept(setting, False, 0.5, "is of one of the two digits")


@PAPER.run("fig24")
def fig24(setting: Setting) -> Outcome:
    """Ways between scans of the same digit."""
    return _kept(setting, True, 0.5, "is of the same digit")
