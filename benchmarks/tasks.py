"""Zero-shot and linear probes swept over corrections; the tables and figures of tasks.md.

    python benchmarks/tasks.py DATA_FOLDER [--write]

DATA_FOLDER/published holds ``imagenet-clip-b32.safetensors``, ``esc50-clap.safetensors`` and
``unsplash-clip-b32.safetensors``.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

from mixed import write_into
from modgap.tasks import TaskSweep, linear_probe_task, sweep_task, zero_shot_task
from modgap.tasks.sweep import halves_of
from zero_shot_hubs import tasks

PAGE = Path(__file__).parents[1] / "docs" / "evidence" / "tasks.md"
FIGURES = PAGE.parents[1] / "pictures" / "tasks"
HALVINGS = 100
FILES = {"ImageNet": "imagenet", "ImageNet, other wording": "imagenet-other", "ESC-50": "esc50"}
NAMES = {"ESC-50": ("audio", "text")}


def markdown(sweep: TaskSweep) -> str:
    """The table of a sweep, with the mean gain over many halvings, and what was concluded."""
    header, rows = sweep.table()
    header = (*header, f"mean of {HALVINGS} halvings", f"all of it: {sweep.outcome}")
    more = {way: (halved(sweep, way), whole(sweep, way)) for way in sweep.ways}
    lines = ["| " + " | ".join(header) + " |", "|---|" + "--:|" * (len(header) - 1)]
    lines += ["| " + " | ".join([*row, *more.get(row[0], ("", ""))]) + " |" for row in rows]
    untried = [f"- {way} was not tried: {why}" for way, why in sweep.failures.items()]
    return "\n".join([*lines, "", sweep.sentence, *([""] if untried else []), *untried])


def halved(sweep: TaskSweep, way: str) -> str:
    """The gain on one half at the amount chosen on the other, over many halvings of the items.

    A bank has no labels, so the hubs of one halving serve in all.
    """
    raw = sweep.outcomes[0]
    own = [sweep.outcomes_at(way, p.amount) for p in sweep.points if p.way == way]
    gains = []
    for seed in range(HALVINGS):
        first, second = halves_of(np.arange(sweep.n_items), seed)
        best = max(own, key=lambda outcomes: outcomes[first].mean())
        gains.append(best[second].mean() - raw[second].mean())
    return f"{np.mean(gains):+.3f} ({min(gains):+.3f} to {max(gains):+.3f})"


def whole(sweep: TaskSweep, way: str) -> str:
    """The accuracy of all items with all of the move."""
    found = [p.value.value for p in sweep.points if (p.way, p.amount) == (way, 1.0)]
    return f"{found[0]:.3f}" if found else ""


def probe(folder: Path) -> TaskSweep:
    """Half of ESC-50's sounds train, half test."""
    held = load_file(folder / "published" / "esc50-clap.safetensors")
    X, labels = held["audio"].astype(np.float32), held["labels"]
    first, second = halves_of(np.arange(len(X)), 0)
    sides = (X[first], labels[first]), (X[second], labels[second])
    return sweep_task(linear_probe_task(*sides, held["class_text"], names=("audio", "text")))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--write", action="store_true", help="put tables and figures into the page")
    options = parser.parse_args()
    held = load_file(options.folder / "published" / "unsplash-clip-b32.safetensors")
    pairs = held["image"].astype(np.float32), held["text"].astype(np.float32)
    found = {}
    for title, X, texts, labels in tasks(options.folder):
        name = FILES[title]
        task = zero_shot_task(X, texts, labels, names=NAMES.get(title, ("image", "text")))
        found[name] = title, sweep_task(task)
        if name.startswith("imagenet"):
            found[f"{name}-unsplash"] = (
                f"{title}, fitted on Unsplash",
                sweep_task(task, fit_on=pairs),
            )
    found["probe"] = "Linear probe, ESC-50", probe(options.folder)
    for name, (title, sweep) in found.items():
        content = markdown(sweep)
        print(f"\n{title}\n\n{content}", flush=True)
        if options.write:
            from modgap.plot import task_figure

            write_into(PAGE, name, content)
            FIGURES.mkdir(exist_ok=True)
            if name.endswith("unsplash"):
                continue
            task_figure(sweep, title=title).savefig(FIGURES / f"{name}.png", dpi=90)


if __name__ == "__main__":
    main()
