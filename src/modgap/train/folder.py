"""The folder of a run: the names of its files, and whether a run may start or go on in it."""

from __future__ import annotations

from pathlib import Path

from modgap._validate import InputValueError
from modgap.train.checkpoint import Saved, checkpoints, read_newest
from modgap.train.config import Config, differences

CONFIG, TOKENIZER = "config.json", "tokenizer.json"
MODEL, EMBEDDINGS, DIGITS, RESULT = (
    "model.safetensors",
    "embeddings.safetensors",
    "digits.safetensors",
    "result.json",
)


def find_saved(output: Path, config: Config, resume: bool) -> Saved | None:
    """The checkpoint to go on from, or none; refuses a folder that would be written over."""
    if checkpoints(output) and not resume:
        raise InputValueError(
            f"{output} holds a run already. Go on with it by --resume, or write to another folder."
        )
    saved = read_newest(output) if resume else None
    finished = [name for name in (MODEL, EMBEDDINGS, DIGITS, RESULT) if (output / name).exists()]
    if saved is None and finished:
        raise InputValueError(
            f"{output} holds {finished[0]} already, and no checkpoint to go on from. Move it away, "
            "or write to another folder."
        )
    if saved is not None and (changed := differences(saved[0]["config"], config.to_dict())):
        raise InputValueError(
            f"The run in {output} was started with other settings: {', '.join(changed)}. "
            "Resume it with its own config, or start a new one in another folder."
        )
    return saved
