"""The networks of the cone experiments, random or trained, and what goes into them.

torch and transformers are loaded when a network is made, not before.
"""

from __future__ import annotations

import copy
import re
import tomllib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from modgap.arrays import is_torch
from modgap.core.checks import (
    Array,
    InputValueError,
    check_choice,
    check_count,
    check_positive,
    require,
)
from modgap.datasets.digits import describe, load_scans
from modgap.train.towers.config import TowerConfig

if TYPE_CHECKING:
    from modgap.train.towers.build import Tower

Network = Literal["mlp", "resnet", "vit", "transformer"]
Size = Literal["tiny", "small"]
NETWORKS: tuple[Network, ...] = get_args(Network)
# The token that begins a caption; 0 pads it.
_BEGIN = 1


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
    from modgap.train.towers.build import make_tower

    return make_tower(config, seed=seed).eval()


def network_rows(tower: Tower, inputs: Array, batch_size: int = 256) -> np.ndarray:
    """Rows (n, dimension) of images or captions, float32, not normalised."""
    torch = require("torch", "towers", "A network")
    batch_size = check_count(batch_size, "batch_size")
    tower.eval()  # layers that normalise over a batch use what they have stored
    with torch.no_grad():
        parts = [tower(part).cpu() for part in _as_inputs(tower, inputs).split(batch_size)]
    return torch.cat(parts).numpy()


def _as_inputs(tower: Tower, inputs: Array) -> Any:
    """Images or token ids as a tensor on the tower's device, checked."""
    torch = require("torch", "towers", "A network")
    tensor = inputs if is_torch(inputs) else torch.from_numpy(np.ascontiguousarray(inputs))
    if len(tensor) == 0:
        raise InputValueError("A network needs at least one input, got none.")
    tower.check(tensor)
    if not tower.config.takes_images:
        low, high, most = int(tensor.min()), int(tensor.max()), tower.config.vocab_size - 1
        if low < 0 or high > most:
            raise InputValueError(f"Token ids must be from 0 to {most}, got {low} to {high}.")
    tensor = tensor.float() if tower.config.takes_images else tensor.long()
    return tensor.to(next(tower.parameters()).device)


def fit_classifier(
    tower: Tower,
    inputs: Array,
    labels: Any,
    epochs: int = 5,
    learning_rate: float = 1e-3,
    batch_size: int = 64,
    seed: int = 0,
) -> tuple[Tower, float]:
    """A copy of the tower trained to tell classes apart, and its accuracy on its training data.

    A linear layer on top of the rows is trained with it by cross-entropy and Adam; the copy is
    returned without that layer (Liang et al., fig. 13). The same seed gives the same training.

    Parameters
    ----------
    tower : Tower
        Where training starts; it stays as it is.
    inputs : array
        Images or token ids.
    labels : (n,) sequence
        The class of each input, at least two different ones.
    epochs, batch_size : int
        Passes over the inputs, and inputs in a step.
    learning_rate : float
        Of Adam.
    seed : int
        Of the layer's weights and of the order of the inputs.
    """
    torch = require("torch", "towers", "Training a network")
    from modgap.train.towers.build import seeded

    epochs = check_count(epochs, "epochs")
    batch_size = check_count(batch_size, "batch_size", at_least=2)
    learning_rate = check_positive(learning_rate, "learning_rate")
    examples = _as_inputs(tower, inputs)
    classes, codes = np.unique(np.asarray(labels), return_inverse=True)
    if codes.shape != (len(examples),) or len(classes) < 2:
        raise InputValueError(
            f"labels must give one of at least two classes to each of {len(examples)} inputs, "
            f"got shape {codes.shape} with {len(classes)}."
        )
    targets = torch.from_numpy(codes).to(examples.device)
    trained = copy.deepcopy(tower).train()
    with seeded(seed):
        head = torch.nn.Linear(tower.config.features, len(classes)).to(examples.device)
        optimiser = torch.optim.Adam([*trained.parameters(), *head.parameters()], lr=learning_rate)
        for _ in range(epochs):
            for rows in torch.randperm(len(examples)).split(batch_size):
                if len(rows) < 2:
                    continue  # a batch norm cannot normalise over one input
                scores = head(trained(examples[rows]))
                optimiser.zero_grad()
                torch.nn.functional.cross_entropy(scores, targets[rows]).backward()
                optimiser.step()
    with torch.no_grad():
        rows = torch.from_numpy(network_rows(trained, examples)).to(examples.device)
        right = head(rows).argmax(1) == targets
    return trained, float(right.float().mean())


def noise_inputs(kind: Network, n: int, preset: Size = "tiny", seed: int = 0) -> np.ndarray:
    """Standard normal images, or captions of uniformly random words (Liang et al., fig. 5).

    Parameters
    ----------
    kind, preset
        What the inputs are for: "transformer" takes captions, the others take images.
    n : int
        How many.
    seed : int, default 0
        Of the noise.

    >>> noise_inputs("vit", 2).shape, noise_inputs("transformer", 2).shape
    ((2, 1, 16, 16), (2, 48))
    """
    config, n = network_config(kind, preset), check_count(n, "n")
    rng = np.random.default_rng(seed)
    if config.takes_images:
        shape = (n, config.channels, config.image_size, config.image_size)
        return rng.standard_normal(shape, dtype=np.float32)
    tokens = rng.integers(_BEGIN + 1, config.eos_token_id, (n, config.context_length))
    tokens[:, 0], tokens[:, -1] = _BEGIN, config.eos_token_id
    return tokens


def digit_inputs(
    kind: Network, n: int | None = None, preset: Size = "tiny", standardise: bool = True
) -> np.ndarray:
    """The digits' scans, enlarged to the network's size, or the first caption of each as token ids.

    Parameters
    ----------
    kind, preset
        What the inputs are for: "transformer" takes captions, the others take images.
    n : int, optional
        The first so many scans; all 1,797 without it.
    standardise : bool, default True
        Give the ink mean 0 and standard deviation 1 over all scans. Otherwise it stays in [0, 1]
        (Liang et al., fig. 15).

    >>> images, captions = digit_inputs("resnet", 3), digit_inputs("transformer", 3)
    >>> images.shape, captions.shape[0]
    ((3, 1, 16, 16), 3)
    """
    config = network_config(kind, preset)
    scans, labels = load_scans()
    n = len(scans) if n is None else check_count(n, "n", at_most=len(scans))
    if not config.takes_images:
        return _token_ids([wordings[0] for wordings in describe(scans, labels)], config)[:n]
    ink = scans / 16
    if standardise:
        ink = (ink - ink.mean()) / ink.std()
    factor = config.image_size // ink.shape[1]
    enlarged = ink[:n].repeat(factor, axis=1).repeat(factor, axis=2).astype(np.float32)
    return np.repeat(enlarged[:, None], config.channels, axis=1)


def _token_ids(captions: list[str], config: TowerConfig) -> np.ndarray:
    """Begin, words in alphabetical order of all captions, end, padding."""
    words = [re.findall(r"[\w-]+", caption.lower()) for caption in captions]
    known = sorted({word for caption in words for word in caption})
    ids = {word: place for place, word in enumerate(known, start=_BEGIN + 1)}
    rows = np.zeros((len(words), config.context_length), dtype=np.int64)
    for row, caption in zip(rows, words, strict=True):
        row[: len(caption) + 2] = [_BEGIN, *(ids[word] for word in caption), config.eos_token_id]
    return rows
