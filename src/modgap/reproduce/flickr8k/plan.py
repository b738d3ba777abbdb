"""What is trained and in which order, how long it should take, and what still fits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from modgap.reproduce.flickr8k.methods import PRESET, PRETRAINED_PRESET, Recipe
from modgap.train.config_files import load_config

N_TRAIN = 6000
# Seconds of a run beside its steps, and of a step, alone on an H200. Steps wait for the launch of
# many small kernels, so that the batch hardly matters.
COSTS = {PRESET: (12.0, 0.03), PRETRAINED_PRESET: (12.0, 0.087)}


@dataclass(frozen=True)
class Planned:
    """A run by the name of its file, with the seconds that it should take."""

    name: str
    recipe: Recipe
    seed: int
    seconds: float


def plan(runs: Sequence[tuple[Recipe, int]], preset: str, settings: Sequence[str]) -> list[Planned]:
    """The runs with their estimated seconds, in the order given."""
    found = []
    for recipe, seed in runs:
        train = load_config(preset, [*recipe.settings, *settings]).train
        fixed, each = COSTS[preset]
        seconds = fixed + each * train.total_steps(N_TRAIN)
        found.append(Planned(f"{recipe.file}-{seed}", recipe, seed, seconds))
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


class Budget:
    """Minutes that may be used; estimates follow what the runs before took."""

    def __init__(self, minutes: float | None, began: float) -> None:
        self.end = None if minutes is None else began + 60 * minutes
        self.factor = 1.0

    def allows(self, run: Planned, now: float) -> bool:
        """Whether a run that starts now should end in time."""
        return self.end is None or now + self.factor * run.seconds <= self.end

    def learn(self, run: Planned, seconds: float) -> None:
        """Take note of how long a run took: the mean of what was thought and what was seen."""
        self.factor = (self.factor + seconds / run.seconds) / 2
