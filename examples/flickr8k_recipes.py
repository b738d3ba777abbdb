"""Train every method of Yaras et al. 2024 on an image–caption data set, three seeds each.

    python examples/flickr8k_recipes.py flickr8k-112.parquet -o results [--part 0/4]

Each run leaves one small JSON file; a run whose file is there already is not repeated, so parts
can go on beside each other and after an interruption. Besides the held-out figures of the run, the
image tower is put to a task it was not trained for: telling handwritten digits apart, by a linear
probe and by names alone.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from pathlib import Path

import numpy as np
import torch

from modgap._files import write_text
from modgap._results import to_json
from modgap.datasets.digits import DIGITS, load_scans
from modgap.evaluate.probe import linear_probe
from modgap.evaluate.zero_shot import zero_shot
from modgap.train import load_config, train
from modgap.train.data import Data, load_data

SEEDS = (0, 1, 2)
TEMPERATURES = (
    "baseline", "FLT0.01", "FLT0.02", "FLT0.04", "FLT0.07", "FLT0.1", "FLT0.2", "FLT0.3", "FLT0.4",
    "S0", "S1", "S2", "S3", "A0", "A1", "softplus", "scale2", "scale10", "SLRT",
)  # fmt: skip
# Name → what differs from the baseline.
METHODS: dict[str, list[str]] = {
    **{name: [f"temperature.name={name}"] for name in TEMPERATURES},
    "hard swap 0.001": ["swap.kind=hard", "swap.probability=0.001"],
    "hard swap 0.01": ["swap.kind=hard", "swap.probability=0.01"],
    "hard swap 0.1": ["swap.kind=hard", "swap.probability=0.1"],
    "soft swap 0.05": ["swap.kind=soft", "swap.probability=0.05"],
    "feature swap": ["swap.kind=feature", "swap.probability=1.0"],
    "no normalisation": ["loss.normalise=false", "evaluate.metric=inner_product"],
    "amended start, FLT0.01": ["model.start=amended", "temperature.name=FLT0.01"],
    **{f"dimension {d}": [f"model.dimension={d}"] for d in (64, 128, 512)},
}
COMMON = ["model.dimension=256", "train.checkpoint_every=100000", "evaluate.every=60"]


def main() -> None:
    """Run what is not there yet of this part."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("-o", "--output", type=Path, default=Path("results"))
    parser.add_argument("--part", default="0/1", help="this part of so many, 0/4 for instance")
    parser.add_argument("--set", action="append", default=[], help="overrides for every run")
    given = parser.parse_args()
    part, parts = (int(number) for number in given.part.split("/"))
    given.output.mkdir(parents=True, exist_ok=True)
    # The first seed of every method comes before the second of any.
    runs = [(name, seed) for seed in SEEDS for name in METHODS][part::parts]
    data: Data | None = None
    for name, seed in runs:
        path = given.output / f"{name.replace(' ', '-').replace(',', '')}-{seed}.json"
        if path.exists():
            continue
        config = load_config(
            "flickr8k-baseline",
            [f"data.path={given.data}", *COMMON, f"train.seed={seed}", *METHODS[name], *given.set],
        )
        if data is None:
            data = load_data(config.data, seed=0)
        folder = Path(tempfile.mkdtemp())
        try:
            result = train(config, output=folder, data=data)
            found = {
                "method": name,
                "seed": seed,
                "overrides": METHODS[name],
                **result.evaluation.figures(),
                "temperature": result.temperature,
                "loss": result.losses[-1],
                "steps": result.steps,
                "images_per_second": result.images_per_second,
                "seconds": result.seconds,
                "device": result.device,
                **transfer(folder / "model.safetensors", data, config.data.length),
            }
            if name == "baseline" and seed == 0:
                shutil.copy(folder / "embeddings.safetensors", given.output)
                shutil.copy(folder / "log.jsonl", given.output / "baseline-0.log.jsonl")
        finally:
            shutil.rmtree(folder)
        write_text(path, to_json(found) + "\n")
        print(
            json.dumps({k: found[k] for k in ("method", "seed", "gap_distance", "loss")}),
            flush=True,
        )


@torch.no_grad()
def transfer(weights: Path, data: Data, length: int) -> dict[str, float]:
    """Handwritten digits by the image tower: a linear probe, and the names of the digits."""
    from modgap.towers.two_tower import TwoTower

    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = TwoTower.load(weights).to(device).eval()
    scans, labels = load_scans()
    size = data.test.pixels.shape[-1]
    pixels = torch.tensor(255 - scans * (255 / 16)).round().byte()[:, None].expand(-1, 3, -1, -1)
    pixels = torch.nn.functional.interpolate(pixels.float(), size=(size, size), mode="bilinear")
    prepared = data.prepare(pixels.round().byte().to(device))
    X = torch.cat([model.encode_image(part) for part in prepared.split(500)]).float().cpu().numpy()
    tokens = data.tokenizer.encode([f"a picture of the number {word}" for word in DIGITS], length)
    Y = model.encode_text(tokens.to(device)).float().cpu().numpy()
    order = np.random.default_rng(0).permutation(len(X))
    seen, held_out = order[:900], order[900:]
    probe = linear_probe((X[seen], labels[seen]), (X[held_out], labels[held_out]))
    return {
        "digits_linear_probe": probe.accuracy,
        "digits_zero_shot": zero_shot(X, Y, labels).accuracy,
    }


if __name__ == "__main__":
    main()
