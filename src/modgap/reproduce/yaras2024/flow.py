"""Figures 2 and 3 of Yaras et al. 2024: matched and mismatched pairs, and lemma 3.1."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from modgap.reproduce.entry import Outcome, check
from modgap.reproduce.setting import Setting
from modgap.reproduce.statistics import falls
from modgap.reproduce.yaras2024 import PAPER

# The paper gives no sizes for its synthetic run; twelve pairs on a circle can be looked at.
_PAIRS, _SEPARATION, _BETA = 12, 0.2, 5.0
_SHOWN_AT = (0.0, 0.3, 4.0, 20.0)


@PAPER.run("fig2")
def fig2(setting: Setting) -> Outcome:
    """Follow the flow of eq. 4 from random pairs."""
    from modgap.simulate.flow import gap_flow

    seeds = 20 if setting.full else 4
    times = np.linspace(0, 20, 401)
    runs = []
    for k in range(seeds):
        setting.say("following the flow", k, seeds)
        X, Y = np.random.default_rng([setting.seed, k]).normal(size=(2, _PAIRS, 2))
        runs.append(gap_flow(X, Y, _SEPARATION, _BETA, times, embedding_rate=_PAIRS))
    first = runs[0]
    peaks = [int(np.argmax(run.separation)) for run in runs]
    matched = [int(np.argmax(run.margin > 0)) for run in runs]
    powers = [_power_of_ratio(run) for run in runs]
    lemma = max(_lemma_error(run) for run in runs)
    gap = first.gap_distance
    checks = [
        check(
            f"The gap grows at first, from each of {seeds} random starts.",
            all(
                run.gap_distance[peak] > run.gap_distance[0] and peak > 0
                for run, peak in zip(runs, peaks, strict=True)
            ),
        ),
        check("In the end all pairs are matched.", all(run.margin[-1] > 0 for run in runs)),
        check(
            "The growth ends before all pairs are matched, and from then on the planes approach.",
            all(
                peak <= at and falls(run.separation[at:])
                for run, peak, at in zip(runs, peaks, matched, strict=True)
            ),
        ),
        check(
            "The gap slows down: its last quarter of time closes less than a tenth of its peak.",
            all(
                run.gap_distance[300] - run.gap_distance[-1] < 0.1 * run.gap_distance.max()
                for run in runs
            ),
        ),
        check(
            "The temperature is highest when the planes are farthest apart.",
            all(
                int(np.argmin(run.inverse_temperature)) == peak
                for run, peak in zip(runs, peaks, strict=True)
            ),
        ),
        check("β follows lemma 3.1's closed form to 1e-6.", lemma < 1e-6),
    ]
    shown = [int(np.argmin(np.abs(times - t))) for t in _SHOWN_AT]
    return Outcome(
        measured={
            "time by which all pairs are matched": float(times[matched[0]]),
            "the latest of all starts": float(times[max(matched)]),
            "gap at the start": float(gap[0]),
            "largest gap": float(gap.max()),
            "gap at the end": float(gap[-1]),
            "highest temperature": float(1 / first.inverse_temperature.min()),
            "temperature at the end": float(1 / first.inverse_temperature[-1]),
            "largest relative error of lemma 3.1": lemma,
            "power of β in R (lemma 3.1)": float(np.median(powers)),
        },
        checks=checks,
        data={
            # The later times look alike.
            "times": times[times <= 8],
            "gap Δ": gap[times <= 8],
            "temperature τ": 1 / first.inverse_temperature[times <= 8],
            "matched": float(times[matched[0]]),
            "shown": [{"time": float(times[k]), "X": first.X[k], "Y": first.Y[k]} for k in shown],
        },
    )


def _lemma_error(run: Any) -> float:
    """Largest relative distance of β from lemma 3.1's closed form."""
    return float(np.max(np.abs(run.inverse_temperature / run.closed_form - 1)))


def _power_of_ratio(run: Any) -> float:
    """The power of β with which R of eq. 5 falls, over the late half of the run."""
    late = slice(len(run.times) // 2, None)
    gamma, beta = run.separation[late], run.inverse_temperature[late]
    ratio = 2 * gamma / (beta * (1 - gamma**2))
    return float(np.polyfit(np.log(beta), np.log(ratio), 1)[0])


@PAPER.run("fig3")
def fig3(setting: Setting) -> Outcome:
    """Six pairs on two parallel circles, two of them crossed or none."""
    from modgap.measures import margin
    from modgap.simulate.flow_theory import initial_growth
    from modgap.simulate.sphere import critical_temperature, make_sphere_pairs

    height, beta = 0.5, 50.0
    measured: dict[str, float] = {}
    data: dict[str, Any] = {}
    growth: dict[str, float] = {}
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
        growth[name] = initial_growth(X, Y, height, beta)
        measured[f"sign of the margin, {name}"] = int(np.sign(within))
        measured[f"margin, {name}"] = within
        measured[f"twice dγ/dt, {name}"] = growth[name]
        data[name] = {"X": lifted[0], "Y": lifted[1], "margin": within}
    hot = {k: critical_temperature(6, 60.0, k) for k in (0, 2)}
    measured["temperature below which a gap is best, mismatched"] = hot[2]
    checks = [
        check("The margin is positive without mismatches.", measured["margin, matched"] > 0),
        check("The margin is negative with mismatches.", measured["margin, mismatched"] < 0),
        check("The distance of the planes scales the margin by 1 − γ².", same),
        check("Matched planes attract each other.", growth["matched"] < 0),
        check(f"Mismatched planes repel each other at β = {beta:g}.", growth["mismatched"] > 0),
        check(
            "A gap is best at no temperature without mismatches, at low ones with them.",
            hot[0] == 0 < hot[2],
        ),
    ]
    return Outcome(measured, checks, data)
