"""What is trained and in which order, how long it should take, and what still fits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from modgap.reproduce.flickr8k.methods import PRESET, PRETRAINED_PRESET, Recipe
from modgap.reproduce.runs import LongRun
from modgap.train.config_files import load_config

N_TRAIN = 6000
# Seconds of a run beside its steps, and of a step, alone on an H200. Steps wait for the launch of
# many small kernels, so that the batch hardly matters.
COSTS = {PRESET: (12.0, 0.03), PRETRAINED_PRESET: (12.0, 0.087)}


@dataclass(frozen=True, kw_only=True)
class Planned(LongRun):
    """A run of a recipe with one seed."""

    recipe: Recipe
    seed: int


def plan(runs: Sequence[tuple[Recipe, int]], preset: str, settings: Sequence[str]) -> list[Planned]:
    """The runs with their estimated seconds, in the order given."""
    found = []
    for recipe, seed in runs:
        train = load_config(preset, [*recipe.settings, *settings]).train
        fixed, each = COSTS[preset]
        seconds = fixed + each * train.total_steps(N_TRAIN)
        name = f"{recipe.file}-{seed}"
        found.append(Planned(name=name, seconds=seconds, recipe=recipe, seed=seed))
    return found


def in_words(runs: Sequence[Planned], done: Mapping[str, bool]) -> str:
    """A line for each run, and the minutes of those that are left."""
    lines, total = [], 0.0
    for place, run in enumerate(runs, start=1):
        left = not done[run.name]
        total += run.seconds if left else 0.0
        state = f"{total / 60:6.1f} min" if left else "      done"
        lines.append(
            f"{place:4d}  {state}  {run.seconds:5.0f} s  {run.recipe.name}, seed {run.seed}"
        )
    lines.append(f"{total / 60:.1f} minutes are left, one run after the other on an H200.")
    return "\n".join(lines)
