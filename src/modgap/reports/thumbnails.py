"""Small pictures of rows: from pixels in memory, or from image files of one folder."""

from __future__ import annotations

import base64
import io
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from modgap._validate import InputValueError, require
from modgap.io import Thumbnail

SIDE = 72
_SUFFIXES = ("", ".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp")
# A picture of more pixels is taken for a decompression bomb and left out.
_MOST_PIXELS = 100_000_000
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

    A name that leads out of the folder, by ``..`` or by a link, has no picture. Files that are
    missing, damaged or no images have none either.
    """
    image: Any = require("PIL.Image", "images", "Thumbnails of image files")
    if not folder.is_dir():
        raise InputValueError(f"--images takes a folder of image files, but {folder} is none.")
    home = folder.resolve()

    def picture(row: int) -> bytes | None:
        path = _inside(home, str(names[row]))
        if path is None:
            return None
        try:
            with image.open(path) as opened:
                if opened.width * opened.height > _MOST_PIXELS:
                    return None
                opened.draft("RGB", (2 * SIDE, 2 * SIDE))
                small = opened.convert("RGB")
                small.thumbnail((SIDE, SIDE))
                out = io.BytesIO()
                small.save(out, "JPEG", quality=70)
        except (OSError, ValueError, SyntaxError, image.DecompressionBombError):
            return None
        return out.getvalue()

    return picture


def _inside(home: Path, name: str) -> Path | None:
    """The file of that name in the folder; None where there is none, or where it lies outside."""
    if not name or "\x00" in name:
        return None
    for suffix in _SUFFIXES:
        try:
            path = (home / f"{name}{suffix}").resolve()
            if path.is_relative_to(home) and path.is_file():
                return path
        except (OSError, RuntimeError, ValueError):  # too long a name, a loop of links
            return None
    return None


def media_type(picture: bytes) -> str | None:
    """PNG or JPEG, by the first bytes; None for anything else."""
    return next((kind for start, kind in _SIGNATURES.items() if picture.startswith(start)), None)


def data_uri(picture: bytes | None) -> str | None:
    """A picture as an address that holds it."""
    if picture is None:
        return None
    kind = media_type(picture)
    if kind is None:
        raise InputValueError("A thumbnail must be a PNG or a JPEG.")
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
