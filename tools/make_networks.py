"""Fill the tables of docs/evidence/networks.md from the recorded runs.

python tools/make_networks.py [RESULTS]

RESULTS, made by python -m modgap.reproduce.networks, is put on record first.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path
from typing import Any

from make_evidence import fill, table

from modgap.reproduce.networks import CNN, PLACES, RECORDED, read_networks
from modgap.reproduce.statistics import mean_interval

PAGE = Path(__file__).parents[1] / "docs" / "evidence" / "networks.md"
# Mean cosines that Liang et al. 2022 print in fig. 6, on photos and captions, and on noise.
PUBLISHED = {
    "ResNet-18": (0.9932, 0.9993),
    "image-transformer": (0.7172, 0.9366),
    "text-transformer": (0.6721, 0.4112),
}

# Mean, deviation and least of a ResNet-18's cosines, in figs 6 and 14; CIFAR-10 is there ImageNet.
RESNET = {
    "pretrained, photos": "0.5556, 0.0695, 0.2321",
    "pretrained, CIFAR-10": "0.5160, 0.0618, –",
    "random, photos": "0.9932, 0.0044, 0.9460",
    "random, noise": "0.9993, 0.0001, 0.9985",
}


def main() -> None:
    """Record, and write the tables."""
    if len(sys.argv) > 1:
        shutil.copyfile(sys.argv[1], RECORDED)
    runs = read_networks()
    made = {
        "random": random_networks(runs),
        "pretrained": pretrained_network(runs),
        "gaps": random_models(runs["gaps"]),
        "trained": trained_networks(runs),
    }
    fill(PAGE, made)


def random_networks(runs: dict[str, Any]) -> str:
    """A line for each network and kind of input."""
    lines = []
    for name in ("ResNet-18", "ResNet-50", "image-transformer", "text-transformer"):
        for place, kind in enumerate(("photos", "noise")):
            one = runs[f"{name}-{kind}"]
            printed = PUBLISHED.get(name)
            inputs = "captions" if (name, kind) == ("text-transformer", "photos") else kind
            lines.append(
                (
                    f"{name.replace('-t', ' t')}, {inputs}",
                    f"{printed[place]:.4f}" if printed else "–",
                    spread(one["mean_cosine"]),
                    f"{one['unseen_told_apart']:.3f}",
                    f"{one['separation']:.1f}",
                    f"{one['least_separation']:.1f}",
                )
            )
    head = (
        "network, inputs", "mean cosine, published", "mean cosine, measured", "told apart",
        "distance over width, mean", "least",
    )  # fmt: skip
    return table(head, lines)


def pretrained_network(runs: dict[str, Any]) -> str:
    """The cosines of the pretrained network's rows, and of the same with random weights."""
    head = (
        "weights, inputs", "rows, seen from the last ReLU", "published: mean, deviation, least",
        "mean", "deviation", "least",
    )  # fmt: skip
    lines = []
    for kind in ("photos", "CIFAR-10", "noise"):
        for place in PLACES:
            of = runs[f"{CNN}-pretrained-{kind}"][place]
            mean = f"{of['mean']:.4f} [{of['low']:.4f}, {of['high']:.4f}]"
            printed = RESNET.get(f"pretrained, {kind}", "–") if place == "after" else "–"
            rest = (f"{of['std']:.4f}", f"{of['min']:.4f}")
            lines.append((f"pretrained, {kind}", place, printed, mean, *rest))
    for kind in ("photos", "noise"):
        for place in PLACES:
            of = runs[f"{CNN}-{kind}"][place]
            printed = RESNET[f"random, {kind}"] if place == "after" else "–"
            rest = ("–", f"{min(of['min_cosine']):.4f}")
            words = f"{of['initialisations']} random starts, {kind}"
            lines.append((words, place, printed, spread(of["mean_cosine"]), *rest))
    return table(head, lines)


def random_models(run: dict[str, Any]) -> str:
    """The gap of random models, and how far rows lie from the mean of their side."""
    names = {"gap": "gap", "image_to_mean": "image to mean", "text_to_mean": "text to mean"}
    lines = [(words, spread(run[name])) for name, words in names.items()]
    return table(("", f"{run['initialisations']} models"), lines)


def trained_networks(runs: dict[str, Any]) -> str:
    """The networks trained on CIFAR-10."""
    found = runs["cifar-cones"]
    accuracy = [one["accuracy"] for name, one in runs.items() if re.fullmatch(r"cifar-\d+", name)]
    lines = [
        ("accuracy on the 10,000 test images", spread(accuracy)),
        ("mean cosine of a network's rows", spread(found["mean_cosine"])),
        ("distance over width of two cones, mean", f"{found['separation']:.3f}"),
        (
            f"unseen rows nearest to their own network's centre (chance 1/{len(accuracy)})",
            f"{found['unseen_told_apart']:.3f}",
        ),
        (
            "distance of two networks' centres over that of two halves of one",
            f"{found['centres_over_halves']:.2f}",
        ),
        ("rows whose nearest row is of the same network", f"{found['neighbours']:.3f}"),
    ]
    return table(("", f"{len(accuracy)} networks"), lines)


def spread(values: list[float]) -> str:
    """The mean over seeds with its 95 % interval, and the range."""
    found = mean_interval(values)
    ends = f"{min(values):.4f} to {max(values):.4f}"
    return f"{found.value:.4f} [{found.low:.4f}, {found.high:.4f}], {ends}"


if __name__ == "__main__":
    main()
