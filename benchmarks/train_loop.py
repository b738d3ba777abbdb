"""The training loop against a plain one: images per second, same model, same data, same steps.

    python benchmarks/train_loop.py [--model NAME] [--images N] [--batch N] [--epochs N]

The plain loop is what one would write by hand: batches indexed out of memory, augmentation, both
towers under autocast, two cross-entropies, AdamW and a learning rate set at each step. It logs,
checkpoints and measures nothing. Made-up images and captions lie on the device for both. Both run
in turns in one process and the best of several rounds counts, after one that does not. On a GPU if
there is one; on a CPU with a small model. Prints JSON, and fails below 0.95 of the plain loop, a
margin for the noise between two runs of the same code.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

import torch
from torch.nn import functional as F

from modgap.train import load_config, train
from modgap.train.data import Data, make_split
from modgap.train.images import Augment
from modgap.train.learner import Schedule, make_optimiser, temperature_of
from modgap.train.start import make_model

LEAST_RATIO = 0.95
VOCABULARY, LENGTH = 8192, 32


def made_up(n, size):
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 256, (n, 3, size, size), dtype=torch.uint8, generator=generator)
    tokens = torch.randint(4, VOCABULARY, (5 * n, LENGTH), generator=generator)
    tokens[:, -1] = 1
    train_split = make_split(pixels, [[""] * 5] * n, lambda _: tokens)
    test_split = make_split(pixels[:100], [[""]] * 100, lambda _: tokens[:100])
    return Data(train_split, test_split, VOCABULARY, None, Augment(size), Augment(size).eval())


def ours(config, data):
    with tempfile.TemporaryDirectory() as folder:
        return train(config, output=Path(folder) / "run", data=data).images_per_second


def plain(config, data):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    settings = config.train
    split = data.train.to(device)
    augment = data.augment.to(device)
    model = make_model(config, data, device).train()
    n_batches = -(-len(split) // settings.batch_size)
    total = settings.epochs * n_batches
    temperature = temperature_of(config.temperature, total).to(device)
    optimiser = make_optimiser(settings, model, temperature, device)
    schedule = Schedule(settings.schedule, total, settings.warmup, settings.betas[0])
    rates = [group["lr"] for group in optimiser.param_groups]
    half = device.type == "cuda"
    if half:
        torch.cuda.synchronize()
    began, step, seen = time.perf_counter(), 0, 0
    for _ in range(settings.epochs):
        order = torch.randperm(len(split))
        captions = split.first[order] + torch.randint(0, 5, (len(order),))
        for rows, texts in zip(
            order.to(device).tensor_split(n_batches),
            captions.to(device).tensor_split(n_batches),
            strict=True,
        ):
            for group, rate in zip(optimiser.param_groups, rates, strict=True):
                group["lr"] = rate * schedule.share(step)
            images, tokens = augment(split.pixels[rows]), split.tokens[texts].long()
            with torch.autocast(device.type, torch.bfloat16, enabled=half):
                X, Y = model(images, tokens)
            X, Y = F.normalize(X.float(), dim=1), F.normalize(Y.float(), dim=1)
            logits = temperature(step) * X @ Y.T
            own = torch.arange(len(logits), device=device)
            loss = (F.cross_entropy(logits, own) + F.cross_entropy(logits.T, own)) / 2
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            step, seen = step + 1, seen + len(rows)
    last = float(loss.detach())
    seconds = time.perf_counter() - began
    if last != last:
        raise SystemExit("the plain loop has lost its loss")
    return seen / seconds


def main() -> int:
    on_gpu = torch.cuda.is_available()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="resnet18" if on_gpu else "resnet-tiny")
    parser.add_argument("--size", type=int, default=96 if on_gpu else 32)
    parser.add_argument("--images", type=int, default=6000 if on_gpu else 1000)
    parser.add_argument("--batch", type=int, default=1000 if on_gpu else 100)
    parser.add_argument("--epochs", type=int, default=8 if on_gpu else 4)
    parser.add_argument("--rounds", type=int, default=4)
    options = parser.parse_args()
    config = load_config(
        "flickr8k-baseline",
        [
            f"model.name={options.model}",
            f"data.image_size={options.size}",
            f"train.batch_size={options.batch}",
            f"train.epochs={options.epochs}",
            "train.checkpoint_every=100000",
            "evaluate.every=0",
        ],
    )
    data = made_up(options.images, options.size)
    best = {"ours": 0.0, "plain": 0.0}
    for turn in range(options.rounds + 1):
        for name, run in (("ours", ours), ("plain", plain)):
            speed = run(config, data)
            if turn:
                best[name] = max(best[name], speed)
    ratio = best["ours"] / best["plain"]
    device = torch.cuda.get_device_name() if on_gpu else "cpu"
    report = {"device": device, "torch": torch.__version__, **vars(options)}
    print(json.dumps({**report, "images_per_second": best, "ratio": ratio}, indent=2))
    return 1 if ratio < LEAST_RATIO else 0


if __name__ == "__main__":
    raise SystemExit(main())
