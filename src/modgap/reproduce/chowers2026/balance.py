"""Soft assignments come into balance, and initial clusters are tight (figs 6, 12)."""

from __future__ import annotations

import numpy as np

from modgap.reproduce.chowers2026 import PAPER
from modgap.reproduce.chowers2026.descent import SMALL, clusters, on_sphere
from modgap.reproduce.drawing import bin_counts
from modgap.reproduce.entry import Number, Outcome
from modgap.reproduce.flickr8k.results import FIRST
from modgap.reproduce.setting import Setting
from modgap.reproduce.statistics import mean_interval
from modgap.reproduce.threads import one_thread
from modgap.simulate.cone_initialisations import compare_cones, random_rows
from modgap.simulate.cone_networks import Network
from modgap.simulate.dynamics import descend

# Of the paper.
STARTS = 50


@PAPER.run("fig6")
def fig6(setting: Setting) -> Outcome:
    """The variance of S_i under descent; gaps and widths of random initialisations."""
    X, Y = clusters(setting, "start", 100, 2, 1.0, 0.1)
    run = descend(X, Y, 0.1, 2000, progress=setting.steps("descent"))
    variances = {"X": run.assignments_std_x**2, "Y": run.assignments_std_y**2}
    means = run.assignments_mean_x, run.assignments_mean_y
    count, n = (STARTS, 500) if setting.full else (5, 60)
    sides = []
    kinds: tuple[Network, ...] = ("vit", "transformer")
    for done, kind in enumerate(kinds):
        setting.say(f"{count} random {kind} towers", done, 2)
        # Seeds of their own, so that no two towers share their random numbers.
        first = setting.seed * count + 1000 * done
        with one_thread():
            rows = random_rows(kind, "digits", count, n, seed=first)
            sides.append(compare_cones(setting.read(kind, rows)))
    gaps = np.linalg.norm(sides[0].centres - sides[1].centres, axis=1)
    widths = {"scans to their mean": sides[0].radius, "captions to their mean": sides[1].radius}
    runs = setting.runs_from_scratch().of(FIRST)
    starts = setting.read("starts", max((run["starts"] for run in runs), key=len)[:STARTS])
    photo_gaps = np.array([start["gap"][0] for start in starts])
    photo_widths = {
        f"{name}s to their mean": np.array([start["width"][name] for start in starts])
        for name in ("image", "text")
    }
    ratios = gaps / np.maximum(*widths.values())
    photo_ratios = photo_gaps / np.maximum(*photo_widths.values())
    measured: dict[str, Number] = {
        "variance of S_i at the start": max(v[0] for v in variances.values()),
        "variance of S_i at the end": max(v[-1] for v in variances.values()),
        "random initialisations": count,
        "least gap": float(gaps.min()),
        **{f"largest distance of {name}": float(v.max()) for name, v in widths.items()},
        "random initialisations, Flickr8k": len(starts),
        "least gap, Flickr8k": photo_gaps.min(),
        **{f"largest distance of {name}, Flickr8k": v.max() for name, v in photo_widths.items()},
        "least ratio of gap and distance, Flickr8k": min(
            (photo_gaps / v).min() for v in photo_widths.values()
        ),
    }
    edges = np.linspace(0, max(2.0, float(gaps.max())), 41)
    return Outcome(
        measured,
        [
            PAPER.below(
                "assignments_balance", float(max(v[-1] / v[0] for v in variances.values())), SMALL
            ),
            PAPER.check("assignments_mean_1", np.allclose(means, 1)),
            PAPER.above("start_apart_on_digits", float(np.mean(ratios)), 1.0),
            PAPER.above("start_apart_on_flickr8k", mean_interval(photo_ratios), 1.0),
        ],
        {
            "steps": run.steps[1:],
            "variances": {name: v[1:] for name, v in variances.items()},
            **bin_counts({"gap": gaps, **widths}, edges),
            "photo_counts": bin_counts({"gap": photo_gaps, **photo_widths}, edges)["counts"],
        },
    )


@PAPER.run("fig12")
def fig12(setting: Setting) -> Outcome:
    """The sums of soft assignments of both modalities at four steps."""
    # Normalising shortens the gap: 3.3 before it is 1.8 after.
    X, Y = on_sphere(setting, "start", 500, 64, gap=3.3, spread=0.1)
    steps, rate = (2000, 0.1) if setting.full else (80, 1.0)
    kept, progress = [0, steps // 40, steps // 20, steps // 10], setting.steps("descent")
    run = descend(
        X, Y, 0.1, steps, rate, sphere=True, records=30, snapshots=kept, progress=progress
    )
    low, high = 0.4, 1.8
    sums = {
        f"step {shot.step:,}": np.clip([shot.assignments_x, shot.assignments_y], low, high)
        for shot in run.snapshots
    }
    spreads = {"X": run.assignments_std_x, "Y": run.assignments_std_y}
    last, lower = max(v[-1] for v in spreads.values()), float(run.loss[-1] / run.loss[0])
    means = run.assignments_mean_x, run.assignments_mean_y
    measured: dict[str, Number] = {
        "gap at the start": run.gap_distance[0],
        "pairs": 500,
        "spread of S_i at the start": max(v[0] for v in spreads.values()),
        "spread of S_i at the end": last,
        "gap at the end": run.gap_distance[-1],
        "loss at the end over that at the start": lower,
    }
    return Outcome(
        measured,
        [
            PAPER.check("published_start", abs(run.gap_distance[0] - 1.8) < 0.01),
            PAPER.check("assignments_mean_1", np.allclose(means, 1, atol=1e-5)),
            PAPER.check(
                "assignments_follow_loss", last < SMALL * spreads["X"][0] and lower < SMALL
            ),
        ],
        {
            **bin_counts(sums, np.linspace(low, high, 31)),
            "steps": run.steps[1:],
            "spreads": {name: v[1:] for name, v in spreads.items()},
        },
    )
