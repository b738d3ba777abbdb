"""Soft assignments come into balance; initial clusters are tight; nearer is safer (6, 7, 12)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from modgap import plot
from modgap.reproduce.chowers2026 import PAPER
from modgap.reproduce.chowers2026.descent import told
from modgap.reproduce.entry import Number, Outcome, check
from modgap.reproduce.flickr8k.results import FIRST
from modgap.reproduce.setting import Setting
from modgap.reproduce.threads import one_thread
from modgap.simulate.cone_initialisations import compare_cones, random_rows
from modgap.simulate.cone_networks import Network
from modgap.simulate.dynamics import descend
from modgap.simulate.dynamics_start import make_clusters
from modgap.simulate.noise import pair_robustness

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BINS = 30
STARTS = 50


@PAPER.draw("fig6")
def _draw_assumptions(outcome: Outcome) -> Figure:
    data = outcome.data
    figure, axes = plot.panels(3, columns=3, size=(3.9, 3.2))
    plot.curves(
        data["steps"],
        data["variances"],
        xlabel="step",
        ylabel="variance of $S_i$",
        log="xy",
        title="soft assignments",
        ax=axes[0],
    )
    plot.histograms(
        data["edges"],
        data["counts"],
        xlabel="distance",
        density=False,
        title="random initialisations, digits",
        ax=axes[1],
    )
    plot.histograms(
        data["edges"],
        data["photo_counts"],
        xlabel="distance",
        density=False,
        title="random initialisations, Flickr8k",
        ax=axes[2],
    )
    return figure


@PAPER.run("fig6")
def _assumptions(setting: Setting) -> Outcome:
    X, Y = make_clusters(100, 2, gap=1.0, spread=0.1, seed=setting.seed)
    run = descend(X, Y, 0.1, 2000, 0.01, progress=told(setting, "descent"))
    variances = {"X": run.assignments_std_x**2, "Y": run.assignments_std_y**2}
    count, n = (50, 500) if setting.full else (8, 60)
    sides = []
    kinds: tuple[Network, ...] = ("vit", "transformer")
    for done, kind in enumerate(kinds):
        setting.say(f"{count} random {kind} towers", done, 2)
        # Seeds of their own, so that no two towers share their random numbers.
        first = setting.seed + 1000 * done
        with one_thread():
            sides.append(compare_cones(random_rows(kind, "digits", count, n, seed=first)))
    gaps = np.linalg.norm(sides[0].centres - sides[1].centres, axis=1)
    widths = {"scans to their mean": sides[0].radius, "captions to their mean": sides[1].radius}
    starts = max((run["starts"] for run in setting.runs().of(FIRST)), key=len)[:STARTS]
    photo_gaps = np.array([start["gap"][0] for start in starts])
    photo_widths = {
        f"{name}s to their mean": np.array([start["width"][name] for start in starts])
        for name in ("image", "text")
    }
    edges = np.linspace(0, max(2.0, float(gaps.max())), 41)
    spread = {"gap": gaps, **widths}
    photo_spread = {"gap": photo_gaps, **photo_widths}
    measured: dict[str, Number] = {
        "variance of S_i at the start": float(max(v[0] for v in variances.values())),
        "variance of S_i at the end": float(max(v[-1] for v in variances.values())),
        "random initialisations": count,
        "least gap": float(gaps.min()),
        "largest distance of scans to their mean": float(sides[0].radius.max()),
        "largest distance of captions to their mean": float(sides[1].radius.max()),
        "random initialisations, Flickr8k": len(starts),
        "least gap, Flickr8k": float(photo_gaps.min()),
        **{f"largest distance of {name}, Flickr8k": float(width.max())
           for name, width in photo_widths.items()},
        "least ratio of gap and distance, Flickr8k": float(
            min((photo_gaps / width).min() for width in photo_widths.values())
        ),
    }  # fmt: skip
    return Outcome(
        measured,
        (
            check(
                "The variance of S_i falls below a thousandth of its start, in both modalities.",
                all(v[-1] < 1e-3 * v[0] for v in variances.values()),
            ),
            check(
                "The mean of S_i is 1 throughout.",
                np.allclose([run.assignments_mean_x, run.assignments_mean_y], 1),
            ),
            check(
                "In every initialisation the gap is more than twice as long as the rows of "
                "either modality are from their mean.",
                all(np.all(gaps > 2 * radius) for radius in widths.values()),
            ),
            check(
                "On Flickr8k it is more than one and a half times as long in every one.",
                all(np.all(photo_gaps > 1.5 * width) for width in photo_widths.values()),
            ),
        ),
        {
            "steps": run.steps[1:],
            "variances": {name: v[1:] for name, v in variances.items()},
            "edges": edges,
            "counts": {name: np.histogram(v, edges)[0] for name, v in spread.items()},
            "photo_counts": {name: np.histogram(v, edges)[0] for name, v in photo_spread.items()},
        },
    )


@PAPER.draw("fig7")
def _draw_nearer(outcome: Outcome) -> Figure:
    data = outcome.data
    figure, axes = plot.panels(2, columns=2, size=(4.2, 3.2))
    plot.scatter(
        data["points"],
        xlabel="along the line of texts",
        ylabel="along the gap",
        title="noise turns the boundary",
        ax=axes[0],
    )
    plot.curves(
        data["gaps"],
        data["kept"],
        xlabel="distance to the texts along the gap",
        ylabel="probability of the same text",
        marks=data["drawn"],
        title="two texts, one query",
        ax=axes[1],
    )
    return figure


@PAPER.run("fig7")
def _nearer(setting: Setting) -> Outcome:
    first, second, std = np.array([0.5, 0.0]), np.array([-0.5, 0.0]), 0.2
    gaps = np.linspace(0, 3, 21)
    queries = np.stack([np.full_like(gaps, 0.3), gaps], axis=1)
    kept = {
        name: np.array([pair_robustness(q, first, second, std, centred=c) for q in queries])
        for name, c in (("mean of the noise removed (th. 3.4)", True), ("plain noise", False))
    }
    rng = np.random.default_rng(setting.seed)
    draws = 1_000_000 if setting.full else 20_000
    noise = rng.normal(scale=std, size=(2, draws, 2))
    at = np.arange(0, 21, 5)
    drawn: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    farthest = 0.0
    for name, centred in zip(kept, (True, False), strict=True):
        moved = noise - noise.mean(axis=0) if centred else noise
        shares = []
        for query in queries[at]:
            squares = [
                ((x + e - query) ** 2).sum(axis=1)
                for x, e in zip((first, second), moved, strict=True)
            ]
            shares.append(float(np.mean(squares[0] < squares[1])))
        drawn[name] = (gaps[at], np.array(shares))
        farthest = max(farthest, float(np.abs(kept[name][at] - shares).max()))
    centred_kept = kept["mean of the noise removed (th. 3.4)"]
    near, far = queries[3], queries[-1]
    measured: dict[str, Number] = {
        "the probability rises as the query comes nearer": (
            "yes" if np.all(np.diff(centred_kept) < 0) else "no"
        ),
        "probability at the texts": float(centred_kept[0]),
        "probability at a gap of 3": float(centred_kept[-1]),
        "probability at the texts, plain noise": float(kept["plain noise"][0]),
        "probability at a gap of 3, plain noise": float(kept["plain noise"][-1]),
        "largest distance of formula and draws": farthest,
    }
    # A few standard errors of a share of one half.
    allowed = 4 * 0.5 / draws**0.5
    return Outcome(
        measured,
        (
            *(
                check(
                    f"The probability rises with every step nearer: {name}.",
                    np.all(np.diff(values) < 0),
                )
                for name, values in kept.items()
            ),
            check("Formula and draws agree within four standard errors.", farthest < allowed),
        ),
        {
            "points": {
                "texts": np.stack([first, second]),
                "texts with noise": np.stack([first + noise[0, 0], second + noise[1, 0]]),
                "two images": np.stack([near, far]),
            },
            "gaps": gaps,
            "kept": kept,
            "drawn": drawn,
        },
    )


@PAPER.draw("fig12")
def _draw_balanced(outcome: Outcome) -> Figure:
    data = outcome.data
    figure, axes = plot.panels(2, columns=2, size=(4.2, 3.2))
    plot.histograms(
        data["edges"],
        data["counts"],
        xlabel="$S_i$ of both modalities",
        density=False,
        title="drawn to 1",
        ax=axes[0],
    )
    plot.curves(
        data["steps"],
        data["spreads"],
        xlabel="step",
        ylabel="standard deviation of $S_i$",
        log="xy",
        ax=axes[1],
    )
    return figure


@PAPER.run("fig12")
def _balanced(setting: Setting) -> Outcome:
    # Normalising shortens the gap: 3.3 before it is 1.8 after.
    X, Y = make_clusters(500, 64, gap=3.3, spread=0.1, sphere=True, seed=setting.seed)
    steps, rate = (2000, 0.1) if setting.full else (200, 1.0)
    kept = [0, steps // 40, steps // 20, steps // 10]
    run = descend(
        X.astype(np.float32),
        Y.astype(np.float32),
        0.1,
        steps,
        rate,
        sphere=True,
        records=30,
        snapshots=kept,
        progress=told(setting, "descent"),
    )
    sums: dict[str, Any] = {
        f"step {shot.step:,}": np.concatenate([shot.assignments_x, shot.assignments_y])
        for shot in run.snapshots
    }
    edges = np.linspace(0.4, 1.8, BINS + 1)
    spreads = {"X": run.assignments_std_x, "Y": run.assignments_std_y}
    last = float(max(v[-1] for v in spreads.values()))
    measured: dict[str, Number] = {
        "gap at the start": float(run.gap_distance[0]),
        "pairs": 500,
        "spread of S_i at the start": float(max(v[0] for v in spreads.values())),
        "spread of S_i at the end": last,
        "gap at the end": float(run.gap_distance[-1]),
    }
    return Outcome(
        measured,
        (
            check(
                "The start has the published gap, 1.8, within 0.01.",
                abs(run.gap_distance[0] - 1.8) < 0.01,
            ),
            check(
                "The spread of S_i falls from above 0.1 to below 0.01.",
                min(v[0] for v in spreads.values()) > 0.1 and last < 0.01,
            ),
        ),
        {
            "edges": edges,
            "counts": {k: np.histogram(np.clip(v, 0.4, 1.8), edges)[0] for k, v in sums.items()},
            "steps": run.steps[1:],
            "spreads": {name: v[1:] for name, v in spreads.items()},
        },
    )
