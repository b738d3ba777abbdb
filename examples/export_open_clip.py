"""Rows of your own for ``modgap reproduce ENTRY --rows``: raw, as the towers of a model give them.

    python examples/export_open_clip.py openai/clip-vit-base-patch32 photos -o rows
    python examples/export_open_clip.py open_clip:ViT-B-32/laion2b_s34b_b79k photos -o rows \\
        --classes classes.txt --prompt "a photo of a {}." --other-prompt "a picture showing a {}."

``photos`` is a folder of images with a CSV of columns ``image`` and ``caption``, several rows per
image if there are several captions; all that ``modgap.open_image_captions`` reads will do. The
model is one of transformers, by name or folder, or one of open_clip with its pretrained weights.
It writes image.npy and text.npy, with several captions an image also the two files for --groups,
and with ``--classes`` (a name per line) class_text.npy and other_class_text.npy. Nothing is
normalised: entries do that where their paper does.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from modgap.io import open_image_captions
from modgap.io.images import unpack_image

Encoder = Callable[[Sequence[Any]], torch.Tensor]
OPEN_CLIP = "open_clip:"


def main(
    model: str,
    photos: Path,
    output: Path,
    classes: Path | None = None,
    prompts: Sequence[str] = (),
    batch: int = 64,
) -> list[str]:
    """Write the rows, and return the options of ``modgap reproduce`` that name their files."""
    data = open_image_captions(photos)
    embed_images, embed_texts = towers(model)
    output.mkdir(parents=True, exist_ok=True)
    images = (unpack_image(data.image(k)) for k in range(len(data)))
    captions = [caption for k in range(len(data)) for caption in data.captions(k)]
    written = ["--rows", save(output / "image.npy", rows(embed_images, images, batch))]
    written += [save(output / "text.npy", rows(embed_texts, captions, batch))]
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
            of_class = rows(embed_texts, [prompt.format(one) for one in names], batch)
            option = f"--{name.replace('_', '-')}"
            written += [option, save(output / f"{name}.npy", of_class)]
    return written


def towers(model: str) -> tuple[Encoder, Encoder]:
    """What turns images, and texts, into rows that are not normalised."""
    return open_clip_towers(model) if model.startswith(OPEN_CLIP) else transformers_towers(model)


def transformers_towers(model: str) -> tuple[Encoder, Encoder]:
    """CLIP, SigLIP and others whose models have ``get_image_features``."""
    from transformers import AutoImageProcessor, AutoModel, AutoTokenizer

    network = AutoModel.from_pretrained(model).eval()
    process, tokenize = (of.from_pretrained(model) for of in (AutoImageProcessor, AutoTokenizer))
    # SigLIP was trained on texts that are padded to the full length.
    padding = "max_length" if "siglip" in network.config.model_type else True

    def features(found: Any) -> torch.Tensor:
        return getattr(found, "pooler_output", found)  # transformers 5 returns more than features

    def images(batch: Sequence[Any]) -> torch.Tensor:
        pixels = process(images=list(batch), return_tensors="pt")
        return features(network.get_image_features(**pixels))

    def texts(batch: Sequence[Any]) -> torch.Tensor:
        tokens = tokenize(list(batch), padding=padding, truncation=True, return_tensors="pt")
        return features(network.get_text_features(**tokens))

    return images, texts


def open_clip_towers(model: str) -> tuple[Encoder, Encoder]:
    """A model of open_clip, as open_clip:NAME/PRETRAINED."""
    import open_clip

    name, _, pretrained = model.removeprefix(OPEN_CLIP).partition("/")
    network, process = open_clip.create_model_from_pretrained(name, pretrained=pretrained)
    tokenize = open_clip.get_tokenizer(name)
    network.eval()
    return (
        lambda batch: network.encode_image(torch.stack([process(image) for image in batch])),
        lambda batch: network.encode_text(tokenize(list(batch))),
    )


def rows(embed: Encoder, items: Any, batch: int) -> np.ndarray:
    """The rows of all items, some at a time."""
    found, waiting = [], []
    with torch.inference_mode():
        for item in items:
            waiting.append(item)
            if len(waiting) == batch:
                found.append(embed(waiting).float().numpy())
                waiting = []
        if waiting:
            found.append(embed(waiting).float().numpy())
    return np.concatenate(found)


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
