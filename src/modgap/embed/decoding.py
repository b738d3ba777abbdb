"""Stored images and sounds as models take them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from modgap._validate import InputValueError, require
from modgap.embed.model import Model
from modgap.io.images import ImageError, unpack_image
from modgap.io.items import Items
from modgap.io.sounds import SoundError, unpack_sound

# One item that cannot be used: it is counted and named, and the others go on.
ItemError = (ImageError, SoundError)


def decoder(items: Items, model: Model) -> Callable[[bytes], Any]:
    """What turns the stored bytes of an item into what ``model.prepare`` takes."""
    if items.kind == "audio":
        if model.sampling_rate is None:
            raise InputValueError(f"{model.name} does not say at what rate it takes sounds.")
        return partial(unpack_sound, rate=model.sampling_rate)
    require("PIL.Image", "embed", "Embedding images")
    return partial(unpack_image, side=None)
