"""The rows of some images or sounds in memory, without those that cannot be read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from modgap.core.checks import InputValueError, require
from modgap.core.threads import ahead
from modgap.embed.model import Model
from modgap.io import Items
from modgap.io.images import ImageError, unpack_image
from modgap.io.sounds import SoundError, unpack_sound


def embed_items(
    model: Model,
    items: Items,
    which: Sequence[int],
    *,
    batch_size: int,
    workers: int | None = None,
    count: Callable[[int], None],
) -> tuple[np.ndarray, list[int], dict[str, str]]:
    """`Model.encode_items` of some of the items; none of them need be readable.

    Batches are read and prepared while the network has others, unless it is on the processor.
    ``count`` is called with the number of items that are done.
    """
    decode, kind = decoder(items, model), items.kind

    def prepared(batch: Sequence[int]) -> tuple[list[int], dict[str, str], Any]:
        usable, decoded, why = [], [], {}
        for row in batch:
            try:
                decoded.append(decode(items.stored(row)))
                usable.append(row)
            except (ImageError, SoundError) as error:
                why[items.names[row]] = str(error)
        return usable, why, model.prepare(decoded, kind) if decoded else None

    batches = [which[start : start + batch_size] for start in range(0, len(which), batch_size)]
    found = [np.empty((0, model.dim), np.float32)]
    kept: list[int] = []
    skipped: dict[str, str] = {}
    ready = ahead(prepared, batches, workers, in_turns=model.on_processor)
    for number, (usable, why, batch) in enumerate(ready, start=1):
        skipped |= why
        if usable:
            found.append(model.checked_rows(batch, kind, len(kept)))
            kept += usable
        count(min(number * batch_size, len(which)))
    return np.concatenate(found), kept, skipped


def decoder(items: Items, model: Model) -> Callable[[bytes], Any]:
    """What turns the stored bytes of an item into what ``model.prepare`` takes."""
    if items.kind == "audio":
        if model.sampling_rate is None:
            raise InputValueError(f"{model.name} does not say at what rate it takes sounds.")
        return partial(unpack_sound, rate=model.sampling_rate)
    require("PIL.Image", "embed", "Embedding images")
    return partial(unpack_image, side=None)
