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

from modgap.core.checks import (
    Array,
    check_choice,
    check_count,
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


def network_rows(tower: Tower, inputs: Array) -> np.ndarray:
    """Rows (n, dimension) of images or captions, float32, not normalised."""
    torch = require("torch", "towers", "A network")
    tower.eval()  # layers that normalise over a batch use what they have stored
    with torch.no_grad():
        parts = [tower(part).cpu() for part in torch.as_tensor(inputs).split(256)]
    return torch.cat(parts).numpy()


def fit_classifier(
    tower: Tower, inputs: np.ndarray, labels: np.ndarray, epochs: int, seed: int
) -> tuple[Tower, float]:
    """A copy of the tower trained to tell classes apart, and its accuracy on its training data.

    A linear layer on top of the rows is trained with it by cross-entropy and Adam, in batches of
    64; the copy is returned without that layer (Liang et al., fig. 13). The same seed gives the
    same training.
    """
    torch = require("torch", "towers", "Training a network")
    from modgap.train.towers.build import seeded

    examples = torch.as_tensor(inputs)
    classes, codes = np.unique(labels, return_inverse=True)
    targets = torch.from_numpy(codes)
    trained = copy.deepcopy(tower).train()
    with seeded(seed):
        head = torch.nn.Linear(tower.config.features, len(classes))
        optimiser = torch.optim.Adam([*trained.parameters(), *head.parameters()], lr=1e-3)
        for _ in range(epochs):
            for rows in torch.randperm(len(examples)).split(64):
                if len(rows) < 2:
                    continue  # a batch norm cannot normalise over one input
                scores = head(trained(examples[rows]))
                optimiser.zero_grad()
                torch.nn.functional.cross_entropy(scores, targets[rows]).backward()
                optimiser.step()
    with torch.no_grad():
        rows = torch.from_numpy(network_rows(trained, examples))
        right = head(rows).argmax(1) == targets
    return trained, float(right.float().mean())


def noise_inputs(kind: Network, n: int, preset: Size = "tiny", seed: int = 0) -> np.ndarray:
    """Standard normal images, or captions of uniformly random words (Liang et al., fig. 5).

    >>> noise_inputs("vit", 2).shape, noise_inputs("transformer", 2).shape
    ((2, 1, 16, 16), (2, 48))
    """
    config = network_config(kind, preset)
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

    The first ``n`` scans, or all. ``standardise`` gives the ink mean 0 and standard deviation 1
    over all scans; otherwise it stays in [0, 1] (Liang et al., fig. 15).

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
