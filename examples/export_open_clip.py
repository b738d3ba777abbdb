"""Rows of your own for ``modgap reproduce ENTRY --rows``: raw, as the towers of a model give them.

    python examples/export_open_clip.py hf:openai/clip-vit-base-patch32 photos -o rows
    python examples/export_open_clip.py open_clip:ViT-B-32/laion2b_s34b_b79k photos -o rows \\
        --classes classes.txt --prompt "a photo of a {}." --other-prompt "a picture showing a {}."

``photos`` is a folder of images with a CSV of columns ``image`` and ``caption``, several rows per
image if there are several captions; all that ``modgap.io.open_items`` reads will do. The
model is any that ``modgap.embed.open_model`` opens: of transformers, of open_clip, of ONNX files.
It writes image.npy and text.npy, with several captions an image also the two files for --groups,
and with ``--classes`` (a name per line) class_text.npy and other_class_text.npy. Nothing is
normalised: entries do that where their paper does.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from modgap.embed import open_model
from modgap.io import open_items
from modgap.io.images import unpack_image


def main(
    model: str,
    photos: Path,
    output: Path,
    classes: Path | None = None,
    prompts: Sequence[str] = (),
    batch: int = 64,
) -> list[str]:
    """Write the rows, and return the options of ``modgap reproduce`` that name their files."""
    data = open_items(photos).captioned_images()
    encoder = open_model(model)
    output.mkdir(parents=True, exist_ok=True)
    images = np.empty((len(data), encoder.dim), np.float32)
    for start in range(0, len(data), batch):  # some at a time: photos may not fit in memory
        some = range(start, min(start + batch, len(data)))
        opened = [unpack_image(data.stored(k)) for k in some]
        images[start : start + batch] = encoder.encode_images(opened, batch_size=batch)
    captions = [caption for k in range(len(data)) for caption in data.captions(k)]
    written = ["--rows", save(output / "image.npy", images)]
    written += [save(output / "text.npy", encoder.encode_texts(captions, batch_size=batch))]
    if len(captions) > len(data):
        of_text = [k for k in range(len(data)) for _ in data.captions(k)]
        groups = (
            save(output / "image_groups.npy", np.arange(len(data))),
            save(output / "text_groups.npy", np.array(of_text)),
        )
        written += ["--groups", ",".join(groups)]
    if classes is not None:
        names = classes.read_text(encoding="utf-8").splitlines()
        files = ("class_text", "other_class_text")
        for name, prompt in zip(files, prompts, strict=False):
            of_class = encoder.encode_texts([prompt.format(one) for one in names])
            option = f"--{name.replace('_', '-')}"
            written += [option, save(output / f"{name}.npy", of_class)]
    return written


def save(path: Path, array: np.ndarray) -> str:
    """Write an array, and return where."""
    np.save(path, array)
    return str(path)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model")
    parser.add_argument("photos", type=Path)
    parser.add_argument("-o", "--output", type=Path, default=Path("rows"))
    parser.add_argument("--classes", type=Path)
    parser.add_argument("--prompt", default="a photo of a {}.")
    parser.add_argument("--other-prompt")
    given = parser.parse_args()
    prompts = [prompt for prompt in (given.prompt, given.other_prompt) if prompt]
    options = main(given.model, given.photos, given.output, given.classes, prompts)
    print("modgap reproduce all", *options)
