"""The loss and the match of conformities as the ellipsoids move (figs 6, 11, 21, 22)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

import numpy as np

from modgap.measures import conformity_divergence
from modgap.reproduce.checks import read_as
from modgap.reproduce.entry import Outcome
from modgap.reproduce.levi2025 import PAPER
from modgap.reproduce.levi2025.resampled import Binned, all_and_drawn, divergences
from modgap.reproduce.levi2025.row_sets import BINS, CLIP, joined, row_sets, row_sets_words
from modgap.reproduce.setting import Setting
from modgap.reproduce.statistics import Interval, around, between, by_chance

Move = Literal["x", "y", "both"]
# Which rows are matched, as section 5 may be read: decided anew at each α or once and for all where
# training left the rows; in each direction by itself, or by the images' answers for both.
READINGS = {
    f"matched {when}, {by}": (anew, own)
    for when, anew in (("anew at each α", True), ("fixed at α = 0", False))
    for by, own in (("in each direction", True), ("image to text for both", False))
}


@dataclass(frozen=True, eq=False)
class Curves:
    """Means over the pairs by α: of the whole set in the first row, then of pairs drawn anew.

    What a pair is compared with stays all other pairs, as they are. The losses of matched and of
    mismatched rows are by reading.
    """

    alphas: np.ndarray
    loss: np.ndarray
    alignment: np.ndarray
    uniformity: np.ndarray
    matched: dict[str, np.ndarray]
    mismatched: dict[str, np.ndarray]
    divergence: np.ndarray


def moved_curves(
    X: np.ndarray, Y: np.ndarray, alphas: Sequence[float], move: Move, temperature: float
) -> Curves:
    """What ``modgap.measures.origin_landscape`` measures, with draws of the pairs beside it.

    Parameters
    ----------
    X, Y
        Pairs, row by row.
    alphas
        How much of its mean is taken off each row.
    move
        Which side moves.
    temperature
        Of the loss.
    """
    means = X.mean(axis=0), Y.mean(axis=0)
    products = X @ Y.T
    along = X @ means[1], Y @ means[0]
    per_pair: dict[str, list[np.ndarray]] = {}
    for alpha in alphas:
        ax, ay = alpha * (move != "y"), alpha * (move != "x")
        sides = X - ax * means[0], Y - ay * means[1]
        norms = [np.linalg.norm(side, axis=1) for side in sides]
        S = products - ay * along[0][:, None] - ax * along[1] + ax * ay * (means[0] @ means[1])
        found = _of_pairs(S / norms[0][:, None] / norms[1] / temperature)
        for name, side, norm in zip(("x", "y"), sides, norms, strict=True):
            unit = side / norm[:, None]
            found[f"conformity {name}"] = (unit @ unit.sum(axis=0) - 1) / (len(unit) - 1)
        for name, values in found.items():
            per_pair.setdefault(name, []).append(values)
    return _curves(np.array(alphas), {name: np.stack(rows) for name, rows in per_pair.items()})


def _of_pairs(logits: np.ndarray) -> dict[str, np.ndarray]:
    """Own logit, and cross-entropy and hit in each direction, of every pair."""
    own, largest = np.diag(logits).copy(), logits.max()
    found = {"own": own}
    tops = {"x": logits.max(axis=1), "y": logits.max(axis=0)}
    # One shift for all: cosines differ by 2 at most, and no temperature in use is that low.
    logits -= largest
    shares = np.exp(logits, out=logits)
    for axis, (side, top) in enumerate(tops.items()):
        found[f"loss {side}"] = largest + np.log(shares.sum(axis=1 - axis)) - own
        found[f"hit {side}"] = (own >= top).astype(float)
    return found


def _curves(alphas: np.ndarray, found: dict[str, np.ndarray]) -> Curves:
    n = found["own"].shape[1]
    weights = all_and_drawn(n)

    def mean(values: np.ndarray) -> np.ndarray:
        return weights @ values.T

    losses = {side: found[f"loss {side}"] for side in "xy"}
    hits = {side: found[f"hit {side}"] for side in "xy"}
    loss, own = mean(losses["x"] + losses["y"]) / 2, mean(found["own"])
    matched, mismatched = {}, {}
    with np.errstate(invalid="ignore", divide="ignore"):  # none matched, or all of them
        for reading, (anew, by_side) in READINGS.items():
            told = {side: hits[side if by_side else "x"] for side in "xy"}
            if not anew:
                told = {side: hit[_at(0, alphas)] + 0 * hit for side, hit in told.items()}
            matched[reading], mismatched[reading] = (
                mean(sum(losses[side] * hit[side] for side in "xy")) / mean(hit["x"] + hit["y"])
                for hit in (told, {side: 1 - hit for side, hit in told.items()})
            )
    binned = Binned.of(found["conformity x"], found["conformity y"], BINS)
    return Curves(
        alphas, loss, -own, loss + own, matched, mismatched, divergences(binned, weights, weights)
    )


# A best place nearer to where training left the rows, α = 0, than to the origin, α = 1.
HALFWAY = 0.5
# A KL "above 1 implies a considerable deviation" (section 4).
CONSIDERABLE = 1.0
ALPHAS = np.linspace(-1, 1, 41).round(2).tolist()

# What is measured and checked in the landscape of one data set, by its name.
View = Callable[[str, Curves], Outcome]


@PAPER.run("fig6")
def fig6(setting: Setting) -> Outcome:
    """The loss and its terms as the image rows move."""
    return _moved(setting, "x", _loss, _terms)


@PAPER.run("fig11")
def fig11(setting: Setting) -> Outcome:
    """The match as the image rows move, and how far it depends on the bins."""
    by_bins = {
        f"KL at α = 0 with {bins} bins, {rows.name}": conformity_divergence(rows.X, rows.Y, bins)
        for rows in row_sets(setting, CLIP)
        for bins in (20, 100)
    }
    found = _moved(setting, "x", _match, _good_match)
    return joined([found, Outcome(by_bins, [])], found.on)


@PAPER.run("fig21")
def fig21(setting: Setting) -> Outcome:
    """Loss and match as the text rows move."""
    return _moved(setting, "y", _loss, _match, _good_match)


@PAPER.run("fig22")
def fig22(setting: Setting) -> Outcome:
    """Loss and match as both move."""
    return _moved(setting, "both", _loss, _match)


def _moved(setting: Setting, move: Move, *views: View) -> Outcome:
    """Views of every set of pairs that CLIP embedded, and of the digits, at its temperature."""
    sets = row_sets(setting, CLIP)
    found = []
    for done, rows in enumerate(sets):
        setting.say(f"{rows.name}: the loss at {len(ALPHAS)} places", done, len(sets))
        curves = moved_curves(rows.X, rows.Y, ALPHAS, move, rows.temperature)
        seen = joined(view(rows.name, curves) for view in views)
        checks = seen.checks if rows.judged else ()
        found.append(Outcome(seen.measured, checks, {rows.name: _drawn(curves)}))
    return joined(found, row_sets_words(sets))


def _loss(name: str, found: Curves) -> Outcome:
    return _where_trained(name, found, found.loss, "loss", around)


def _match(name: str, found: Curves) -> Outcome:
    least = {f"least KL, {name}": float(found.divergence[0].min())}
    return _where_trained(name, found, found.divergence, "KL", between, least)


def _where_trained(
    name: str,
    found: Curves,
    curves: np.ndarray,
    what: Literal["loss", "KL"],
    interval: Callable[[float, np.ndarray], Interval],
    least: Mapping[str, float] = MappingProxyType({}),
) -> Outcome:
    """Whether curves are least near where training left the rows, and larger at the origin."""
    best, zero, origin = _best(curves, found.alphas), _at(0, found.alphas), _at(1, found.alphas)
    left = curves[:, origin] - curves[:, zero]
    nearest = between(abs(best[0]), np.abs(best[1:]))
    return Outcome(
        {
            f"α of least {what}, {name}": float(best[0]),
            **least,
            f"{what} at α = 0, {name}": float(curves[0, zero]),
            f"{what} at α = 1, {name}": float(curves[0, origin]),
        },
        [
            PAPER.below(f"{what}_least_where_trained", nearest, HALFWAY, name=name),
            PAPER.above(f"{what}_larger_at_origin", interval(left[0], left[1:]), name=name),
        ],
    )


def _good_match(name: str, found: Curves) -> Outcome:
    here = found.divergence[:, _at(0, found.alphas)]
    return Outcome(
        {},
        [
            PAPER.below(
                "match_good_where_trained", between(here[0], here[1:]), CONSIDERABLE, name=name
            )
        ],
    )


def _terms(name: str, found: Curves) -> Outcome:
    against = _ranks(found.alignment, found.uniformity)
    by_reading = joined(_matched_terms(name, found, reading) for reading in READINGS)
    return Outcome(
        {f"rank correlation of the terms, {name}": against.value, **by_reading.measured},
        [PAPER.below("terms_pull_apart", against, name=name), *by_reading.checks],
    )


def _matched_terms(name: str, found: Curves, reading: str) -> Outcome:
    """How the losses of matched and of mismatched rows go along, in one reading of matched."""
    before, after = np.array(ALPHAS) <= 0, np.array(ALPHAS) >= 0
    chance = by_chance(int(after.sum()))
    matched, mismatched = found.matched[reading], found.mismatched[reading]
    falls = {
        "From α = −1 to 0": _ranks(matched[:, before], found.alphas[before]),
        "From α = 0 to the origin": _ranks(matched[:, after], found.alphas[after]),
    }
    rises = _ranks(mismatched[:, after], found.alphas[after])
    rises_before = _ranks(mismatched[:, before], found.alphas[before])
    of = {"name": name, "reading": reading}
    return Outcome(
        {
            **{
                f"rank correlation of α and the loss of the matched, {where}, {name}, {reading}": (
                    rank.value
                )
                for where, rank in zip(("−1 to 0", "0 to 1"), falls.values(), strict=True)
            },
            f"the same of the mismatched, 0 to 1, {name}, {reading}": rises.value,
            f"the same of the mismatched, −1 to 0, {name}, {reading}": rises_before.value,
        },
        read_as(
            reading,
            [
                *(
                    PAPER.below("matched_loss_falls", rank, -chance, where=where, **of)
                    for where, rank in falls.items()
                ),
                PAPER.above("mismatched_loss_rises", rises, chance, **of),
            ],
        ),
    )


def _ranks(curves: np.ndarray, other: np.ndarray) -> Interval:
    """Rank correlation of each curve with another one, or with the places; NaN if it has gaps."""
    from scipy.stats import rankdata

    ranks = [rankdata(values, axis=-1) for values in (curves, np.broadcast_to(other, curves.shape))]
    a, b = (r - r.mean(axis=-1, keepdims=True) for r in ranks)
    with np.errstate(invalid="ignore"):  # a curve that is the same everywhere has no ranks
        found = (a * b).sum(-1) / np.sqrt((a**2).sum(-1) * (b**2).sum(-1))
    return between(found[0], found[1:])


def _drawn(found: Curves) -> dict[str, object]:
    """What is drawn.

    Alignment and uniformity are tens apart: only what they gain or lose can be drawn.
    """
    zero = _at(0, found.alphas)
    changes = {
        name: curve[0] - curve[0, zero]
        for name, curve in (
            ("alignment", found.alignment),
            ("uniformity", found.uniformity),
            ("change", found.loss),
        )
    }
    places = (("best_loss", found.loss), ("best_match", found.divergence))
    return {
        "alphas": found.alphas,
        "loss": found.loss[0],
        **changes,
        # As the entry has it that is drawn first: anew, and in each direction by itself.
        "matched": next(iter(found.matched.values()))[0],
        "mismatched": next(iter(found.mismatched.values()))[0],
        "divergence": found.divergence[0],
        **{
            name: (float(_best(curve, found.alphas)[0]), float(curve[0].min()))
            for name, curve in places
        },
    }


def _best(curves: np.ndarray, alphas: np.ndarray) -> np.ndarray:
    """Where each curve is least."""
    return alphas[np.argmin(curves, axis=1)]


def _at(alpha: float, alphas: np.ndarray) -> int:
    """The place of an α."""
    return int(np.argmin(np.abs(alphas - alpha)))
