"""Where a run starts: the towers with random, given or amended weights."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import nn

from modgap._validate import InputValueError
from modgap.corrections import Procrustes
from modgap.towers.config import find_config
from modgap.towers.two_tower import TwoTower, make_two_tower
from modgap.train.batch_norm import learn_statistics
from modgap.train.checkpoint import MODEL, TOKENIZER
from modgap.train.config import Config, ModelConfig
from modgap.train.data import Data
from modgap.train.hooks import embed_split

# Pairs that Procrustes is fitted to: more than enough dimensions of any tower here.
AMENDING_PAIRS = 4096


def make_model(config: Config, data: Data, device: torch.device) -> TwoTower:
    """The towers on their device, as ``config.model`` wants them for this data."""
    changes: dict[str, Any] = {
        "name": config.model.name,
        "image": {
            "channels": int(data.train.pixels.shape[1]),
            "image_size": config.data.image_size,
        },
        "text": {
            "vocab_size": data.vocab_size,
            "context_length": int(data.train.tokens.shape[1]),
        },
    }
    if config.model.dimension:
        changes["dimension"] = config.model.dimension
    eos_token_id = getattr(data.tokenizer, "eos_token_id", None)
    if eos_token_id is not None:
        changes["text"]["eos_token_id"] = eos_token_id
    wanted = find_config(changes)
    if config.model.weights:
        path = weights_file(config.model.weights)
        model = TwoTower.load(path)
        if model.config != wanted:
            raise InputValueError(
                f"The weights of {path} are those of {asdict(model.config)}, but this run wants "
                f"{asdict(wanted)}. Set [model] and [data] as in the run they come from."
            )
    else:
        model = make_two_tower(wanted, config.train.seed)
    model = model.to(device)
    if device.type == "cuda":
        # Convolutions in half precision are fastest on pixels whose channels lie together.
        model = model.to(memory_format=torch.channels_last)
    if config.model.start == "amended":
        amend(model, data, config.evaluate.batch_size)
    return model


def weights_file(weights: str) -> Path:
    """The weights of a finished run, or the file itself."""
    path = Path(weights)
    return path / MODEL if path.is_dir() else path


def tokenizer_of(model: ModelConfig) -> Path | None:
    """The tokenizer that goes with given weights; none for random ones."""
    return weights_file(model.weights).with_name(TOKENIZER) if model.weights else None


@torch.no_grad()
def amend(model: TwoTower, data: Data, batch_size: int) -> None:
    """Turn the text rows onto the image rows (Liang et al. 2022, sec. 4.4).

    W = argmin ‖X − YW‖ over orthogonal W, X and Y the unit rows of training images and of one
    caption of each. The last linear layer of the text tower is turned by it, which turns
    every row that the tower gives and changes nothing else. What a rotation leaves of the gap is
    the difference between the lengths of the two means. Batch norms first learn the statistics
    of those images, so that the gap is closed while training, when they use their batch, and at an
    evaluation, when they use what they remember.
    """
    n = min(len(data.train), AMENDING_PAIRS)
    pairs = data.train.pairs(torch.arange(n), torch.Generator().manual_seed(0))
    device = next(model.parameters()).device
    learn_statistics(model, map(data.prepare, pairs.pixels.to(device).split(batch_size)))
    X, Y, _ = embed_split(model, pairs, data.prepare, batch_size)
    rows = [nn.functional.normalize(side.double(), dim=1).cpu().numpy() for side in (X, Y)]
    turn = Procrustes().fit(*rows, rows="given").correction_.maps[("text", "document")].matrix
    last = [m for m in model.text.modules() if isinstance(m, nn.Linear)][-1]
    for parameter in (last.weight, last.bias):
        if parameter is not None:
            W = torch.as_tensor(turn, dtype=torch.float64, device=parameter.device)
            parameter.copy_((W @ parameter.double()).to(parameter.dtype))
