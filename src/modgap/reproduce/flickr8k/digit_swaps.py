"""Train the towers of the digits with whole rows swapped at several shares of the steps.

    python -m modgap.reproduce.flickr8k.digit_swaps -o runs

Yaras et al. give no share for their swap of features. Towers this small need half a minute each.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from tempfile import TemporaryDirectory

from modgap.core.files import write_text
from modgap.reproduce.flickr8k.methods import BASELINE, SEEDS, Recipe
from modgap.reproduce.flickr8k.results import GAP, ROW_SHARES, WHOLE_GAP, rows_swapped
from modgap.reproduce.flickr8k.training import as_numbers
from modgap.reproduce.runs import gather
from modgap.train import load_config, train

RECIPES = (
    Recipe(BASELINE),
    Recipe("HS 1", ("swap.kind=hard", "swap.probability=1")),
    *(
        Recipe(rows_swapped(share), ("swap.kind=feature", f"swap.probability={share:g}"))
        for share in ROW_SHARES
    ),
)


def main() -> None:
    """Train what is not there yet, and put all in one file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("-o", "--output", type=Path, default=Path("runs"))
    folder = parser.parse_args().output
    folder.mkdir(parents=True, exist_ok=True)
    for recipe in RECIPES:
        for seed in SEEDS:
            file = folder / f"{recipe.file}-{seed}.json"
            if not file.exists():
                write_text(file, json.dumps(as_numbers(run_of_digits(recipe, seed))) + "\n")
                print(file, flush=True)
    print(gather(folder, folder / "results.json"))


def run_of_digits(recipe: Recipe, seed: int) -> dict[str, object]:
    """A run of the preset of the digits with the settings of a recipe."""
    quiet = ("train.loggers=[]", "train.checkpoint_every=100000", f"train.seed={seed}")
    config = load_config("digits", [*quiet, *recipe.settings])
    with TemporaryDirectory() as folder:
        result = train(config, output=Path(folder))
    metrics = result.evaluation.flat()
    return {
        "recipe": recipe.name,
        "seed": seed,
        "settings": list(recipe.settings),
        "metrics": {name: metrics[name] for name in (GAP, WHOLE_GAP)},
        "seconds": result.seconds,
    }


if __name__ == "__main__":
    main()
