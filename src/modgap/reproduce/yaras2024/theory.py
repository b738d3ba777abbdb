"""Figure 4 of Yaras et al. 2024, with theorems 3.2 and 3.3 and the rates of appendix C."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from modgap.reproduce.entry import Check, Outcome, check
from modgap.reproduce.flickr8k.methods import CLOSURES, PRETRAINED_CLOSURES
from modgap.reproduce.flickr8k.results import FIRST
from modgap.reproduce.setting import Setting
from modgap.reproduce.statistics import falls
from modgap.reproduce.yaras2024 import PAPER

# The gap of fig. 4a is shown from this step on, when it has begun to fall.
LATE = 100
_WIDER = "share of trained starts whose gap is wider after ten steps"
_CHANGE = "mean change in ten steps of training"


@PAPER.run("fig4")
def fig4(setting: Setting) -> Outcome:
    """The flow of the theory: closure, growth, bounds and rates."""
    from modgap.simulate.flow import simple_flow

    times = np.logspace(2, 6, 120)
    slowness = -1 / np.log(times) ** 2
    gap = simple_flow(0.5, 1.0, times).gap_distance
    slope, intercept = np.polyfit(slowness, gap, 1)
    fit = float(np.corrcoef(slowness, gap)[0, 1] ** 2)
    growth, limit = _growth_at_random_starts(setting)
    measured, bounded = _bounds(setting)
    rates, scheme_data = _schemes()
    trained, trained_checks, trained_data = _trained(setting)
    measured |= rates | trained
    checks = [
        check("Δ is linear in −1/log(t)² from t = 10² to 10⁶ with R² above 0.99.", fit > 0.99),
        check("Δ only falls there.", falls(gap)),
        check("γ stays above theorem 3.2's bound.", bounded["theorem 3.2"]),
        check("The gap grows from every random start.", np.all(growth > 0)),
        check(
            "On average it grows as theorem 3.3's limit says, to a tenth.",
            abs(growth.mean() / limit - 1) < 0.1,
        ),
        check("Theorem 3.3's bound is positive and respected.", bounded["theorem 3.3"]),
        check(
            "A constant and a scheduled temperature close the gap at twice the printed rates.",
            all(
                abs(rates[f"rate over the printed one, {name}"] - 2) < 0.02
                for name in ("constant β", "linear schedule")
            ),
        ),
        check(
            "With β = ν the gap closes as exp(−log² t), to a tenth.",
            abs(rates["−log γ / log² t, β = ν"] - 1) < 0.1,
        ),
        *trained_checks,
    ]
    counts, edges = np.histogram(growth, bins=20)
    return Outcome(
        measured={
            "R² of Δ against −1/log(t)²": fit,
            "share of starts whose gap grows": float(np.mean(growth > 0)),
            "mean of 2 dγ/dt": float(growth.mean()),
            "limit of theorem 3.3": limit,
            **measured,
        },
        checks=checks,
        data={
            "slowness": slowness,
            "gap": gap,
            "line": slope * slowness + intercept,
            "edges": edges,
            "counts": counts,
            **bounded["data"],
            **scheme_data,
            "trained": trained_data,
        },
    )


def _trained(setting: Setting) -> tuple[dict[str, float], list[Check], dict[str, Any]]:
    """Parts (a) and (b) in training: the gap over a long run, and over the first ten steps."""
    runs, from_scratch = setting.runs(), setting.runs_from_scratch()
    measured: dict[str, float] = {}
    checks = []
    data: dict[str, Any] = {"closures": {}, "first": {}, "bands": {}}
    long, small = CLOSURES
    closures = {
        "ResNet-18 from scratch": from_scratch.of(long.name)[0],
        "small transformers": from_scratch.of(small.name)[0],
    }
    if runs is not from_scratch:
        closures["pretrained towers"] = runs.of(PRETRAINED_CLOSURES[0].name)[0]
    for name, run in closures.items():
        late = np.array(run["course"]["steps"]) >= LATE
        slowness = -1 / np.log(np.array(run["course"]["steps"])[late]) ** 2
        gap = np.array(run["course"]["gap"])[late]
        fit = float(np.corrcoef(slowness, gap)[0, 1] ** 2)
        measured[f"R² in training, {name}"] = fit
        measured[f"gap at step {LATE}, {name}"] = float(gap[0])
        measured[f"gap at the end, {name}"] = float(gap[-1])
        checks.append(
            check(f"In training Δ is linear in −1/log(t)², R² above 0.9 ({name}).", fit > 0.9)
        )
        data["closures"][name] = {"slowness": slowness, "gap": gap}
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
        checks += [
            check(
                f"The gap of every trained start is wider after {count} ({rate}).",
                np.all(change[:, step] > 0),
            )
            for step, count in ((1, "one step"), (10, "ten steps"))
        ]
        data["steps"] = np.arange(gaps.shape[1])
        data["first"][rate] = change.mean(0)
        data["bands"][rate] = (change.min(0), change.max(0))
    return measured, checks, data


def _growth_at_random_starts(setting: Setting) -> tuple[np.ndarray, float]:
    """2 dγ/dt at a hundred random starts, and its limit for many pairs."""
    from modgap.simulate.flow_theory import initial_growth, initial_growth_bound

    n, dim = (2048, 1024) if setting.full else (512, 64)
    # CLIP's first temperature; a gap as at its start.
    beta, gamma = 1 / 0.07, 0.4
    growth = []
    for k in range(100):
        setting.say("growth at random starts", k, 100)
        X, Y = np.random.default_rng([setting.seed, k]).normal(size=(2, n, dim))
        growth.append(initial_growth(X, Y, gamma, beta))
    return np.array(growth), initial_growth_bound(dim, gamma, beta)


def _bounds(setting: Setting) -> tuple[dict[str, float], dict[str, Any]]:
    """Theorem 3.2 along a matched flow, theorem 3.3 where its bound is positive."""
    from modgap.simulate.flow import gap_flow
    from modgap.simulate.flow_theory import (
        initial_growth,
        initial_growth_bound,
        separation_bound,
    )

    times = np.concatenate([[0.0], np.logspace(-2, 9, 60)])
    run = gap_flow(np.eye(8), np.eye(8), 0.25, 20.0, times, free=False)
    bound = separation_bound(times, 0.25, 20.0, margin=1.0, n=8)
    rng = np.random.default_rng([setting.seed, 1000])
    X, Y = rng.normal(size=(2, 8000, 3))
    growth, least = initial_growth(X, Y, 0.3, 1.0), initial_growth_bound(3, 0.3, 1.0, n=8000)
    measured = {
        "γ over theorem 3.2's bound, least": float(np.min(run.separation / bound.separation)),
        "theorem 3.3's bound (d 3, β₀ 1, γ₀ 0.3, n 8,000)": least,
        "2 dγ/dt there": growth,
    }
    late = times > 0
    return measured, {
        "theorem 3.2": bool(np.all(run.separation >= bound.separation * (1 - 1e-9))),
        "theorem 3.3": 0 < least <= growth,
        "data": {
            "bound_times": times[late],
            "separation": run.separation[late],
            "bound": bound.separation[late],
        },
    }


def _schemes() -> tuple[dict[str, float], dict[str, Any]]:
    """Appendix C: how fast γ closes when the temperature is written or set otherwise."""
    from modgap.simulate.flow import linear_schedule, simple_flow
    from modgap.simulate.flow_theory import decay_rate

    end = 200.0
    fixed, ramp = (lambda t: 2.0), linear_schedule(1.0, 3.0, end)
    rates = {}
    for name, schedule, printed in (
        ("constant β", fixed, decay_rate(2.0) / 2),
        ("linear schedule", ramp, decay_rate(1.0, 3.0) / 2),
    ):
        # Once γ is small; at first the flow is faster, by its 1 − γ².
        run = simple_flow(1e-3, 1.0, [0, end], schedule=schedule)
        rates[f"rate over the printed one, {name}"] = float(
            -np.diff(run.log_separation)[0] / end / printed
        )
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
