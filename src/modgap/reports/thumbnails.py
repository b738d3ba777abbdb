"""Small pictures of rows: from pixels in memory, or from image files of one folder."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from modgap._validate import InputValueError, require
from modgap.io import Thumbnail
from modgap.io.images import (
    SUFFIXES,
    ImageError,
    ImageFolder,
    MissingImageError,
    shrink,
)

_SIGNATURES = {b"\x89PNG\r\n\x1a\n": "image/png", b"\xff\xd8\xff": "image/jpeg"}


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


def from_folder(folder: Path, names: Sequence[Any] | np.ndarray) -> Thumbnail:
    """Pictures of files in a folder, called as the rows' ids say, with or without a suffix.

    A row without an id has no picture. A file that is missing, damaged, no image or too large to
    unpack raises an `ImageError`, and so does a name that leads out of the folder, by ``..`` or by
    a link.
    """
    require("PIL.Image", "images", "Thumbnails of image files")
    if not folder.is_dir():
        raise InputValueError(f"--images takes a folder of image files, but {folder} is none.")
    home = ImageFolder(folder)

    def picture(row: int) -> bytes | None:
        return None if names[row] is None else _first_of(home, str(names[row]))

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
