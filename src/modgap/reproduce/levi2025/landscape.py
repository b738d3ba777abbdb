"""The loss and the match of conformities as the ellipsoids move (figs 6, 11, 21, 22)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from modgap.measures import conformity_divergence, origin_landscape
from modgap.measures.landscape import OriginLandscape
from modgap.reproduce.entry import Check, Number, Outcome, check
from modgap.reproduce.levi2025 import PAPER
from modgap.reproduce.levi2025.rows import BINS, CLIP, UNSEEN, digits, embeddings
from modgap.reproduce.setting import Setting
from modgap.reproduce.statistics import rank_correlation

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# How far from where training left them the best place may be and still be called there: the
# paper itself expects "some deviation".
NEAR = 0.2
CLIP_TEMPERATURE = 0.01
BOTH = f"{CLIP}; and {UNSEEN}"
GRID = "α from −1 to 1 in steps of 0.02, all pairs in one batch; the same in both settings"
LOSS_SLIP = "Eq. 7 sums over j while j also names the pair; eq. 8 shows what is meant."
KL_NOTE = (
    f"KL over {BINS} shared bins with 1e-10 added to each: where the distributions no longer "
    "overlap it saturates near 28."
)


def _sweeps(setting: Setting, move: Literal["x", "y", "both"]) -> dict[str, OriginLandscape]:
    """The landscapes of the authors' CLIP rows and of the digits, each at its own temperature."""
    # A coarser grid would find another least value where the curve is flat (fig. 22).
    alphas = np.linspace(-1, 1, 101).round(2).tolist()
    X, Y = embeddings(setting, "clip")
    rows = digits("test")
    both = {
        "CLIP": (X, Y, CLIP_TEMPERATURE),
        "digits": (rows.X, rows.Y, rows.temperature),
    }
    found = {}
    for done, (name, (A, B, temperature)) in enumerate(both.items()):
        setting.say(f"{name}: the loss at {len(alphas)} places", done, len(both))
        found[name] = origin_landscape(A, B, alphas, move, temperature, bins=BINS)
    return found


def _best(values: np.ndarray, alphas: np.ndarray) -> float:
    return float(alphas[int(np.argmin(values))])


def _loss_part(name: str, found: OriginLandscape) -> tuple[dict[str, Number], list[Check]]:
    here = int(np.argmin(np.abs(found.alphas)))
    best = _best(found.loss, found.alphas)
    measured: dict[str, Number] = {
        f"α of least loss, {name}": best,
        f"loss at α = 0, {name}": float(found.loss[here]),
        f"loss at α = 1, {name}": float(found.loss[-1]),
    }
    statement = f"{name}: the loss is least at |α| of at most {NEAR}, not at the origin (α = 1)."
    return measured, [check(statement, abs(best) <= NEAR)]


def _match_part(name: str, found: OriginLandscape) -> tuple[dict[str, Number], list[Check]]:
    here = int(np.argmin(np.abs(found.alphas)))
    best = _best(found.conformity_divergence, found.alphas)
    measured: dict[str, Number] = {
        f"α of least KL, {name}": best,
        f"least KL, {name}": float(found.conformity_divergence.min()),
        f"KL at α = 0, {name}": float(found.conformity_divergence[here]),
    }
    statement = f"{name}: the conformities match best at |α| of at most {NEAR}."
    return measured, [check(statement, abs(best) <= NEAR)]


Part = Callable[[str, OriginLandscape], tuple[dict[str, Number], list[Check]]]


def _gather(
    sweeps: Mapping[str, OriginLandscape], *parts: Part
) -> tuple[dict[str, Number], list[Check]]:
    measured: dict[str, Number] = {}
    checks: list[Check] = []
    for part in parts:
        for name, found in sweeps.items():
            more, held = part(name, found)
            measured |= more
            checks += held
    return measured, checks


def _curves(sweeps: Mapping[str, OriginLandscape]) -> dict[str, Any]:
    data = {}
    for name, found in sweeps.items():
        here = int(np.argmin(np.abs(found.alphas)))
        data[name] = {
            "alphas": found.alphas,
            "loss": found.loss,
            # Alignment and uniformity are tens apart: only what they gain or lose can be drawn.
            "alignment": found.alignment - found.alignment[here],
            "uniformity": found.uniformity - found.uniformity[here],
            "change": found.loss - found.loss[here],
            "matched": found.matched,
            "mismatched": found.mismatched,
            "divergence": found.conformity_divergence,
            "best_loss": (_best(found.loss, found.alphas), float(found.loss.min())),
            "best_match": (
                _best(found.conformity_divergence, found.alphas),
                float(found.conformity_divergence.min()),
            ),
        }
    return data


@PAPER.draw("fig6")
def draw_fig6(outcome: Outcome) -> Figure:
    """For each data set what the terms gain or lose, and the losses of hits and misses."""
    from modgap.plot import curves, panels

    figure, axes = panels(4, size=(4.2, 3))
    for k, (name, found) in enumerate(outcome.data.items()):
        curves(
            found["alphas"],
            {
                "loss": found["change"],
                "alignment": found["alignment"],
                "uniformity": found["uniformity"],
            },
            xlabel="α",
            ylabel="change from α = 0",
            title=name,
            ax=axes[k],
        )
        curves(
            found["alphas"],
            {
                "all pairs": found["loss"],
                "matched": found["matched"],
                "mismatched": found["mismatched"],
            },
            marks={"all pairs": found["best_loss"]},
            xlabel="α",
            ylabel="loss",
            title=name,
            ax=axes[2 + k],
        )
    return figure


@PAPER.draw("fig11")
def draw_matches(outcome: Outcome) -> Figure:
    """The divergence of the conformities along the move."""
    from modgap.plot import panels

    figure, axes = panels(2, size=(4.2, 3))
    for ax, (name, found) in zip(axes, outcome.data.items(), strict=True):
        _draw_match(ax, name, found)
    return figure


@PAPER.draw("fig21", "fig22")
def draw_both(outcome: Outcome) -> Figure:
    """The divergence above, the loss below."""
    from modgap.plot import curves, panels

    figure, axes = panels(4, size=(4.2, 3))
    for k, (name, found) in enumerate(outcome.data.items()):
        _draw_match(axes[k], name, found)
        curves(
            found["alphas"],
            {"loss": found["loss"]},
            marks={"loss": found["best_loss"]},
            xlabel="α",
            ylabel="loss",
            title=f"{name}: loss",
            ax=axes[2 + k],
        )
    return figure


def _draw_match(ax: Any, name: str, found: Mapping[str, Any]) -> None:
    from modgap.plot import curves

    curves(
        found["alphas"],
        {"KL": found["divergence"]},
        marks={"KL": found["best_match"]},
        xlabel="α",
        ylabel=f"KL, {BINS} bins",
        log="y",
        title=f"{name}: match of the conformities",
        ax=ax,
    )


@PAPER.run("fig6")
def fig6(setting: Setting) -> Outcome:
    """Fig. 6 on the authors' CLIP rows and on the digits' raw rows."""
    sweeps = _sweeps(setting, "x")
    measured, checks = _gather(sweeps, _loss_part)
    for name, found in sweeps.items():
        before, after = found.alphas <= 0, found.alphas >= 0
        rank = rank_correlation(found.alignment, found.uniformity)
        measured |= {
            f"rank correlation of the terms, {name}": rank,
            f"α of least loss of matched pairs, {name}": _best(found.matched, found.alphas),
        }
        checks += [
            check(
                f"{name}: alignment and uniformity pull against each other.",
                rank < -0.5,
            ),
            check(
                f"{name}: from α = −1 to 0 the loss of matched pairs falls.",
                _falls(found.matched[before]),
            ),
            check(
                f"{name}: it goes on falling all the way to the origin.",
                _falls(found.matched[after]),
            ),
            check(
                f"{name}: from 0 to the origin the loss of mismatched pairs rises.",
                _falls(-found.mismatched[after]),
            ),
        ]
    return Outcome(measured, tuple(checks), _curves(sweeps))


def _falls(values: np.ndarray) -> bool:
    """Whether a curve goes down: its rank correlation with the place is below −0.95.

    Which pairs are matched changes from place to place, so that no such curve is quite smooth.
    """
    return rank_correlation(values, np.arange(len(values))) < -0.95


@PAPER.run("fig11")
def fig11(setting: Setting) -> Outcome:
    """Fig. 11 on the authors' CLIP rows and on the digits' raw rows."""
    sweeps = _sweeps(setting, "x")
    measured, checks = _gather(sweeps, _match_part)
    X, Y = embeddings(setting, "clip")
    measured |= {
        f"KL at α = 0 with {bins} bins, CLIP": conformity_divergence(X, Y, bins)
        for bins in (20, 100)
    }
    return Outcome(measured, tuple(checks), _curves(sweeps))


@PAPER.run("fig21")
def fig21(setting: Setting) -> Outcome:
    """Fig. 21 on the authors' CLIP rows and on the digits' raw rows."""
    sweeps = _sweeps(setting, "y")
    measured, checks = _gather(sweeps, _loss_part, _match_part)
    return Outcome(measured, tuple(checks), _curves(sweeps))


@PAPER.run("fig22")
def fig22(setting: Setting) -> Outcome:
    """Fig. 22 on the authors' CLIP rows and on the digits' raw rows."""
    sweeps = _sweeps(setting, "both")
    measured, checks = _gather(sweeps, _loss_part, _match_part)
    return Outcome(measured, tuple(checks), _curves(sweeps))
