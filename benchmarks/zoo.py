"""Every real set at hand in twelve numbers: docs/evidence/zoo.md.

    python benchmarks/zoo.py DATA_FOLDER [--runs FOLDER]

``modgap measure X Y --row NAME`` prints such a line of rows of your own. ``--runs`` names a folder
of embeddings of trained models, as `modgap train` keeps them.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

from mixed import FLICKR8K, write_into
from modgap.datasets import load_digits
from modgap.evaluation import SetRow, set_row
from modgap.io import Modalities, open_pair

PAGE = Path(__file__).parents[1] / "docs" / "evidence" / "zoo.md"
AUTHORS = {
    "clip": "CLIP ViT-B/16, 500 pairs of MS-COCO",
    "videoclip": "VideoCLIP, 100 videos and texts",
    "convirt": "ConVIRT, 500 chest X-rays and sentences",
    "clasp": "CLASP, 99 proteins and descriptions",
}


def sets(folder: Path, runs: Path | None) -> Iterator[tuple[str, Modalities]]:
    """The published sets, trained and with random weights, then the models trained here."""
    for suffix, words in (("", ""), ("_random", ", random weights")):
        for name, title in AUTHORS.items():
            pair = open_pair(folder / "liang2022" / f"features_{name}{suffix}.npy")
            yield f"{title}{words}", Modalities.of(pair.x, pair.y)
    held = load_file(folder / "published" / "unsplash-clip-b32.safetensors")
    yield "CLIP ViT-B/32, 500 photos of Unsplash", Modalities.of(held["image"], held["text"])
    held = load_file(folder / "published" / "imagenet-clip-b32.safetensors")
    for key, words in (("class_text", ""), ("class_text_other_wording", ", other wording")):
        classes = np.arange(len(held[key]))
        yield (
            f"CLIP ViT-B/32, ImageNet's images and class texts{words}",
            Modalities.of(held["image"], held[key], groups=(held["labels"], classes)),
        )
    held = load_file(folder / "published" / "esc50-clap.safetensors")
    yield (
        "CLAP, sounds and class texts of ESC-50",
        Modalities.of(
            {"audio": held["audio"], "text": held["class_text"]},
            groups={"audio": held["labels"], "text": np.arange(len(held["class_text"]))},
        ),
    )
    digits = load_digits("test")
    yield (
        "the digits of modgap, first captions",
        Modalities.of(digits.X, digits.Y[digits.wording == 0]),
    )
    files = {"the baseline": FLICKR8K}
    if runs is not None:
        files |= {file.stem: file for file in sorted(runs.glob("*.safetensors"))}
    for name, file in files.items():
        held = load_file(file)
        if {"image_group", "text_group"} <= held.keys():
            groups = (held["image_group"], held["text_group"])
            title = f"trained on Flickr8k, {name}, its 1,000 held-out photos"
            yield title, Modalities.of(held["image"], held["text"], groups=groups)


def main() -> None:
    """Measure every set and put the table into the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--runs", type=Path)
    options = parser.parse_args()
    lines = [SetRow.header()]
    for name, data in sets(options.folder, options.runs):
        lines.append(set_row(data).markdown(name))
        print(lines[-1], flush=True)
    write_into(PAGE, "zoo", "\n".join(lines))


if __name__ == "__main__":
    main()
