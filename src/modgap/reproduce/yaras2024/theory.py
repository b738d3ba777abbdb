"""Figures 2 and 4 of Yaras et al. 2024: the flow of the gap, lemma 3.1, theorems 3.2 and 3.3."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from modgap.reproduce.checks import Check, resting_on
from modgap.reproduce.entry import Number, Outcome
from modgap.reproduce.flickr8k.methods import CLOSURES, PRETRAINED_CLOSURES
from modgap.reproduce.flickr8k.results import FIRST, Runs
from modgap.reproduce.setting import Setting
from modgap.reproduce.statistics import falls, mean_interval, rank_correlation
from modgap.reproduce.yaras2024 import PAPER
from modgap.simulate.flow import gap_flow, linear_schedule, simple_flow
from modgap.simulate.flow_theory import (
    decay_rate,
    initial_growth,
    initial_growth_bound,
    separation_bound,
)

# The paper gives no sizes for its synthetic run; twelve pairs on a circle can be looked at.
_PAIRS, _SEPARATION, _BETA = 12, 0.2, 5.0
_SHOWN_AT = (0.0, 0.3, 4.0, 20.0)
# The gap of fig. 4a is shown from this step on, when it has begun to fall.
LATE = 100
_WIDER = "share of trained starts whose gap is wider after ten steps"
_CHANGE = "mean change in ten steps of training"
OVER_PRINTED = "rate over the printed one, "


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


@PAPER.run("fig4")
def fig4(setting: Setting) -> Outcome:
    """The flow of the theory: closure, growth, bounds and rates; and training."""
    slowness, gap = _closure()
    slope, intercept = np.polyfit(slowness, gap, 1)
    fit = float(np.corrcoef(slowness, gap)[0, 1] ** 2)
    growth, limit = _growth_at_random_starts(setting)
    bound_of_32, bound_data = _separation_and_bound()
    # Theorem 3.3 where its bound is positive: the bound, and 2 dγ/dt.
    least = initial_growth_bound(3, 0.3, 1.0, n=8000)
    X, Y = np.random.default_rng([setting.seed, 1000]).normal(size=(2, 8000, 3))
    there = initial_growth(X, Y, 0.3, 1.0)
    rates, scheme_data = _schemes()
    trained, trained_checks, trained_data = _trained(setting)
    power = rates["−log γ / log² t, β = ν"]
    checks = [
        *trained_checks,
        # What the theorems imply, worked out with numbers.
        PAPER.check("closure_linear", fit > 0.99),
        PAPER.check("closure_falls", falls(gap)),
        PAPER.check("theorem_32_respected", bound_of_32 >= 1 - 1e-9),
        PAPER.check("flow_grows_at_random_starts", np.all(growth > 0)),
        PAPER.check("growth_as_limit", abs(growth.mean() / limit - 1) < 0.1),
        PAPER.check("theorem_33_respected", 0 < least <= there),
        PAPER.check("linear_closes_as_said", abs(power - 1) < 0.1),
        *(
            PAPER.check(
                "rate_as_printed", abs(rates[f"{OVER_PRINTED}{name}"] - 1) < 0.01, name=name
            )
            for name in ("constant β", "linear schedule")
        ),
    ]
    counts, edges = np.histogram(growth, bins=20)
    return Outcome(
        measured={
            "R² of Δ against −1/log(t)²": fit,
            "share of starts whose gap grows": float(np.mean(growth > 0)),
            "mean of 2 dγ/dt": float(growth.mean()),
            "limit of theorem 3.3": limit,
            "γ over theorem 3.2's bound, least": bound_of_32,
            "theorem 3.3's bound (d 3, β₀ 1, γ₀ 0.3, n 8,000)": least,
            "2 dγ/dt there": there,
            **rates,
            **trained,
        },
        checks=checks,
        data={
            "slowness": slowness,
            "gap": gap,
            "line": slope * slowness + intercept,
            "edges": edges,
            "counts": counts,
            **bound_data,
            **scheme_data,
            "trained": trained_data,
        },
    )


def _trained(setting: Setting) -> tuple[dict[str, Number], list[Check], dict[str, Any]]:
    """Parts (a) and (b) in training: the gap over a long run, and over the first ten steps."""
    runs, from_scratch = setting.runs(), setting.runs_from_scratch()
    closing, closing_check, closures = _trained_closures(runs, from_scratch)
    data: dict[str, Any] = {"closures": closures, "first": {}, "bands": {}}
    measured, checks = closing, [closing_check]
    for run in sorted(from_scratch.of(FIRST), key=lambda run: run["rate"]):
        gaps = np.array([start["gap"] for start in run["starts"]])
        change = gaps - gaps[:, :1]
        rate = f"rate {run['rate']:g}"
        metrics = {
            "starts": len(gaps),
            "share of trained starts whose gap is wider after one step": np.mean(change[:, 1] > 0),
            _WIDER: np.mean(change[:, -1] > 0),
            _CHANGE: change[:, -1].mean(),
            "mean of the largest change": change.max(1).mean(),
        }
        measured |= {f"{name}, {rate}": float(value) for name, value in metrics.items()}
        warmed = PAPER.above("warmed_up", float(run.get("warmup_steps", 0)), rate=rate)
        wider = {"one step": mean_interval(change[:, 1]), "ten steps": mean_interval(change[:, 10])}
        of_first_steps = [
            *(
                PAPER.above("wider_after_steps", more, count=count, rate=rate)
                for count, more in wider.items()
            ),
            PAPER.check("wider_from_every_start", np.all(change[:, 10] > 0), rate=rate),
        ]
        checks += resting_on(warmed, of_first_steps)
        data["steps"] = np.arange(gaps.shape[1])
        data["first"][rate] = change.mean(0)
        data["bands"][rate] = (change.min(0), change.max(0))
    return measured, checks, data


def _trained_closures(
    runs: Runs, from_scratch: Runs
) -> tuple[dict[str, Number], Check, dict[str, Any]]:
    """Part (a): how far a falling line in −1/log(t)² explains the gap of each long run."""
    long, small = CLOSURES
    found = {
        "ResNet-18 from scratch": from_scratch.of(long.name)[0],
        "small transformers": from_scratch.of(small.name)[0],
    }
    if runs is not from_scratch:
        found["pretrained towers"] = runs.of(PRETRAINED_CLOSURES[0].name)[0]
    measured: dict[str, Number] = {}
    drawn: dict[str, Any] = {}
    explained = []
    for name, run in found.items():
        steps, gap = (np.array(run["course"][kind]) for kind in ("steps", "gap"))
        late = steps >= LATE
        slowness, gap = -1 / np.log(steps[late]) ** 2, gap[late]
        correlation = float(np.corrcoef(slowness, gap)[0, 1])
        explained.append(-correlation * abs(correlation))
        measured |= {
            f"R² in training, {name}": correlation**2,
            f"rises or falls, {name}": "falls" if correlation < 0 else "rises",
            f"gap at step {LATE}, {name}": float(gap[0]),
            f"gap at the end, {name}": float(gap[-1]),
        }
        drawn[name] = {"slowness": slowness, "gap": gap}
    judged = PAPER.above("falling_line_explains", mean_interval(explained), 0.5)
    return measured, judged, drawn


def _growth_at_random_starts(setting: Setting) -> tuple[np.ndarray, float]:
    """2 dγ/dt at random starts, and its limit for many pairs."""
    n, dim, starts = (2048, 1024, 100) if setting.full else (512, 64, 10)
    # CLIP's first temperature; a gap as at its start.
    beta, gamma = 1 / 0.07, 0.4
    growth = []
    for k in range(starts):
        setting.say("growth at random starts", k, starts)
        X, Y = np.random.default_rng([setting.seed, k]).normal(size=(2, n, dim))
        growth.append(initial_growth(X, Y, gamma, beta))
    return np.array(growth), initial_growth_bound(dim, gamma, beta)


@cache
def _closure() -> tuple[np.ndarray, np.ndarray]:
    """−1/log(t)² and the gap of the simplified flow, from t = 10² to 10⁶."""
    times = np.logspace(2, 6, 120)
    return -1 / np.log(times) ** 2, simple_flow(0.5, 1.0, times).gap_distance


@cache
def _separation_and_bound() -> tuple[float, dict[str, Any]]:
    """Theorem 3.2 along a matched flow: γ over its bound where it is least, and both."""
    times = np.concatenate([[0.0], np.logspace(-2, 9, 60)])
    run = gap_flow(np.eye(8), np.eye(8), 0.25, 20.0, times, free=False)
    bound = separation_bound(times, 0.25, 20.0, margin=1.0, n=8)
    late = times > 0
    return float(np.min(run.separation / bound.separation)), {
        "bound_times": times[late],
        "separation": run.separation[late],
        "bound": bound.separation[late],
    }


@cache
def _schemes() -> tuple[dict[str, float], dict[str, Any]]:
    """Appendix C: how fast γ closes when the temperature is written or set otherwise."""
    end = 200.0
    fixed, ramp = (lambda t: 2.0), linear_schedule(1.0, 3.0, end)
    rates = {}
    for name, schedule, printed in (
        ("constant β", fixed, decay_rate(2.0) / 2),
        ("linear schedule", ramp, decay_rate(1.0, 3.0) / 2),
    ):
        # Once γ is small; at first the flow is faster, by its 1 − γ².
        run = simple_flow(1e-3, 1.0, [0, end], schedule=schedule)
        rates[f"{OVER_PRINTED}{name}"] = float(-np.diff(run.log_separation)[0] / end / printed)
    far = simple_flow(0.5, 1.0, [1e40], parameterisation="linear")
    rates["−log γ / log² t, β = ν"] = float(-far.log_separation[0] / math.log(1e40) ** 2)
    times = np.logspace(0, 4, 60)
    shown = {
        "β = exp(ν)": simple_flow(0.5, 1.0, times),
        "β = ν": simple_flow(0.5, 1.0, times, parameterisation="linear"),
        "β = 2": simple_flow(0.5, 1.0, times, schedule=fixed),
    }
    return rates, {
        "scheme_times": times,
        "schemes": {name: -run.log_separation for name, run in shown.items()},
    }
