"""Images from outside, read safely: of one folder, of known formats, of a limited size."""

from __future__ import annotations

import io
import os
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from modgap._validate import InputError, InputValueError

# A compressed image of more bytes is no photograph; reading it could fill the memory.
MAX_BYTES = 256 * 1024**2
# A few kilobytes can unpack to any size. Below Pillow's own limit, so that it need not warn.
MAX_PIXELS = 80_000_000
# Pillow can open formats that start other programs (EPS); photographs come in these.
FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM")


class ImageError(InputError, ValueError):
    """One image cannot be used. Readers of many count it and go on."""


def check_size(n_bytes: int) -> None:
    """Refuse a stored image that is too large to be one."""
    if n_bytes > MAX_BYTES:
        raise ImageError(f"it has {n_bytes} bytes, more than the {MAX_BYTES} that are read")


def unpack_image(stored: bytes, side: int, mode: Literal["RGB", "L"] = "RGB") -> Any:
    """A stored image as one of Pillow's, in colour or in grey.

    ``side`` is what it will be scaled to: JPEGs are unpacked at no more than they need for that.
    """
    from PIL import Image

    try:
        with Image.open(io.BytesIO(stored), formats=FORMATS) as image:
            if image.width * image.height > MAX_PIXELS:
                raise ImageError(
                    f"it would unpack to {image.width} × {image.height} pixels, more than "
                    f"{MAX_PIXELS // 10**6} million"
                )
            image.draft(mode, (2 * side, 2 * side))
            if image.mode.startswith("I"):
                # 16 bits per pixel, which Pillow would clip at 255 instead of scaling.
                high = np.asarray(image).astype(np.int64) >> 8
                return Image.fromarray(np.clip(high, 0, 255).astype(np.uint8)).convert(mode)
            if "transparency" in image.info:
                return image.convert("RGBA").convert(mode)  # a palette with transparency warns
            return image.convert(mode)
    except (ImageError, MemoryError):
        raise
    except Exception as error:  # damaged images make Pillow raise nearly anything
        raise ImageError(f"{type(error).__name__}: {error}") from error


def square_pixels(image: Any, size: int) -> np.ndarray:
    """An image of Pillow as a square: uint8 (channels, size, size).

    The shorter side is scaled to ``size`` (bicubic, as CLIP's image processor does) and the middle
    is kept.
    """
    from PIL import Image

    square = image.resize((size, size), Image.Resampling.BICUBIC, box=_middle(image.size, size))
    return np.asarray(square).reshape(size, size, -1).transpose(2, 0, 1)


def _middle(sides: tuple[int, int], size: int) -> tuple[float, float, float, float]:
    """The part of an image that scaling the shorter side and cutting out the middle would keep.

    Scaling that part alone gives the same pixels up to rounding, and a very long image no huge
    copy.
    """
    short = min(sides)
    starts, stops = [], []
    for side in sides:
        scaled = size * side // short
        first = (scaled - size) // 2
        starts.append(first * side / scaled)
        stops.append((first + size) * side / scaled)
    return (starts[0], starts[1], stops[0], stops[1])


class ImageFolder:
    """Reads files by their names relative to ``home``; links and ``..`` cannot lead out of it.

    ``home`` itself may be a link: it is what the user named.
    """

    def __init__(self, home: Path) -> None:
        self.home = home.resolve()

    def reader(self, name: str, listed_in: Path) -> partial[bytes]:
        """What reads the file of that name; a name that points outside is refused at once."""
        outside = os.path.isabs(name) or os.path.normpath(name).split(os.sep)[0] == os.pardir
        if not name or "\x00" in name or outside:
            raise InputValueError(
                f"{listed_in} must name images inside {self.home}, got {name!r}. Write names "
                "relative to that folder, or pass the folder that holds them as images."
            )
        return partial(self.read, name)

    def read(self, name: str) -> bytes:
        """The bytes of a file in the folder."""
        try:
            path = (self.home / name).resolve()
            if not path.is_relative_to(self.home):
                raise ImageError(f"a link leads out of {self.home}")
            if not path.is_file():
                raise ImageError(f"there is no such file in {self.home}")
            check_size(path.stat().st_size)
            return path.read_bytes()
        except ImageError:
            raise
        except (OSError, RuntimeError, ValueError) as error:  # too long a name, a loop of links, …
            raise ImageError(f"it cannot be read ({error})") from error


def home_of(first_name: str, candidates: list[Path]) -> Path:
    """The first folder in which the first image lies; the first of all where none has it."""
    for folder in candidates:
        if os.path.isfile(folder / first_name):
            return folder
    return candidates[0]
