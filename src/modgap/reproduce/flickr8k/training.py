"""Train one recipe and keep its metrics; torch comes with this module."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from shutil import rmtree
from time import perf_counter
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

from modgap.core.checks import InputValueError
from modgap.measures import gap_distance, joint_clustering
from modgap.reproduce.flickr8k.methods import (
    BASELINE,
    BEFORE_FINE_TUNING,
    PRESET,
    PRETRAINED_PRESET,
    Recipe,
)
from modgap.reproduce.flickr8k.rephrasings import gap_without_normalisation, rephrasings
from modgap.reproduce.flickr8k.results import FIRST, WEIGHTS
from modgap.reproduce.flickr8k.transfer import TransferTask, transfer
from modgap.train import every, load_config, train
from modgap.train.checkpoint import EMBEDDINGS, MODEL
from modgap.train.config import Config
from modgap.train.data import Data, Split, load_data
from modgap.train.hooks import TrainState, embed_split
from modgap.train.learner import make_optimiser, temperature_of
from modgap.train.loggers import LOG
from modgap.train.loss import contrastive
from modgap.train.start import make_model, tokenizer_of
from modgap.train.towers.build import TwoTower, resolved_config

POINTS = 24  # of the gap's course over a run
PAIRS = 512  # that the course is measured on, as Yaras et al. do (E.2)
CLUSTERED, CLUSTERED_DRAWS = 100, 5  # photos that k-means finds again, and how often drawn
SAMPLE = 2048  # pairs of fig. 4 of Yaras et al. 2024
STEPS = 10  # after which a start is looked at again


@dataclass(frozen=True)
class Place:
    """Where runs take their photos and pretrained networks, what they share, where they write.

    ``settings`` are those of every run, beside its recipe's. ``encoders`` are folders in place of
    the preset's own networks, by side. ``commit`` is noted with each result.
    """

    data: Path
    folder: Path
    preset: str = PRESET
    settings: tuple[str, ...] = ()
    encoders: Mapping[str, Path] = field(default_factory=dict)
    commit: str = ""

    def config(self, seed: int, settings: Sequence[str] = ()) -> Config:
        """The preset with a recipe's settings; a long run can be resumed."""
        kept = [f"data.path={self.data}", "train.checkpoint_every=2000", "evaluate.every=0"]
        kept += ["train.log_every=50", "train.loggers=[]"]  # a GPU need not wait to be looked at
        kept += [f"model.{side}={folder}" for side, folder in self.encoders.items()]
        return load_config(self.preset, [*kept, f"train.seed={seed}", *settings, *self.settings])

    def load(self, settings: Sequence[str] = ()) -> Data:
        """The photos and captions as a recipe's settings want them."""
        config = self.config(0, settings)
        return load_data(config.data, tokenizer=tokenizer_of(config.model))


class Course:
    """A hook that logs the gap of some pairs, the temperature and the seconds over a run.

    A run that was stopped resumes its log, so the course is read from there.
    """

    def __init__(self, pairs: Split, output: Path) -> None:
        self.pairs, self.output = pairs, output
        self.began = perf_counter() - max(self.logged("course_seconds").values(), default=0.0)

    def __call__(self, state: TrainState) -> dict[str, float]:
        """Measure."""
        X, Y, _ = embed_split(state.model, self.pairs, state.data.prepare, 512)
        return {
            "course_gap": gap_distance(F.normalize(X, dim=1), F.normalize(Y, dim=1)),
            "course_temperature": state.temperature_value,
            "course_seconds": perf_counter() - self.began,
        }

    def logged(self, name: str) -> dict[int, float]:
        """A metric that was logged, by step."""
        log = self.output / LOG
        lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
        return {line["step"]: line[name] for line in map(json.loads, lines) if name in line}

    def to_dict(self) -> dict[str, Any]:
        """The course, and how long the training took."""
        gap, temperature, seconds = (
            self.logged(f"course_{name}") for name in ("gap", "temperature", "seconds")
        )
        course = {"steps": [*gap], "gap": [*gap.values()], "temperature": [*temperature.values()]}
        return {"course": course, "seconds": max(seconds.values())}


def starting_weights(recipe: Recipe, seed: int, folder: Path) -> Path | None:
    """The weights that a recipe starts from, in the folder of all runs; none from the start."""
    return folder / f"{recipe.after}-{seed}.safetensors" if recipe.after else None


def run_recipe(
    recipe: Recipe, seed: int, place: Place, data: Data, tasks: Sequence[TransferTask]
) -> dict[str, Any]:
    """Train a recipe and return its metrics; large files do not stay.

    A run that was stopped resumes from its newest checkpoint, in a folder of its own.
    """
    settings, folder = list(recipe.settings), place.folder
    if (weights := starting_weights(recipe, seed, folder)) is not None:
        if not weights.exists():
            raise InputValueError(f"{recipe.name} starts from {recipe.after}; train that first.")
        settings.append(f"model.weights={weights}")
    config = place.config(seed, settings)
    output = folder / f"{recipe.file}-{seed}.run"
    test_pairs = data.test.pairs(
        torch.arange(min(PAIRS, len(data.test))), torch.Generator().manual_seed(0)
    )
    course = Course(test_pairs, output)
    gap = every(max(1, config.train.total_steps(len(data.train)) // POINTS), course)
    result = train(config, output=output, resume=output.exists(), data=data, hooks=[gap])
    found = course.to_dict()
    *_, last_loss = course.logged("loss").values()
    model = TwoTower.load(output / MODEL).to(result.device)
    carried = {
        name: value
        for task in tasks
        for name, value in transfer(model, data, task, config.data.context_length).items()
    }
    measured = {
        **photos_clustered(model, data),
        **rephrasings(model, data),
        **gap_without_normalisation(model, data),
    }
    if recipe.name == BEFORE_FINE_TUNING:
        (output / MODEL).rename(folder / f"{recipe.name}-{seed}.safetensors")
    if recipe.name == BASELINE:
        kept = "baseline.safetensors" if seed == 0 else f"baseline-{seed}.safetensors"
        (output / EMBEDDINGS).rename(folder / kept)
    rmtree(output)
    return {
        "recipe": recipe.name,
        "seed": seed,
        "settings": [*recipe.settings, *place.settings],
        "epochs": config.train.epochs,
        "metrics": {**result.evaluation.flat(), **carried, **measured, "loss": last_loss},
        **found,
        "images_per_second": result.images_per_second,
        "device": _device(result.device),
        **({"commit": place.commit} if place.commit else {}),
    }


def photos_clustered(model: TwoTower, data: Data) -> dict[str, float]:
    """How well k-means finds 100 photos and their captions again; the mean of five draws."""
    X, Y, (gx, gy) = embed_split(model, data.test, data.prepare, 512)
    found = []
    for draw in range(CLUSTERED_DRAWS):
        some = np.random.default_rng(draw).permutation(len(gx))[:CLUSTERED]
        x, y = (np.flatnonzero(np.isin(of, gx[some])) for of in (gx, gy))
        rows = X[x].cpu().numpy(), Y[y].cpu().numpy()
        found.append(joint_clustering(*rows, labels=(gx[x], gy[y]), starts=3, seed=draw))
    return {
        "clustering_v_measure": float(np.mean([one.v_measure for one in found])),
        "clustering_adjusted_rand": float(np.mean([one.adjusted_rand for one in found])),
    }


def run_closure(recipe: Recipe, seed: int, place: Place, data: Data) -> dict[str, Any]:
    """The gap of 2,048 fixed pairs over a long training on them (Yaras et al. 2024, fig. 4a)."""
    config = place.config(seed, recipe.settings)
    pairs = sample(data, seed)
    output = place.folder / f"{recipe.file}-{seed}.run"
    course = Course(pairs, output)
    result = train(
        config,
        output=output,
        resume=output.exists(),
        data=replace(data, train=pairs, test=pairs, augment=data.prepare),
        hooks=[every(50, course)],
    )
    found, losses = course.to_dict(), [*course.logged("loss").values()]
    rmtree(output)
    return {
        "recipe": recipe.name,
        "seed": seed,
        "settings": [*recipe.settings, *place.settings],
        **found,
        "losses": losses,
        "device": _device(result.device),
        **({"commit": place.commit} if place.commit else {}),
    }


def run_first_steps(place: Place, data: Data, rate: float, count: int) -> dict[str, Any]:
    """So many random starts at one learning rate."""
    began = perf_counter()
    found = [first_steps(place, data, seed, rate) for seed in range(count)]
    return {
        "recipe": FIRST,
        "rate": rate,
        "starts": found,
        "seconds": perf_counter() - began,
    }


def first_steps(place: Place, data: Data, seed: int, rate: float) -> dict[str, Any]:
    """One random start: its cones, and the gap of 2,048 pairs over ten steps on all of them.

    Rows are those that the loss sees, batch norms using the batch (Yaras et al. 2024, fig. 4b;
    Chowers et al. 2026, fig. 6 right).
    """
    config = place.config(seed, [f"train.learning_rate={rate}"])
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
            # The mean distance of the rows from their mean.
            wide = {"image": X.detach().double(), "text": Y.detach().double()}
            widths = {k: float((A - A.mean(0)).norm(dim=1).mean()) for k, A in wide.items()}
        if step < STEPS:
            contrastive(X, Y, temperature(step)).backward()
            optimiser.step()
            optimiser.zero_grad()
    return {"gap": gaps, "width": widths}


def count_weights(preset: str) -> dict[str, Any] | None:
    """How many weights pretrained towers bring, and how many random projections are on top."""
    if preset != PRETRAINED_PRESET:
        return None
    projections = {}
    for dimension in (64, 128, 256, 512):
        config = resolved_config({"name": "pretrained", "dimension": dimension})
        with torch.device("meta"):  # shapes without weights, of which there are 120 MB
            model = TwoTower(config)
        towers = [model.image.body, model.text.body]
        pretrained = sum(p.numel() for tower in towers for p in tower.parameters())
        projections[str(dimension)] = sum(p.numel() for p in model.parameters()) - pretrained
    return {
        "recipe": WEIGHTS, "pretrained": pretrained, "projections by dimension": projections
    }  # fmt: skip


def sample(data: Data, seed: int) -> Split:
    """2,048 random training images, with one random caption each."""
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randperm(len(data.train), generator=generator)[:SAMPLE]
    return data.train.pairs(rows, generator)


def _device(name: str) -> str:
    return torch.cuda.get_device_name() if name.startswith("cuda") else name


def as_numbers(values: Any) -> Any:
    """Numbers to six digits: what is committed should be no longer than what is meant."""
    if isinstance(values, dict):
        return {key: as_numbers(value) for key, value in values.items()}
    if isinstance(values, (list, tuple)):
        return [as_numbers(value) for value in values]
    return float(f"{values:.6g}") if isinstance(values, (float, np.floating)) else values
