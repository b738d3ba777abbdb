"""Train every recipe on Flickr8k, three seeds each.

    python -m modgap.reproduce.flickr8k flickr8k-112.parquet -o runs [--part 0/2] [--only NAME]

Each run leaves one small JSON file below the folder; one that is there already is not repeated,
so parts can go on beside each other and after an interruption. With --gather they are put
together in one results.json, which `modgap reproduce --trained results.json` compares with the
papers.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from modgap._files import write_text
from modgap._results import to_json
from modgap.reproduce.flickr8k import training
from modgap.reproduce.flickr8k.methods import CLOSURES, FIRST_STEPS, RECIPES, SEEDS, Recipe
from modgap.reproduce.flickr8k.results import FIRST, gather
from modgap.reproduce.flickr8k.transfer import FASHION, digits_task, fashion_task
from modgap.train.config import DataConfig
from modgap.train.data import Data, load_data

# Settings that say which data is needed, and the function that takes it.
Work = tuple[Sequence[str], Callable[[Data], dict[str, Any]]]


def main() -> None:
    """Run what is not there yet of this part."""
    parser = argparse.ArgumentParser(
        prog="python -m modgap.reproduce.flickr8k", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("data", type=Path, help="the Parquet file of photos and captions")
    parser.add_argument("-o", "--output", type=Path, default=Path("runs"))
    parser.add_argument("--part", default="0/1", help="this part of so many, 0/2 for instance")
    parser.add_argument("--only", action="append", default=[], help="recipes to train")
    parser.add_argument("--set", action="append", default=[], help="a setting for every run")
    parser.add_argument("--fashion", type=Path, default=FASHION, help="folder of Fashion-MNIST")
    parser.add_argument("--gather", action="store_true", help="put all metrics in one file")
    given = parser.parse_args()
    part, parts = (int(number) for number in given.part.split("/"))
    given.output.mkdir(parents=True, exist_ok=True)
    loaded: dict[DataConfig, Data] = {}
    for name, (settings, run) in list(work(given).items())[part::parts]:
        path = given.output / f"{name}.json"
        if path.exists():
            continue
        wanted = training.config_of(given.data, 0, settings).data
        if wanted not in loaded:
            loaded[wanted] = load_data(wanted)
        found = training.as_numbers(run(loaded[wanted]))
        write_text(path, to_json(found) + "\n")
        told = found.get("metrics", {})
        print(json.dumps({"run": name, "seconds": found["seconds"], **brief(told)}), flush=True)
    if given.gather:
        print(gather(given.output, given.output / "results.json"))


def work(given: argparse.Namespace) -> dict[str, Work]:
    """Every run by its name; the first seed of each recipe comes before the second."""
    tasks = [digits_task(), fashion_task(given.fashion)]
    names = given.only or [*RECIPES, *(recipe.name for recipe in CLOSURES), FIRST]
    found: dict[str, Work] = {}
    for seed in SEEDS:
        for recipe in (RECIPES[name] for name in names if name in RECIPES):
            recipe = Recipe(recipe.name, (*recipe.settings, *given.set), recipe.after)
            found[f"{recipe.file}-{seed}"] = (
                recipe.settings,
                partial(
                    training.run_recipe, recipe, seed, given.data, tasks=tasks, folder=given.output
                ),
            )
    for recipe in CLOSURES:
        if recipe.name in names:
            found[f"{recipe.file}-{SEEDS[0]}"] = (
                recipe.settings,
                partial(training.run_closure, recipe, SEEDS[0], given.data, folder=given.output),
            )
    if FIRST in names:
        for rate, count in FIRST_STEPS.items():
            found[f"first-steps-{rate:g}"] = (
                (),
                partial(training.run_first_steps, given.data, rate=rate, count=count),
            )
    return found


def brief(metrics: dict[str, float]) -> dict[str, float]:
    """What is worth a line while it runs."""
    names = ("gap_distance", "image_retrieval_recall@1", "fashion_linear_probe", "loss")
    return {name: metrics[name] for name in names if name in metrics}


if __name__ == "__main__":
    main()
