"""What goes into the networks of the cone experiments: noise, and the digits with captions."""

from __future__ import annotations

import re

import numpy as np

from modgap._validate import check_count
from modgap.datasets.digits import describe, load_scans
from modgap.simulate.cone_networks import Network, Size, network_config
from modgap.towers.config import TowerConfig

# The token that begins a caption; 0 pads it.
_BEGIN = 1


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
