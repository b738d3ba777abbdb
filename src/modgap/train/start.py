"""Where a run starts: the towers with random, given or amended weights, and what goes with them."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from modgap._validate import InputValueError
from modgap.corrections import Procrustes
from modgap.towers.config import find_config
from modgap.towers.two_tower import TwoTower, make_two_tower
from modgap.train import swap, temperature
from modgap.train.config import Config, ModelConfig, SwapConfig, TemperatureConfig, TrainConfig
from modgap.train.data import Data
from modgap.train.hooks import embed_split

MODEL, TOKENIZER = "model.safetensors", "tokenizer.json"
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
    if not model.weights:
        return None
    return weights_file(model.weights).with_name(TOKENIZER)


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
    part = data.train.pairs(torch.arange(n), torch.Generator().manual_seed(0))
    learn_statistics(
        model, [data.prepare(p) for p in part.pixels.to(_place(model)).split(batch_size)]
    )
    X, Y, _ = embed_split(model, part, data.prepare, batch_size)
    rows = [nn.functional.normalize(side.double(), dim=1).cpu().numpy() for side in (X, Y)]
    turn = Procrustes().fit(*rows).correction_.maps[("text", "document")].matrix
    last = [m for m in model.text.modules() if isinstance(m, nn.Linear)][-1]
    for parameter in (last.weight, last.bias):
        if parameter is not None:
            W = torch.as_tensor(turn, dtype=torch.float64, device=parameter.device)
            parameter.copy_((W @ parameter.double()).to(parameter.dtype))


@torch.no_grad()
def learn_statistics(model: TwoTower, batches: list[Tensor]) -> None:
    """Give the batch norms of the image tower the mean statistics of some batches."""
    norms = [m for m in model.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    if not norms:
        return
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # a plain mean over the batches that follow
    was_training = model.training
    model.train()
    for images in batches:
        model.encode_image(images)
    model.train(was_training)
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum


def _place(model: nn.Module) -> torch.device:
    return next(model.parameters()).device


def temperature_of(config: TemperatureConfig, steps: int) -> temperature.Temperature:
    """A temperature by the name of its kind or of the paper, for a run of so many steps.

    >>> temperature_of(TemperatureConfig("fixed", value=0.04), 10).describe()
    {'kind': 'fixed', 'value': 0.04}
    """
    return temperature.make_temperature(config.name, max(1, steps), **config.options())


def swap_of(config: SwapConfig, seed: int) -> swap.Swap | None:
    """The swap of a run, or none."""
    return None if config.kind == "none" else swap.make_swap(config.kind, config.probability, seed)


def make_optimiser(
    settings: TrainConfig, model: nn.Module, temperature: Any, device: torch.device
) -> torch.optim.AdamW:
    """AdamW; gains and biases do not decay unless asked, the temperature has a group of its own."""
    learned = [p for p in model.parameters() if p.requires_grad]
    decays = [p for p in learned if settings.decay_all or p.ndim > 1]
    stays = [p for p in learned if not (settings.decay_all or p.ndim > 1)]
    groups: list[dict[str, Any]] = [{"params": decays, "weight_decay": settings.weight_decay}]
    if stays:
        groups.append({"params": stays, "weight_decay": 0.0})
    if (own := temperature.parameter_group(settings.learning_rate)) is not None:
        groups.append(own)
    return torch.optim.AdamW(
        groups,
        lr=settings.learning_rate,
        betas=settings.betas,
        eps=settings.epsilon,
        fused=device.type == "cuda",
    )
