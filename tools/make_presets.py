"""Fits the corrections that ship with modgap on published rows of their models.

python tools/make_presets.py DATA_FOLDER
"""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

from modgap.corrections import Calibrate
from modgap.corrections.presets import FOLDER, PRESETS
from modgap.io import open_pair

SOURCES = {
    "clip-vit-b-32-captions": (
        "CLIP ViT-B/32", "500 photos of Unsplash and their captions",
        Path("published", "unsplash-clip-b32.safetensors"),
    ),
    "clip-vit-b-16-captions": (
        "CLIP ViT-B/16", "500 photos of MS-COCO and their captions",
        Path("liang2022", "features_clip.npy"),
    ),
}  # fmt: skip


def main() -> None:
    """Write a file for each preset."""
    for name in PRESETS:
        model, data, file = SOURCES[name]
        pair = open_pair(Path(sys.argv[1], file))
        correction = Calibrate().fit(pair, queries="text").correction_
        about = {**correction.about, "preset": name, "model": model, "data": data}
        dataclasses.replace(correction, about=about).save(FOLDER / f"{name}.safetensors")


if __name__ == "__main__":
    main()
