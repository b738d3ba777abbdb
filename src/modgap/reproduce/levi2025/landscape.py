"""The loss and the match of conformities as the ellipsoids move (figs 6, 11, 21, 22)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from modgap.measures import conformity_divergence, origin_landscape
from modgap.measures.landscape import OriginLandscape
from modgap.reproduce.entry import Outcome, check
from modgap.reproduce.levi2025 import PAPER
from modgap.reproduce.levi2025.joined import joined
from modgap.reproduce.levi2025.rows import BINS, digits, embeddings
from modgap.reproduce.setting import Setting
from modgap.reproduce.statistics import rank_correlation

# How far from where training left them the best place may be and still be called there: the
# paper itself expects "some deviation".
NEAR = 0.2
CLIP_TEMPERATURE = 0.01

# What is measured and checked in the landscape of one data set, by its name.
View = Callable[[str, OriginLandscape], Outcome]


@PAPER.run("fig6")
def fig6(setting: Setting) -> Outcome:
    """The loss and its terms as the image rows move."""
    return _moved(setting, "x", _loss, _terms)


@PAPER.run("fig11")
def fig11(setting: Setting) -> Outcome:
    """The match as the image rows move, and how far it depends on the bins."""
    X, Y = embeddings(setting, "clip")
    by_bins = {
        f"KL at α = 0 with {bins} bins, CLIP": conformity_divergence(X, Y, bins)
        for bins in (20, 100)
    }
    return joined([_moved(setting, "x", _match), Outcome(by_bins, [])])


@PAPER.run("fig21")
def fig21(setting: Setting) -> Outcome:
    """Loss and match as the text rows move."""
    return _moved(setting, "y", _loss, _match)


@PAPER.run("fig22")
def fig22(setting: Setting) -> Outcome:
    """Loss and match as both move."""
    return _moved(setting, "both", _loss, _match)


def _moved(setting: Setting, move: Literal["x", "y", "both"], *views: View) -> Outcome:
    """Views of the authors' CLIP rows and of the digits, each at its own temperature."""
    # A coarser grid would find another least value where the curve is flat (fig. 22).
    alphas = np.linspace(-1, 1, 101).round(2).tolist()
    rows = digits("test")
    both = {
        "CLIP": (*embeddings(setting, "clip"), CLIP_TEMPERATURE),
        "digits": (rows.X, rows.Y, rows.temperature),
    }
    found = {}
    for done, (name, (X, Y, temperature)) in enumerate(both.items()):
        setting.say(f"{name}: the loss at {len(alphas)} places", done, len(both))
        found[name] = origin_landscape(X, Y, alphas, move, temperature, bins=BINS)
    return joined(view(name, each) for view in (*views, _curves) for name, each in found.items())


def _loss(name: str, found: OriginLandscape) -> Outcome:
    best, _ = _least(found.loss, found.alphas)
    return Outcome(
        {
            f"α of least loss, {name}": best,
            f"loss at α = 0, {name}": _at_zero(found.loss, found.alphas),
            f"loss at α = 1, {name}": float(found.loss[-1]),
        },
        [
            check(
                f"The loss is least at |α| of at most {NEAR}, not at the origin, α = 1 ({name}).",
                abs(best) <= NEAR,
            )
        ],
    )


def _match(name: str, found: OriginLandscape) -> Outcome:
    best, least = _least(found.conformity_divergence, found.alphas)
    return Outcome(
        {
            f"α of least KL, {name}": best,
            f"least KL, {name}": least,
            f"KL at α = 0, {name}": _at_zero(found.conformity_divergence, found.alphas),
        },
        [
            check(
                f"The conformities match best at |α| of at most {NEAR} ({name}).", abs(best) <= NEAR
            )
        ],
    )


def _terms(name: str, found: OriginLandscape) -> Outcome:
    before, after = found.alphas <= 0, found.alphas >= 0
    rank = rank_correlation(found.alignment, found.uniformity)
    return Outcome(
        {
            f"rank correlation of the terms, {name}": rank,
            f"α of least loss of matched pairs, {name}": _least(found.matched, found.alphas)[0],
        },
        [
            check(f"Alignment and uniformity pull against each other ({name}).", rank < -0.5),
            check(
                f"From α = −1 to 0 the loss of matched pairs falls ({name}).",
                _goes_down(found.matched[before]),
            ),
            check(
                f"From α = 0 to the origin the loss of matched pairs goes on falling ({name}).",
                _goes_down(found.matched[after]),
            ),
            check(
                f"From α = 0 to the origin the loss of mismatched pairs rises ({name}).",
                _goes_down(-found.mismatched[after]),
            ),
        ],
    )


def _curves(name: str, found: OriginLandscape) -> Outcome:
    """What is drawn.

    Alignment and uniformity are tens apart: only what they gain or lose can be drawn.
    """
    alphas = found.alphas
    curves = {
        "alphas": alphas,
        "loss": found.loss,
        "alignment": found.alignment - _at_zero(found.alignment, alphas),
        "uniformity": found.uniformity - _at_zero(found.uniformity, alphas),
        "change": found.loss - _at_zero(found.loss, alphas),
        "matched": found.matched,
        "mismatched": found.mismatched,
        "divergence": found.conformity_divergence,
        "best_loss": _least(found.loss, alphas),
        "best_match": _least(found.conformity_divergence, alphas),
    }
    return Outcome({}, [], {name: curves})


def _least(values: np.ndarray, alphas: np.ndarray) -> tuple[float, float]:
    """Where a curve is least, and its value there."""
    place = int(np.argmin(values))
    return float(alphas[place]), float(values[place])


def _at_zero(values: np.ndarray, alphas: np.ndarray) -> float:
    """A curve's value where training left the ellipsoids."""
    return float(values[np.argmin(np.abs(alphas))])


def _goes_down(values: np.ndarray) -> bool:
    """Whether a curve's rank correlation with the place is below −0.95.

    Which pairs are matched changes from place to place, so no such curve is quite smooth.
    """
    return rank_correlation(values, np.arange(len(values))) < -0.95
