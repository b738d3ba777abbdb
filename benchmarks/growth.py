"""How seconds and memory grow with the rows and with the columns, ours beside what people use.

    python benchmarks/growth.py [--only cone] [--scale 0.2] [--save]

Each curve runs in a process of its own, from few rows to many, and ends where its next point
would take longer than ``--point-seconds`` or more than ``--gigabytes`` of memory. Points are
printed as they are measured, and at the end of a curve its exponents: the slope of the line
through the larger points on log–log axes. ``--save`` puts all into benchmarks/results/growth.json.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from case import blocked_product, pairs
from results import FOLDER, HERE, Record, said
from timing import best_seconds, peak_megabytes, seconds

SIZES = (1_000, 2_000, 5_000, 10_000, 20_000, 50_000)
DIMENSIONS = (64, 128, 256, 512, 1_024, 2_048)
ROWS_BY_DIMENSION, USUAL = 5_000, 512
# Smaller points are launches and overhead.
FROM = {"n": 5_000, "d": 256}
CURVES = {
    "product": ["the bare product"],
    "cone": ["modgap", "scikit-learn and NumPy, full matrix"],
    "uniformity": ["modgap", "torch.pdist"],
    "loss": ["modgap", "torch, full logits"],
    "retrieval": ["modgap", "CLIP_benchmark's way"],
    "moments": ["modgap"],
    "measure": ["modgap"],
}


def run_of(of: str, by: str) -> Callable[[np.ndarray, np.ndarray], object]:
    """What a curve runs on pairs."""
    if of == "product":
        return lambda X, Y: blocked_product(X, Y)
    if by == "modgap":
        from modgap import measure, retrieval
        from modgap.measures import cone, contrastive_loss, uniformity
        from modgap.moments import Moments

        one = {"cone": cone, "uniformity": uniformity, "moments": Moments.from_batch}
        two = {"loss": contrastive_loss, "retrieval": retrieval, "measure": measure}
    else:
        import peers

        one = {"cone": peers.cone, "uniformity": peers.uniformity}
        two = {"loss": peers.loss, "retrieval": peers.recall}
    return two[of] if of in two else lambda X, Y: one[of](X)


def points(of: str, by: str, options: argparse.Namespace) -> Iterator[dict]:
    """The points of a curve, with n first and then with d."""
    run = run_of(of, by)
    sizes = [round(n * options.scale) for n in SIZES]
    few = round(ROWS_BY_DIMENSION * options.scale)
    run(*pairs(200, 64))  # imports and first calls are no part of a point
    for vary, grid in (
        ("n", [(n, USUAL) for n in sizes]),
        ("d", [(few, d) for d in DIMENSIONS]),
    ):
        before: dict | None = None
        for n, d in grid:
            if before is not None and not affordable(before, n, d, options):
                break
            found = point(run, n, d)
            before = {"of": of, "by": by, "vary": vary, "n": n, "d": d, **found}
            yield before


def point(run: Callable[[np.ndarray, np.ndarray], object], n: int, d: int) -> dict:
    X, Y = pairs(n, d)
    first: list[float] = []
    megabytes = peak_megabytes(lambda: first.append(seconds(lambda: run(X, Y))))
    if first[0] < 2:
        first.append(best_seconds({"run": lambda: run(X, Y)}, 3, budget=2.0)["run"])
    return {"seconds": min(first), "megabytes": megabytes}


def affordable(before: dict, n: int, d: int, options: argparse.Namespace) -> bool:
    larger = (n / before["n"]) ** 2 * (d / before["d"])
    room = before["megabytes"] * (n / before["n"]) ** 2 < 1000 * options.gigabytes
    return before["seconds"] * larger < options.point_seconds and (room or before["by"] == "modgap")


def exponent(rows: Sequence[dict], vary: str, what: str = "seconds") -> float | None:
    """The slope of the line through the larger points of a curve, None of fewer than two."""
    used = [(row[vary], row[what]) for row in rows if row[vary] >= FROM[vary] and row[what] > 0]
    if len(used) < 2:
        return None
    x, y = np.log(np.array(used, dtype=float)).T
    return float(np.polyfit(x, y, 1)[0])


def lines(of: str, by: str, options: argparse.Namespace) -> Iterator[dict]:
    """The rows of a curve, from a process of its own, as they come."""
    command = [sys.executable, __file__, "--child", of, by, "--scale", str(options.scale)]
    command += ["--point-seconds", str(options.point_seconds)]
    command += ["--gigabytes", str(options.gigabytes)]
    paths = [str(HERE.parent / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
    here = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=here) as child:
        assert child.stdout is not None
        for text in child.stdout:
            yield json.loads(text)
    if child.returncode:
        raise SystemExit(f"{of} by {by} ended with status {child.returncode}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=CURVES, nargs="+")
    parser.add_argument("--scale", type=float, default=1.0, help="shrink the sizes")
    parser.add_argument("--point-seconds", type=float, default=15.0)
    parser.add_argument("--gigabytes", type=float, default=4.0)
    parser.add_argument("--save", action="store_true", help="put the rows into benchmarks/results")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        for row in points(*options.child, options):
            print(json.dumps(row), flush=True)
        return
    file = FOLDER / "growth.json" if options.save else None
    record = Record("python benchmarks/growth.py", file)
    print(said(record.contents["machine"]))
    for of in options.only or CURVES:
        for by in CURVES[of]:
            curve = []
            for row in lines(of, by, options):
                record.add(row)
                curve.append(row)
                size = f"{row['n']:>7,} × {row['d']:<5,}"
                cost = f"{row['seconds']:.4g} s, {row['megabytes']:,.0f} MB"
                print(f"{of}, {by}: {size} {cost}", flush=True)
            for vary in ("n", "d"):
                slope = exponent([row for row in curve if row["vary"] == vary], vary)
                if slope is not None:
                    print(f"{of}, {by}: seconds grow as {vary}^{slope:.2f}", flush=True)


if __name__ == "__main__":
    main()
