"""What towers can be fed without any download: noise, and the digits with their captions."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from modgap._validate import InputValueError, check_choice, check_count
from modgap.datasets.digits import describe, load_scans
from modgap.towers.build import KINDS, Kind
from modgap.towers.presets import PRESETS, Preset, Size


def noise_inputs(kind: Kind, n: int, preset: Size = "tiny", seed: int = 0) -> np.ndarray:
    """Standard normal images, or captions of uniformly random words (Liang et al., fig. 5).

    >>> noise_inputs("vision", 2).shape, noise_inputs("text", 2).shape
    ((2, 1, 16, 16), (2, 48))
    """
    check_choice(kind, "kind", KINDS)
    sizes = PRESETS[check_choice(preset, "preset", tuple(PRESETS))]
    n = check_count(n, "n")
    rng = np.random.default_rng(seed)
    if kind != "text":
        shape = (n, sizes.channels, sizes.image_size, sizes.image_size)
        return rng.standard_normal(shape, dtype=np.float32)
    words = rng.integers(sizes.bos_token_id + 1, sizes.eos_token_id, (n, sizes.context_length))
    words[:, 0], words[:, -1] = sizes.bos_token_id, sizes.eos_token_id
    return words


def digit_inputs(
    kind: Kind, n: int | None = None, preset: Size = "tiny", standardise: bool = True
) -> np.ndarray:
    """The digits' scans, enlarged to the preset's size, or the first caption of each as words.

    The first ``n`` scans, at most all 1,797. ``standardise=False`` leaves the ink in [0, 1]
    instead of giving it mean 0 and standard deviation 1 over all scans (Liang et al., fig. 15).

    >>> images, captions = digit_inputs("resnet", 3), digit_inputs("text", 3)
    >>> images.shape, captions.shape[0]
    ((3, 1, 16, 16), 3)
    """
    check_choice(kind, "kind", KINDS)
    sizes = PRESETS[check_choice(preset, "preset", tuple(PRESETS))]
    scans, labels = load_scans()
    n = len(scans) if n is None else check_count(n, "n", at_most=len(scans))
    if kind == "text":
        captions = [wordings[0] for wordings in describe(scans, labels)]
        return tokenise(captions, sizes)[:n]
    ink = scans / 16
    if standardise:
        ink = (ink - ink.mean()) / ink.std()
    factor = sizes.image_size // ink.shape[1]
    enlarged = ink[:n].repeat(factor, axis=1).repeat(factor, axis=2).astype(np.float32)
    return np.repeat(enlarged[:, None], sizes.channels, axis=1)


def tokenise(captions: Sequence[str], preset: Preset = PRESETS["tiny"]) -> np.ndarray:
    """Captions as rows of token ids: begin, words, end, padding.

    Words are numbered in alphabetical order over the given captions, so numbers agree only
    within one call.

    >>> tokenise(["a bold nine", "a nine"])[:, :5].tolist()
    [[1, 2, 3, 4, 255], [1, 2, 4, 255, 0]]
    """
    words = [re.findall(r"[\w-]+", caption.lower()) for caption in captions]
    known = sorted({word for caption in words for word in caption})
    room = preset.eos_token_id - preset.bos_token_id - 1
    if len(known) > room:
        raise InputValueError(
            f"The captions use {len(known)} different words, and the preset has room for {room}. "
            "Take a larger preset, or fewer captions."
        )
    longest = max((len(caption) for caption in words), default=0)
    if longest > preset.context_length - 2:
        raise InputValueError(
            f"A caption has {longest} words, and the preset takes {preset.context_length - 2}. "
            "Take a larger preset, or shorten the captions."
        )
    number = {word: place for place, word in enumerate(known, start=preset.bos_token_id + 1)}
    rows = np.full((len(words), preset.context_length), preset.pad_token_id, dtype=np.int64)
    for row, caption in zip(rows, words, strict=True):
        numbers = [preset.bos_token_id, *(number[word] for word in caption), preset.eos_token_id]
        row[: len(numbers)] = numbers
    return rows
