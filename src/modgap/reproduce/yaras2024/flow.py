"""Figure 2 of Yaras et al. 2024: matched and mismatched pairs, and lemma 3.1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from modgap.reproduce.checks import Check
from modgap.reproduce.entry import Outcome
from modgap.reproduce.setting import Setting
from modgap.reproduce.statistics import rank_correlation
from modgap.reproduce.yaras2024 import PAPER
from modgap.simulate.flow import gap_flow

# The paper gives no sizes for its synthetic run; twelve pairs on a circle can be looked at.
_PAIRS, _SEPARATION, _BETA = 12, 0.2, 5.0
_SHOWN_AT = (0.0, 0.3, 4.0, 20.0)


@PAPER.run("fig2")
def fig2(setting: Setting) -> Outcome:
    """Follow the flow of eq. 4 from random pairs."""
    starts = 20 if setting.full else 1
    times = np.linspace(0, 20, 401)
    runs = []
    for k in range(starts):
        setting.say("following the flow", k, starts)
        rng = np.random.default_rng([setting.seed, k])
        X, Y = setting.read("start", rng.normal(size=(2, _PAIRS, 2)))
        runs.append(gap_flow(X, Y, _SEPARATION, _BETA, times, embedding_rate=_PAIRS))
    first = runs[0]
    matched = [int(np.argmax(run.margin > 0)) for run in runs]
    power = float(np.median([_power_of_ratio(run) for run in runs]))
    lemma = max(
        float(np.max(np.abs(run.inverse_temperature / run.closed_form - 1))) for run in runs
    )
    gap = first.gap_distance
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
            "power of β in R (lemma 3.1)": power,
        },
        checks=[
            *_checks_of_flows(runs, matched),
            PAPER.check("lemma_closed_form", lemma < 1e-6),
            PAPER.check("ratio_falls_as_printed", abs(power + 1) < 0.1),
        ],
        data={
            # The later times look alike.
            "times": times[times <= 8],
            "gap Δ": gap[times <= 8],
            "temperature τ": 1 / first.inverse_temperature[times <= 8],
            "matched": float(times[matched[0]]),
            "shown": [{"time": float(times[k]), "X": first.X[k], "Y": first.Y[k]} for k in shown],
        },
    )


def _checks_of_flows(runs: Sequence[Any], matched: Sequence[int]) -> list[Check]:
    """What the figure shows, each as the mean over the starts."""
    growth, at_peak, rise, slower, together = [], [], [], [], []
    for run, at in zip(runs, matched, strict=True):
        gap, temperature = run.gap_distance, 1 / run.inverse_temperature
        peak = int(np.argmax(gap))
        growth.append(gap[1] - gap[0])
        at_peak.append(run.margin[peak])
        rise.append(np.diff(gap[at:]).max())
        half = (peak + len(gap) - 1) // 2
        slower.append((gap[peak] - gap[half]) - (gap[half] - gap[-1]))
        before = slice(0, at + 1 if at else None)
        together.append(rank_correlation(gap[before], temperature[before]))
    return [
        PAPER.above("gap_grows_at_first", _mean(growth)),
        PAPER.above("all_matched_at_end", _mean([run.margin[-1] for run in runs])),
        PAPER.below("mismatched_at_peak", _mean(at_peak)),
        PAPER.below("only_falls_once_matched", _mean(rise)),
        PAPER.above("slows_down", _mean(slower)),
        PAPER.above("temperature_goes_with_gap", _mean(together)),
    ]


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values))


def _power_of_ratio(run: Any) -> float:
    """The power of β with which R of eq. 5 falls, over the late half of the run."""
    late = slice(len(run.times) // 2, None)
    gamma, beta = run.separation[late], run.inverse_temperature[late]
    ratio = 2 * gamma / (beta * (1 - gamma**2))
    return float(np.polyfit(np.log(beta), np.log(ratio), 1)[0])
