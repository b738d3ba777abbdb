"""The page's sizes and times: how heavy it is, how soon it is there, how smoothly it moves.

    python benchmarks/page.py [--write] [--rows 100000]

Needs Chromium and ``modgap[all]``. Writing the page runs in a process of its own, whose peak
memory is the whole process's; the browser's times are medians. Fails when a limit is passed.
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import date
from pathlib import Path

import numpy as np

from mixed import write_into

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests"))


def make_files(folder: Path, rows: int, dim: int) -> list[str]:
    """Two modalities that share a latent, each with its own offset."""
    rng = np.random.default_rng(0)
    mix = rng.normal(size=(64, dim)).astype(np.float32) / 8
    latent = rng.normal(size=(rows, 64)).astype(np.float32)
    paths = []
    for name in ("image", "text"):
        A = latent @ mix + 0.6 * rng.normal(size=(rows, dim)).astype(np.float32)
        A += 1.5 * rng.normal(size=dim).astype(np.float32)
        np.save(folder / f"{name}.npy", A / np.linalg.norm(A, axis=1, keepdims=True))
        paths.append(str(folder / f"{name}.npy"))
    return paths


def write_page(folder: Path, rows: int, dim: int) -> tuple[Path, float, float]:
    """Seconds and peak megabytes of ``modgap report`` on new files."""
    paths = make_files(folder, rows, dim)
    page = folder / f"page-{rows}.html"
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    start = time.perf_counter()
    command = [sys.executable, "-m", "modgap", "report", *paths, "-o", str(page), "--no-umap"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    took = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return page, took, max(before, peak) / 1024


# From the change of the slider to the frame after the points have moved.
STEP = """() => new Promise(done => {
  const slider = document.querySelector('#slider'), times = [];
  const one = () => {
    slider.value = (Number(slider.value) + 1) % (Number(slider.max) + 1);
    const start = performance.now();
    slider.dispatchEvent(new Event('input', {bubbles: true}));
    requestAnimationFrame(() => requestAnimationFrame(() => {
      times.push(performance.now() - start);
      times.length < 30 ? one() : done(times);
    }));
  };
  one();
})"""


def look_at(page: Path) -> tuple[float, float, float]:
    """Seconds to the first picture, and milliseconds of a slider step: median and worst."""
    from browser import opened

    firsts = []
    with opened() as browser:
        for _ in range(3):
            tab = browser.new_page(viewport={"width": 1440, "height": 1000})
            start = time.perf_counter()
            tab.goto(page.as_uri(), wait_until="commit")
            tab.wait_for_selector("html[data-ready=true]", state="attached")
            firsts.append(time.perf_counter() - start)
            steps = tab.evaluate(STEP)
            tab.close()
    return statistics.median(firsts), statistics.median(steps), max(steps)


def main() -> None:
    """Measure, print and compare with the limits."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--write", action="store_true", help="put the table into README.md")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        few, _, _ = write_page(folder, 5_000, 512)
        size = few.stat().st_size / 1e6
        first, step, worst = look_at(few)
        _, took, memory = write_page(folder, given.rows, 512)
    lines = [
        ("size of the page of 5,000 pairs × 512", size, "MB", 8),
        ("first picture after opening it", first, "s", 3),
        ("a slider step, median", step, "ms", 100),
        ("a slider step, worst of 30", worst, "ms", 100),
        (f"`modgap report` on {given.rows:,} pairs × 512", took, "s", 60),
        ("its peak memory", memory / 1000, "GB", 2),
    ]
    machine = f"{os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}"
    table = [f"{date.today()}: {machine}.", "", "| what | measured | limit |", "|---|--:|--:|"]
    table += [f"| {what} | **{v:.3g}** {unit} | {limit} {unit} |" for what, v, unit, limit in lines]
    print("\n".join(table))
    if given.write:
        write_into(HERE / "README.md", "page", "\n".join(table))
    passed = [what for what, value, _, limit in lines if value > limit]
    if passed:
        sys.exit(f"over the limit: {', '.join(passed)}")


if __name__ == "__main__":
    main()
