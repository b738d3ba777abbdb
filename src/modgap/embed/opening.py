"""Which model a name means: the library before the colon, its own name behind it."""

from __future__ import annotations

import importlib
import os
from typing import Any, Literal

from modgap._validate import InputValueError, did_you_mean
from modgap.embed.model import Model

# The module that opens each kind, and how its names look.
KINDS = {
    "hf": ("transformers_model", "hf:openai/clip-vit-base-patch32"),
    "open_clip": ("open_clip_model", "open_clip:ViT-B-32/laion2b_s34b_b79k"),
    "st": ("sentence_transformers_model", "st:clip-ViT-B-32"),
    "onnx": ("onnx_model", "onnx:FOLDER"),
    "run": ("run_model", "run:FOLDER"),
}
Precision = Literal["auto", "float32", "bfloat16", "float16"]


def open_model(
    name: str | os.PathLike[str] | Model,
    *,
    device: str | None = None,
    precision: Precision = "auto",
    random: int | None = None,
    **more: Any,
) -> Model:
    """A model by its name.

    Parameters
    ----------
    name : str
        ``hf:NAME`` (transformers: CLIP, SigLIP, CLAP …, from the hub's cache or a folder),
        ``open_clip:NAME/WEIGHTS``, ``st:NAME`` (sentence-transformers), ``onnx:FOLDER``,
        ``run:FOLDER`` (what ``modgap train`` wrote). A model is passed through.
    device : str, optional
        "cpu", "cuda", "cuda:1" …; by default the first GPU, else the processor. "cuda:all" uses
        every GPU.
    precision : {"auto", "float32", "bfloat16", "float16"}
        What the network computes in; by default bfloat16 on a GPU that has it, else float32.
    random : int, optional
        The architecture with random weights instead, drawn with this seed.
    **more
        What the kind takes besides: see its module.
    """
    if isinstance(name, Model):
        return name
    kind, colon, rest = os.fspath(name).partition(":")
    if not colon or kind not in KINDS or not rest:
        forms = ", ".join(form for _, form in KINDS.values())
        raise InputValueError(
            f"A model is named by its library, as in {forms}; got {os.fspath(name)!r}."
            f"{did_you_mean(kind, KINDS) if colon else ''}"
        )
    opener = importlib.import_module(f"modgap.embed.{KINDS[kind][0]}")
    found: Model = opener.open_model(
        rest, device=device, precision=precision, random=random, **more
    )
    return found
