"""Rows as people know them: captions or ids as labels, and small pictures."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from modgap.core.checks import InputValueError, require
from modgap.io import Embeddings, Modalities, Thumbnail, open_items
from modgap.io.embedded import item_pictures
from modgap.io.images import (
    SUFFIXES,
    ImageError,
    ImageFolder,
    MissingImageError,
    one_image,
    shrink,
    unreadable,
)

_LABEL_LENGTH = 300
_LONGEST_ID = 100
_SIGNATURES = {b"\x89PNG\r\n\x1a\n": "image/png", b"\xff\xd8\xff": "image/jpeg"}


def row_labels(
    side: Embeddings, rows: np.ndarray, most: int = _LABEL_LENGTH
) -> list[str | None] | None:
    """The caption of each row, else its id, cut where long; None where there is neither."""
    texts = side.captions if side.captions is not None else side.ids
    return None if texts is None else [label_text(texts[row], most) for row in rows.tolist()]


def row_ids(side: Embeddings, rows: np.ndarray) -> list[str | None] | None:
    """The id of each row beside its caption; None where it has none, or is labelled by it."""
    if side.ids is None or side.captions is None:
        return None
    return [label_text(side.ids[row]) for row in rows.tolist()]


def label_text(value: Any, most: int = _LABEL_LENGTH) -> str | None:
    """A value as text that JSON can carry, cut at ``most`` characters; None stays None."""
    if value is None:
        return None
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    if len(text) > most:
        text = text[: most - 1] + "…"
    # A lone surrogate is text to Python and cannot be sent.
    return text.encode("utf-8", "replace").decode("utf-8")


class RowPictures:
    """Pictures of rows as addresses that hold them. One that fails is counted, and left out."""

    def __init__(self, data: Modalities) -> None:
        self._data = data
        self._found: dict[tuple[str, int], str | None] = {}
        self._errors: dict[tuple[str, int], str] = {}

    def __call__(self, modality: str, row: int) -> str | None:
        """The picture of a row; None where there is none or it cannot be read."""
        picture = self._data.thumbnails.get(modality)
        if picture is None:
            return None
        if (modality, row) not in self._found:
            try:
                with one_image():
                    self._found[modality, row] = data_uri(picture(row))
            except ImageError as error:
                self._found[modality, row] = None
                self._errors[modality, row] = str(error)
        return self._found[modality, row]

    @property
    def errors(self) -> list[tuple[str, str]]:
        """The name of each that could not be read and the reason, in the order of the rows."""
        places = list(self._data.names)
        failed = sorted(self._errors, key=lambda one: (places.index(one[0]), one[1]))
        named = []
        for modality, row in failed:
            ids = self._data.sides[modality].ids
            name = None if ids is None else label_text(ids[row], _LONGEST_ID)
            named.append((name or f"{modality} {row}", self._errors[modality, row]))
        return named

    def sentence(self) -> str | None:
        """How many could not be read, and the first of them; None where all could."""
        return unreadable(self.errors, len(self._found)) if self._errors else None


def from_pixels(images: np.ndarray) -> Thumbnail:
    """Pictures of arrays: (n, h, w) in grey or (n, h, w, 3) in colour, 0 to 255."""
    if images.ndim not in (3, 4) or (images.ndim == 4 and images.shape[3] != 3):
        raise InputValueError(
            f"images must be of shape (n, height, width) or (n, height, width, 3), "
            f"got {images.shape}."
        )

    def picture(row: int) -> bytes:
        return png(np.clip(images[row], 0, 255).astype(np.uint8))

    return picture


def with_images(data: Modalities, images: Path | None) -> Modalities:
    """The same with pictures of the first modality, found by the ids of its rows."""
    if images is None:
        return data
    name = data.names[0]
    ids = data.sides[name].ids
    if ids is None:
        raise InputValueError(
            f"--images finds images by the ids of the {name} rows, and these have none. "
            "Give them a column 'id' or 'image_path' with the files' names."
        )
    return replace(data, thumbnails={name: from_images(images, ids)})


def from_images(images: Path, ids: Sequence[Any] | np.ndarray) -> Thumbnail:
    """Pictures of the images in a folder or a file, found by the ids of the rows.

    In a folder, an id is the name of an image file, with or without its suffix. Where there is no
    such file, and in files such as Parquet, it is the name of an item (see `modgap.io.open_items`).
    A row without an id has no picture. An image that is missing, damaged or too large to unpack
    raises an `ImageError`, and so does a name that leads out of the folder, by ``..`` or by a link.
    """
    require("PIL.Image", "images", "Thumbnails of image files")
    if not images.is_dir():
        items = open_items(images)
        named = item_pictures(lambda: items, ids.__getitem__)
        return lambda row: None if ids[row] is None else named(row)
    home = ImageFolder(images)
    named = item_pictures(partial(open_items, images), ids.__getitem__)

    def picture(row: int) -> bytes | None:
        if ids[row] is None:
            return None
        try:
            return _first_of(home, str(ids[row]))
        except MissingImageError as missing:
            try:
                return named(row)
            except ImageError:
                raise missing from None

    return picture


def _first_of(home: ImageFolder, name: str) -> bytes:
    """The file of that name, or of that name with a suffix, made small."""
    reason: ImageError | None = None
    for suffix in ("", *SUFFIXES):
        try:
            return shrink(home.read(f"{name}{suffix}"))
        except MissingImageError as error:
            reason = reason or error
        except ImageError as error:  # of the first file that is there
            reason = error if reason is None or isinstance(reason, MissingImageError) else reason
    assert reason is not None
    raise reason


def media_type(picture: bytes) -> str | None:
    """PNG or JPEG, by the first bytes; None for anything else."""
    return next((kind for start, kind in _SIGNATURES.items() if picture.startswith(start)), None)


def data_uri(picture: bytes | None) -> str | None:
    """A picture as an address that holds it."""
    if picture is None:
        return None
    kind = media_type(picture) if isinstance(picture, bytes) else None
    if kind is None:
        raise ImageError("A thumbnail must be a PNG or a JPEG")
    return f"data:{kind};base64,{base64.b64encode(picture).decode('ascii')}"


def png(pixels: np.ndarray) -> bytes:
    """Pixels of one byte, (h, w) or (h, w, 3), as a PNG: a header, packed lines, an end."""
    height, width = pixels.shape[:2]
    lines = np.zeros((height, 1 + pixels[0].size), dtype=np.uint8)  # filter 0, then the line
    lines[:, 1:] = pixels.reshape(height, -1)
    colour = 2 if pixels.ndim == 3 else 0
    header = struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(lines.tobytes(), 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )
