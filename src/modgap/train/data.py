"""Images and captions as tensors in memory: uint8 pixels, and token ids of every caption."""

from __future__ import annotations

import os
import warnings
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from modgap.core.checks import InputValueError
from modgap.core.results import Brief, Progress, silent
from modgap.io import Items, open_items
from modgap.io.images import unreadable
from modgap.train.config import DataConfig, TrainConfig

if TYPE_CHECKING:
    from modgap.train.hooks import Hook
    from modgap.train.towers.tokenizer import Tokenizer


@dataclass(frozen=True, eq=False)
class Split(Brief):
    """Images (n, channels, size, size) as uint8, and their captions' tokens, image by image.

    The captions of image i are the rows ``first[i]`` to ``first[i] + count[i] − 1`` of ``tokens``
    (m, context_length).
    """

    pixels: Tensor
    tokens: Tensor
    first: Tensor
    count: Tensor

    def __len__(self) -> int:
        return int(self.pixels.shape[0])

    @property
    def groups(self) -> tuple[np.ndarray, np.ndarray]:
        """Which caption belongs to which image: (gx, gy), as everywhere in modgap."""
        rows = np.arange(len(self))
        return rows, np.repeat(rows, self.count.cpu().numpy())

    def draw_captions(self, rows: Tensor, generator: torch.Generator) -> Tensor:
        """One caption row for each image row, drawn evenly from its captions; all on the CPU."""
        share = torch.rand(len(rows), generator=generator, dtype=torch.float64)
        count = self.count[rows]
        return self.first[rows] + (share * count).long().clamp(max=count - 1)

    def pairs(self, rows: Tensor, generator: torch.Generator) -> Split:
        """Some images with one caption each, drawn as `draw_captions` does; all on the CPU."""
        drawn = self.draw_captions(rows, generator)
        one = torch.arange(len(rows))
        return Split(self.pixels[rows], self.tokens[drawn], one, torch.ones_like(one))

    def to(self, device: Any, pixels: bool = True) -> Split:
        """The split with its tokens, and by default its pixels, on a device."""
        return replace(
            self,
            pixels=self.pixels.to(device) if pixels else self.pixels,
            tokens=self.tokens.to(device),
        )


@dataclass(frozen=True, eq=False)
class Data(Brief):
    """The splits that a run trains on and is measured on.

    ``augment`` turns uint8 pixels into the floats of a training step, ``prepare`` into those of
    an evaluation; both run on the pixels' device. ``corrupt`` names images that were skipped.
    ``hooks`` are those that every run on this data has.
    """

    train: Split
    test: Split
    vocab_size: int
    tokenizer: Any
    augment: Callable[[Tensor], Tensor]
    prepare: Callable[[Tensor], Tensor]
    corrupt: tuple[str, ...] = ()
    hooks: tuple[Hook, ...] = ()

    def to(self, device: torch.device, keep_pixels: str = "auto") -> Data:
        """The data on a device; "auto" leaves pixels that take half of what is free there."""
        pixels = keep_pixels != "no"
        if keep_pixels == "auto" and device.type == "cuda":
            free, _ = torch.cuda.mem_get_info(device)
            pixels = self.train.pixels.nbytes + self.test.pixels.nbytes < free / 2
        for images in (self.augment, self.prepare):
            if isinstance(images, nn.Module):
                images.to(device)
        return replace(self, train=self.train.to(device, pixels), test=self.test.to(device, pixels))


class Batches:
    """The batch of every step: image rows, and caption rows, of all processes together.

    Every epoch has the images in a new order, and one caption for each, drawn anew.
    """

    def __init__(self, split: Split, settings: TrainConfig, processes: int) -> None:
        self.split, self.seed = split, settings.seed
        self.per_epoch = settings.batches_per_epoch(len(split))
        self._epoch = -1
        self._drawn: list[tuple[Tensor, Tensor]] = []
        least = len(split) // self.per_epoch // processes // settings.accumulation_steps
        if least < 2:
            raise InputValueError(
                f"Every part of a batch must have at least 2 images, but {len(split)} images in "
                f"batches of {settings.batch_size} leave {least} for each of {processes} "
                f"processes and {settings.accumulation_steps} accumulated parts. "
                "Use larger batches."
            )

    def __getitem__(self, step: int) -> tuple[Tensor, Tensor]:
        epoch = step // self.per_epoch
        if epoch != self._epoch:
            generator = torch.Generator().manual_seed(mix_seeds(self.seed, epoch, 2**31))
            order = torch.randperm(len(self.split), generator=generator)
            captions = self.split.draw_captions(order, generator)
            rows = order.to(self.split.pixels.device).tensor_split(self.per_epoch)
            texts = captions.to(self.split.tokens.device).tensor_split(self.per_epoch)
            self._epoch, self._drawn = epoch, list(zip(rows, texts, strict=True))
        return self._drawn[step % self.per_epoch]


def mix_seeds(*numbers: int) -> int:
    """One seed out of several numbers, such that close ones give unrelated seeds."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> 1)


def load_data(
    config: DataConfig,
    *,
    tokenizer: Path | Tokenizer | None = None,
    progress: Progress | None = None,
) -> Data:
    """Read, decode and number everything a run needs.

    Parameters
    ----------
    config : DataConfig
        Where the data is.
    tokenizer : path or Tokenizer, optional
        Otherwise it is learned from the captions of the training split, unless the config names a
        file of one.
    progress : callable, optional
        Called as ``progress(what, done, total)``.
    """
    if config.path == "digits":
        from modgap.train.digits import SIZE, digits_data

        if config.image_size != SIZE:
            raise InputValueError(
                f"The digits have {SIZE} × {SIZE} pixels: set data.image_size={SIZE}, "
                f"got {config.image_size}."
            )
        return digits_data(config.split_seed, config.context_length)
    from modgap.train.images import Augment, decode
    from modgap.train.towers.tokenizer import Tokenizer, train_tokenizer

    say = progress or silent
    say("reading captions", 0, 0)
    sides = _train_and_test(config)
    if tokenizer is None and config.tokenizer:
        tokenizer = find_path(config.tokenizer)
    if tokenizer is None:
        say("training the tokenizer", 0, 0)
        captions = [c for i in range(len(sides[0])) for c in sides[0].captions(i)]
        words = train_tokenizer(captions, vocab_size=config.vocab_size)
    else:
        words = tokenizer if isinstance(tokenizer, Tokenizer) else Tokenizer.load(tokenizer)
    splits: list[Split] = []
    corrupt: list[str] = []
    for side in sides:
        decoded = decode(
            side,
            config.image_size,
            config.workers or None,
            max_corrupt=config.max_corrupt,
            progress=say,
        )
        if decoded.skipped:
            warnings.warn(unreadable([*decoded.skipped.items()], len(side)), stacklevel=2)
        corrupt += decoded.skipped
        splits.append(
            make_split(
                decoded.pixels,
                [side.captions(row) for row in decoded.rows],
                partial(words, context_length=config.context_length),
            )
        )
    augment = Augment(config.image_size, scale=(config.crop, 1.0))
    prepare = Augment(config.image_size).eval()
    return Data(
        train=splits[0],
        test=splits[1],
        vocab_size=words.vocab_size,
        tokenizer=words,
        augment=augment if config.augment else prepare,
        prepare=prepare,
        corrupt=tuple(corrupt),
    )


def _train_and_test(config: DataConfig) -> list[Items]:
    """The images to train on and those held out, with their captions."""

    def opened(path: str, images: str) -> Items:
        found = open_items(find_path(path), images=find_path(images) if images else None)
        return found.captioned_images()

    rows = opened(config.path, config.images)
    names = (config.train_split, config.test_split)
    if config.test_path:
        both = (rows, opened(config.test_path, config.test_images))
        return [
            side.split(name) if side.splits() else side
            for side, name in zip(both, names, strict=True)
        ]
    # Data that is all for training is split, unless a held-out split was named.
    only_training = list(rows.splits()) == [names[0]] and names[1] == DataConfig.test_split
    if rows.splits() and not only_training:
        return [rows.split(name) for name in names]
    order = np.random.default_rng(config.split_seed).permutation(len(rows))
    n_held_out = max(1, round(config.held_out * len(rows)))
    return [
        rows.select(np.sort(some).tolist()) for some in (order[n_held_out:], order[:n_held_out])
    ]


def make_split(
    pixels: Tensor, captions: Sequence[Sequence[str]], encode: Callable[[list[str]], Tensor]
) -> Split:
    """A split of images and their captions, at least one each."""
    count = torch.tensor([len(texts) for texts in captions])
    tokens = encode([text for texts in captions for text in texts])
    # Half the memory of long; nobody's vocabulary reaches 2³¹.
    return Split(pixels, tokens.int(), count.cumsum(0) - count, count)


def find_path(path: str) -> Path:
    """A path as it is, or below the folder that MODGAP_DATA names."""
    if not path:
        raise InputValueError("data.path must say where images and captions are, got nothing.")
    for found in (Path(path), Path(os.environ.get("MODGAP_DATA", ".")) / path):
        if found.exists():
            return found
    raise InputValueError(
        f"There is no data at {path}. Say where it is with --set data.path=PATH, "
        "or name the folder it is in by the environment variable MODGAP_DATA."
    )


def data_checksum(data: Data) -> int:
    """A number that other data would hardly have: of every caption, and of some of the images."""
    total = 0
    for split in (data.train, data.test):
        some = split.pixels[:: max(1, len(split) // 256)]
        for values in (split.tokens, split.count, some):
            total = zlib.crc32(values.cpu().contiguous().numpy().data, total)
    return total
