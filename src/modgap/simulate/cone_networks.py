"""The networks of the cone experiments: with random weights, without normalisation, or trained.

torch and transformers are loaded when a network is made, not before.
"""

from __future__ import annotations

import copy
import tomllib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from modgap._arrays import is_torch
from modgap._validate import (
    InputValueError,
    check_choice,
    check_count,
    check_positive,
    require,
)
from modgap.towers.config import TowerConfig

if TYPE_CHECKING:
    from modgap.towers.build import Tower

Network = Literal["mlp", "resnet", "vit", "transformer"]
Size = Literal["tiny", "small"]
NETWORKS: tuple[Network, ...] = get_args(Network)


@cache
def _tables() -> dict[str, Any]:
    path = Path(__file__).with_name("cone_networks.toml")
    return tomllib.loads(path.read_text(encoding="utf-8"))


def network_config(kind: Network, preset: Size = "tiny") -> TowerConfig:
    """How large a network is, and what goes into it.

    >>> network_config("transformer").context_length
    48
    """
    check_choice(kind, "kind", NETWORKS)
    check_choice(preset, "preset", get_args(Size))
    return TowerConfig(kind, **_tables()[preset][kind])


def make_network(kind: Network, preset: Size = "tiny", seed: int = 0) -> Tower:
    """A network with random weights; the same seed gives the same weights.

    "vit" and "transformer" are CLIP's two transformers, which Liang et al. use, "resnet" is a
    residual network and "mlp" the network of their sec. 2.2 with ReLU, weights and biases
    N(0, 1/width). Rows are read before any projection.
    """
    config = network_config(kind, preset)
    require("torch", "towers", "A network")
    from modgap.towers.build import make_tower

    return make_tower(config, seed=seed).eval()


def network_rows(tower: Tower, inputs: Any, batch_size: int = 256) -> np.ndarray:
    """Rows (n, dimension) of images or captions, float32, not normalised.

    ``inputs`` are arrays or tensors: images (n, channels, size, size) of floats, or token ids
    (n, length). Layers that normalise over a batch use what they have stored.
    """
    torch = require("torch", "towers", "A network")
    batch_size = check_count(batch_size, "batch_size")
    was_training = tower.training
    tower.eval()
    try:
        with torch.no_grad():
            parts = [tower(part) for part in _tensor(tower, inputs).split(batch_size)]
    finally:
        tower.train(was_training)
    return torch.cat(parts).float().cpu().numpy()


def _tensor(tower: Tower, inputs: Any) -> Any:
    """Inputs as a tensor on the tower's device; or why the tower cannot take them."""
    torch = require("torch", "towers", "A network")
    tensor = inputs if is_torch(inputs) else torch.from_numpy(np.ascontiguousarray(inputs))
    if tower.config.takes_images and tensor.is_floating_point():
        tensor = tensor.float()
    tower.check(tensor)
    if len(tensor) == 0:
        raise InputValueError("inputs must hold at least one image or caption, got none.")
    if not tower.config.takes_images:
        low, high, most = int(tensor.min()), int(tensor.max()), tower.config.vocab_size - 1
        if low < 0 or high > most:
            raise InputValueError(f"Token ids must be from 0 to {most}, got {low} to {high}.")
    return tensor.to(next(tower.parameters()).device)


def without_normalisation(model: Any) -> Any:
    """A copy of a torch model whose normalisation layers do nothing (Liang et al., fig. 15).

    Layer, batch, group and instance norms become the identity. The given model stays as it is.
    A batch norm with random weights already does nothing when a model answers, for it divides by
    a stored variance of 1: removing it matters in trained models, and while training.
    """
    nn = require("torch", "towers", "Removing normalisation layers").nn
    # _NormBase is what batch and instance norms for 1, 2 and 3 dimensions have in common.
    kinds = [nn.modules.batchnorm._NormBase, nn.LayerNorm, nn.GroupNorm]
    kinds += [nn.RMSNorm] if hasattr(nn, "RMSNorm") else []
    if isinstance(model, tuple(kinds)):
        return nn.Identity()
    changed = copy.deepcopy(model)
    norms = [
        (parent, name)
        for parent in changed.modules()
        for name, child in parent.named_children()
        if isinstance(child, tuple(kinds))
    ]
    if not norms:
        raise InputValueError(
            "The model has no normalisation layer to remove. Use it as it is: removing them "
            "would change nothing."
        )
    for parent, name in norms:
        setattr(parent, name, nn.Identity())
    return changed


def fit_classifier(
    tower: Tower,
    inputs: Any,
    labels: Any,
    epochs: int = 5,
    learning_rate: float = 1e-3,
    batch_size: int = 64,
    seed: int = 0,
) -> tuple[Tower, float]:
    """A copy of the tower trained to tell classes apart, and its accuracy on its training data.

    A linear layer on top of the rows is trained with it by cross-entropy and Adam; the copy is
    returned without that layer (Liang et al., fig. 13).

    Parameters
    ----------
    tower : Tower
        A network without projection. It stays as it is.
    inputs, labels : array
        What it learns from: images or token ids, and the class of each.
    epochs, batch_size, learning_rate : number
        How long, in which batches and how fast.
    seed : int, default 0
        The same seed gives the same training.
    """
    torch = require("torch", "towers", "Training a network")
    from modgap.towers.build import seeded

    epochs = check_count(epochs, "epochs")
    batch_size = check_count(batch_size, "batch_size", at_least=2)
    learning_rate = check_positive(learning_rate, "learning_rate")
    inputs = _tensor(tower, inputs)
    classes, codes = np.unique(np.asarray(labels), return_inverse=True)
    if codes.shape != (len(inputs),) or len(classes) < 2:
        raise InputValueError(
            f"labels must give one of at least two classes to each of {len(inputs)} inputs, "
            f"got shape {codes.shape} with {len(classes)}."
        )
    targets = torch.from_numpy(codes).to(inputs.device)
    trained = copy.deepcopy(tower)
    with seeded(seed):
        head = torch.nn.Linear(tower.config.features, len(classes)).to(inputs.device)
        optimiser = torch.optim.Adam([*trained.parameters(), *head.parameters()], lr=learning_rate)
        trained.train()
        for _ in range(epochs):
            for rows in torch.randperm(len(inputs)).split(batch_size):
                if len(rows) < 2:
                    continue  # a batch norm cannot normalise over one input
                loss = torch.nn.functional.cross_entropy(head(trained(inputs[rows])), targets[rows])
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
    trained.eval()
    with torch.no_grad():
        scores = torch.cat([head(trained(part)) for part in inputs.split(256)])
    return trained, float((scores.argmax(1) == targets).float().mean())
