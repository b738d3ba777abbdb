"""Where a run starts: the towers with random, given or amended weights."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.optim.swa_utils import update_bn

from modgap.core.checks import InputValueError
from modgap.corrections import Procrustes
from modgap.train.checkpoint import MODEL, TOKENIZER
from modgap.train.config import Config, ModelConfig
from modgap.train.data import Data
from modgap.train.hooks import embed_split
from modgap.train.towers.build import TwoTower, make_two_tower
from modgap.train.towers.config import TowerConfig, TowerSide, TwoTowerConfig, find_config
from modgap.train.towers.encoders import open_encoder, resolve_source
from modgap.train.towers.tokenizer import Tokenizer

# Pairs that Procrustes is fitted to: more than enough dimensions of any tower here.
AMENDING_PAIRS = 4096


def make_model(config: Config, data: Data, device: torch.device) -> TwoTower:
    """The towers on their device, as ``config.model`` wants them for this data."""
    wanted = towers_of(config, data)
    if config.model.weights:
        path = weights_file(config.model.weights)
        found = TwoTower.load(path)
        if without_sources(found.config) != without_sources(wanted):
            raise InputValueError(
                f"The weights of {path} are those of {asdict(found.config)}, but this run wants "
                f"{asdict(wanted)}. Set [model] and [data] as in the run they come from."
            )
        model = make_two_tower(without_sources(wanted, keep_locks=True))
        model.load_state_dict(found.state_dict())
    else:
        model = make_two_tower(wanted, config.train.seed)
    model = model.to(device)
    if device.type == "cuda":
        # Convolutions in half precision are fastest on pixels whose channels lie together.
        model = model.to(memory_format=torch.channels_last)
    if config.model.start == "amended":
        amend(model, data, config.evaluate.batch_size)
    return model


def towers_of(config: Config, data: Data) -> TwoTowerConfig:
    """The configuration of both towers: the preset, what takes its place, and the data's sizes."""
    preset = find_config(config.model.name)
    changes: dict[str, Any] = {
        "name": config.model.name,
        "image": {
            "channels": int(data.train.pixels.shape[1]),
            "image_size": config.data.image_size,
            "locked": "image" in config.model.lock,
        },
        "text": {
            "context_length": int(data.train.tokens.shape[1]),
            "locked": "text" in config.model.lock,
        },
    }
    if config.model.dimension:
        changes["dimension"] = config.model.dimension
    for side, source in sources(config.model).items():
        changes[side] = {
            **asdict(resolve_source(open_encoder(source, side).config)),
            **changes[side],
        }
    kind = changes["text"].get("kind", preset.text.kind)
    if kind == "encoder":
        if data.vocab_size > changes["text"]["vocab_size"]:
            raise InputValueError(
                f"The text encoder knows {changes['text']['vocab_size']} tokens, but the captions "
                f"were split by a tokenizer of {data.vocab_size}. Leave data.tokenizer out."
            )
    else:
        changes["text"]["vocab_size"] = data.vocab_size
        eos_token_id = getattr(data.tokenizer, "eos_token_id", None)
        if eos_token_id is not None:
            changes["text"]["eos_token_id"] = eos_token_id
    return find_config(changes)


def sources(model: ModelConfig) -> dict[TowerSide, str]:
    """Where each tower's pretrained network comes from, for those that have one."""
    preset = find_config(model.name)
    found: dict[TowerSide, str] = {
        "image": model.image or preset.image.source,
        "text": model.text or preset.text.source,
    }
    return {side: source for side, source in found.items() if source}


def without_sources(config: TwoTowerConfig, keep_locks: bool = False) -> TwoTowerConfig:
    """The same towers whatever their weights came from, and whether they are trained or not."""

    def plain(tower: TowerConfig) -> TowerConfig:
        return replace(tower, source="", locked=tower.locked and keep_locks)

    return replace(config, image=plain(config.image), text=plain(config.text))


def weights_file(weights: str) -> Path:
    """The weights of a finished run, or the file itself."""
    path = Path(weights)
    return path / MODEL if path.is_dir() else path


def tokenizer_of(model: ModelConfig) -> Path | Tokenizer | None:
    """The tokenizer that goes with given weights; none for random ones."""
    if model.weights:
        return weights_file(model.weights).with_name(TOKENIZER)
    if "text" not in (found := sources(model)):
        return None
    text = open_encoder(found["text"], "text").tokenizer
    if not text:
        raise InputValueError(f"There is no {TOKENIZER} beside the text encoder {found['text']}.")
    return Tokenizer.from_json(text, found["text"])


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
    if not model.image.config.locked:  # what it remembers, it keeps
        update_bn(map(data.prepare, pairs.pixels.to(device).split(batch_size)), model.image)
    X, Y, _ = embed_split(model, pairs, data.prepare, batch_size)
    rows = [nn.functional.normalize(side.double(), dim=1).cpu().numpy() for side in (X, Y)]
    turn = Procrustes().fit(*rows, rows="given").correction_.maps[("text", "document")].matrix
    last = [m for m in model.text.modules() if isinstance(m, nn.Linear)][-1]
    for parameter in (last.weight, last.bias):
        if parameter is not None:
            W = torch.as_tensor(turn, dtype=torch.float64, device=parameter.device)
            parameter.copy_((W @ parameter.double()).to(parameter.dtype))
