"""Train one recipe and keep its metrics; torch comes with this module."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

from modgap._validate import InputValueError
from modgap.measures import gap_distance
from modgap.reproduce.flickr8k.methods import BASELINE, PRESET, PRETRAINED, Recipe
from modgap.reproduce.flickr8k.results import FIRST
from modgap.reproduce.flickr8k.transfer import TransferTask, transfer
from modgap.towers.two_tower import TwoTower
from modgap.train import every, load_config, train
from modgap.train.checkpoint import EMBEDDINGS, MODEL
from modgap.train.config import Config
from modgap.train.data import Data, Split
from modgap.train.hooks import TrainState, embed_split
from modgap.train.learner import make_optimiser, temperature_of
from modgap.train.loss import contrastive
from modgap.train.start import make_model

POINTS = 24  # of the gap's course over a run
PAIRS = 512  # that the course is measured on, as Yaras et al. do (E.2)
SAMPLE = 2048  # pairs of fig. 4 of Yaras et al. 2024
STEPS = 10  # after which a start is looked at again


def config_of(data: Path, seed: int, settings: Sequence[str] = ()) -> Config:
    """The preset with a recipe's settings; one checkpoint, at the end."""
    kept = (f"data.path={data}", "train.checkpoint_every=100000", "evaluate.every=0")
    return load_config(PRESET, [*kept, f"train.seed={seed}", *settings])


class Course:
    """A hook that keeps the gap of some pairs, and the temperature, over a run."""

    def __init__(self, pairs: Split) -> None:
        self.pairs = pairs
        self.steps: list[int] = []
        self.gap: list[float] = []
        self.temperature: list[float] = []

    def __call__(self, state: TrainState) -> None:
        """Measure, and log nothing."""
        X, Y, _ = embed_split(state.model, self.pairs, state.data.prepare, 512)
        self.steps.append(state.step)
        self.gap.append(gap_distance(F.normalize(X, dim=1), F.normalize(Y, dim=1)))
        self.temperature.append(state.temperature_value)

    def to_dict(self) -> dict[str, Any]:
        """Three lists of one length."""
        return {"steps": self.steps, "gap": self.gap, "temperature": self.temperature}


def run_recipe(
    recipe: Recipe, seed: int, path: Path, data: Data, tasks: Sequence[TransferTask], folder: Path
) -> dict[str, Any]:
    """Train a recipe below ``folder`` and return its metrics; large files do not stay."""
    settings = list(recipe.settings)
    if recipe.after:
        weights = folder / f"{recipe.after}-{seed}.safetensors"
        if not weights.exists():
            raise InputValueError(f"{recipe.name} starts from {recipe.after}; train that first.")
        settings.append(f"model.weights={weights}")
    config = config_of(path, seed, settings)
    n_batches = -(-len(data.train) // config.train.batch_size)
    course = Course(
        data.test.pairs(torch.arange(min(PAIRS, len(data.test))), torch.Generator().manual_seed(0))
    )
    gap = every(max(1, config.train.epochs * n_batches // POINTS), course)
    # A folder of its own: the same run may go on beside this one.
    with TemporaryDirectory(dir=folder) as place:
        output = Path(place)
        result = train(config, output=output, data=data, hooks=[gap])
        model = TwoTower.load(output / MODEL).to(result.device)
        carried = {
            name: value
            for task in tasks
            for name, value in transfer(model, data, task, config.data.context_length).items()
        }
        if recipe.name == PRETRAINED:
            (output / MODEL).rename(folder / f"{recipe.name}-{seed}.safetensors")
        if recipe.name == BASELINE and seed == 0:
            (output / EMBEDDINGS).rename(folder / "baseline.safetensors")
    return {
        "recipe": recipe.name,
        "seed": seed,
        "settings": list(recipe.settings),
        "epochs": config.train.epochs,
        "metrics": {**result.evaluation.flat(), **carried, "loss": result.losses[-1]},
        "course": course.to_dict(),
        "seconds": result.seconds,
        "images_per_second": result.images_per_second,
        "device": _device(result.device),
    }


def run_closure(recipe: Recipe, seed: int, path: Path, data: Data, folder: Path) -> dict[str, Any]:
    """The gap of 2,048 fixed pairs over a long training on them (Yaras et al. 2024, fig. 4a)."""
    config = config_of(path, seed, recipe.settings)
    pairs = sample(data, seed)
    course = Course(pairs)
    with TemporaryDirectory(dir=folder) as place:
        result = train(
            config,
            output=place,
            data=replace(data, train=pairs, test=pairs, augment=data.prepare),
            hooks=[every(50, course)],
        )
    return {
        "recipe": recipe.name,
        "seed": seed,
        "settings": list(recipe.settings),
        "course": course.to_dict(),
        "losses": list(result.losses[49::50]),
        "seconds": result.seconds,
        "device": _device(result.device),
    }


def run_first_steps(path: Path, data: Data, rate: float, count: int) -> dict[str, Any]:
    """So many random starts at one learning rate."""
    began = perf_counter()
    found = [first_steps(path, data, seed, rate) for seed in range(count)]
    return {
        "recipe": FIRST,
        "rate": rate,
        "starts": found,
        "seconds": perf_counter() - began,
    }


def first_steps(path: Path, data: Data, seed: int, rate: float) -> dict[str, Any]:
    """One random start: its cones, and the gap of 2,048 pairs over ten steps on all of them.

    Rows are those that the loss sees, batch norms using the batch (Yaras et al. 2024, fig. 4b;
    Chowers et al. 2026, fig. 6 right).
    """
    config = config_of(path, seed, [f"train.learning_rate={rate}"])
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = make_model(config, data, device).train()
    temperature = temperature_of(config.temperature, STEPS).to(device)
    optimiser = make_optimiser(config.train, model, temperature, device)
    pairs = sample(data, 0)
    if isinstance(data.prepare, torch.nn.Module):
        data.prepare.to(device)
    images = data.prepare(pairs.pixels.to(device))
    tokens = pairs.tokens.to(device).long()
    gaps, widths = [], {}
    for step in range(STEPS + 1):
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            X, Y = model(images, tokens)
        X, Y = F.normalize(X.float(), dim=1), F.normalize(Y.float(), dim=1)
        gaps.append(gap_distance(X.detach(), Y.detach()))
        if step == 0:
            widths = {name: _width(rows) for name, rows in (("image", X), ("text", Y))}
        if step < STEPS:
            contrastive(X, Y, temperature(step)).backward()
            optimiser.step()
            optimiser.zero_grad()
    return {"gap": gaps, "width": widths}


def sample(data: Data, seed: int) -> Split:
    """2,048 random training images, with one random caption each."""
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randperm(len(data.train), generator=generator)[:SAMPLE]
    return data.train.pairs(rows, generator)


def _width(rows: torch.Tensor) -> float:
    """Mean distance of the rows from their mean."""
    rows = rows.detach().double()
    return float(torch.linalg.vector_norm(rows - rows.mean(0), dim=1).mean())


def _device(name: str) -> str:
    return torch.cuda.get_device_name() if name.startswith("cuda") else name


def as_numbers(values: Any) -> Any:
    """Numbers to six digits: what is committed should be no longer than what is meant."""
    if isinstance(values, dict):
        return {key: as_numbers(value) for key, value in values.items()}
    if isinstance(values, (list, tuple)):
        return [as_numbers(value) for value in values]
    return float(f"{values:.6g}") if isinstance(values, (float, np.floating)) else values
