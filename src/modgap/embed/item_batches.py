"""Rows of items that are read and prepared in threads, and of queries in words or in images."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from modgap.core.checks import InputValueError, require
from modgap.core.threads import ahead
from modgap.corrections import Correction
from modgap.embed.model import Model
from modgap.embed.opening import open_model
from modgap.io import Embeddings, Items
from modgap.io.images import ImageError, ImageFolder, unpack_image
from modgap.io.sounds import SoundError, unpack_sound


def embed_each(
    model: Model,
    modality: str,
    which: Sequence[int],
    read: Callable[[int], Any],
    *,
    batch_size: int,
    workers: int | None = None,
    count: Callable[[int], None],
) -> tuple[np.ndarray, list[int], dict[int, str]]:
    """Rows of ``read(k)`` for each k of ``which`` that can be read, these k, and why others cannot.

    Batches are read and prepared while the network has others, unless it is on the processor.
    ``count`` is called with the number of items that are done.
    """

    def prepared(batch: Sequence[int]) -> tuple[list[int], dict[int, str], Any]:
        usable, decoded, why = [], [], {}
        for row in batch:
            try:
                decoded.append(read(row))
                usable.append(row)
            except (ImageError, SoundError) as error:
                why[row] = str(error)
        return usable, why, model.prepare(decoded, modality) if decoded else None

    batches = [which[start : start + batch_size] for start in range(0, len(which), batch_size)]
    found = [np.empty((0, model.dim), np.float32)]
    kept: list[int] = []
    skipped: dict[int, str] = {}
    ready = ahead(prepared, batches, workers, in_turns=model.on_processor)
    for number, (usable, why, batch) in enumerate(ready, start=1):
        skipped |= why
        if usable:
            found.append(model.checked_rows(batch, modality, len(kept)))
            kept += usable
        count(min(number * batch_size, len(which)))
    return np.concatenate(found), kept, skipped


def embed_items(
    model: Model, items: Items, which: Sequence[int], **options: Any
) -> tuple[np.ndarray, list[int], dict[str, str]]:
    """`Model.encode_items` of some of the items; none of them need be readable."""
    decode: Callable[[bytes], Any] = unpack_image
    if items.kind == "audio":
        if model.sampling_rate is None:
            raise InputValueError(f"{model.name} does not say at what rate it takes sounds.")
        decode = partial(unpack_sound, rate=model.sampling_rate)
    elif items.kind == "image":
        require("PIL.Image", "embed", "Embedding images")

    def read(row: int) -> Any:
        return items.captions(row)[0] if items.kind == "text" else decode(items.stored(row))

    rows, kept, skipped = embed_each(model, items.kind, which, read, **options)
    return rows, kept, {items.names[row]: why for row, why in skipped.items()}


def image_rows(model: Model, files: Sequence[Path]) -> np.ndarray:
    """The rows of image files, which may be links; one that cannot be read is refused."""
    require("PIL.Image", "embed", "Embedding images")
    model.check_modality("image")
    images = []
    for file in files:
        place = file.resolve()
        try:
            images.append(unpack_image(ImageFolder(place.parent).read(place.name)))
        except ImageError as error:
            raise InputValueError(f"{file} cannot be used as an image: {error}.") from error
    return model.encode_images(images)


def embed_queries(
    correction: Correction,
    model: str | None = None,
    texts: Sequence[str] = (),
    images: Sequence[Path] = (),
) -> Embeddings:
    """Rows of images, or of texts, by the model that embedded the documents.

    Parameters
    ----------
    correction : Correction
        Of the documents; it may note the model.
    model : str, optional
        The model, as for `open_model`; by default the one that the correction notes. modgap warns
        where the two differ.
    texts, images : sequence of str, of paths
        The queries, of one kind.
    """
    noted = correction.query_model or str(correction.about.get("model") or "")
    name = model or noted
    if ":" not in name:
        raise InputValueError(
            "Say with --model which model embeds the queries, such as "
            "hf:openai/clip-vit-base-patch32: the one of the documents. The correction "
            + (f"names only {noted!r}." if noted else "names none.")
        )
    if ":" in noted and name != noted:
        warnings.warn(
            f"the documents were embedded by {noted}, the queries are by {name}.", stacklevel=2
        )
    opened = open_model(name)
    rows = image_rows(opened, images) if images else opened.encode_texts(texts, role="query")
    return Embeddings.from_array(rows, source=name)
