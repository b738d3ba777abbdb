"""Reads images from outside safely: from one folder, in known formats, of a limited size."""

from __future__ import annotations

import io
import os
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from modgap.core.checks import InputError, InputValueError, first_line

# A compressed image of more bytes is no photograph; reading it could fill the memory.
MAX_BYTES = 256 * 1024**2
# A few kilobytes can unpack to any size. Below Pillow's own limit, so that it need not warn.
MAX_PIXELS = 80_000_000
# A progressive JPEG refines the whole picture in every scan: ten are usual, and the thirty thousand
# that fit in a megabyte take hours.
MAX_SCANS = 100
# Pillow can open formats that start other programs (EPS); photographs come in these. The name of
# a file says nothing about its format.
FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM")
# How files of these are called.
SUFFIXES = (
    *(".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff"),
    *(".ppm", ".pgm", ".pbm"),
)

# The picture of a row as PNG or JPEG, or None where it has none. An ImageError says why one that
# should be there cannot be shown.
Thumbnail = Callable[[int], bytes | None]
# The longer side of a small picture.
THUMBNAIL = 72
_NAMED = 5  # images that a sentence lists
_LONGEST_NAME = 100


class ImageError(InputError, ValueError):
    """One image cannot be used. Readers of many count it and continue."""


class MissingImageError(ImageError):
    """There is no such image."""


def check_size(n_bytes: int) -> None:
    """Refuse a stored image that is too large to be one."""
    if n_bytes > MAX_BYTES:
        raise ImageError(f"it has {n_bytes} bytes, more than the {MAX_BYTES} that are read")


@contextmanager
def one_image() -> Iterator[None]:
    """Whatever fails inside means that one image cannot be used: an `ImageError` says why.

    Damaged images make Pillow raise nearly anything, also after they were opened: a MemoryError
    for a size that was never there, errors of structs, codecs and lookups. All that is done with
    an image from outside belongs inside.
    """
    try:
        with _quiet_pillow:
            yield
    except ImageError:
        raise
    except MemoryError as error:
        raise ImageError("there is not enough memory to unpack it") from error
    except Exception as error:
        said = first_line(error)
        name = type(error).__name__
        raise ImageError(name if said == name else f"{name}: {said}") from error


def unpack_image(stored: bytes, side: int | None = None, mode: Literal["RGB", "L"] = "RGB") -> Any:
    """A stored image as one of Pillow's, in colour or in grey: of an animation, the first picture.

    Parameters
    ----------
    stored : bytes
        The image as it lies in a file, in one of `FORMATS`, whatever its name says.
    side : int, optional
        What it will be scaled to: JPEGs are then unpacked at no more than they need for that.
    mode : {"RGB", "L"}
        Colour or grey.
    """
    from PIL import Image, UnidentifiedImageError

    with one_image():
        check_size(len(stored))
        try:
            opened = Image.open(io.BytesIO(stored), formats=FORMATS)
        except UnidentifiedImageError as error:
            raise ImageError(f"it is damaged, or none of {', '.join(FORMATS)}") from error
        with opened as image:
            _check_claims(image, stored)
            if side is not None:
                image.draft(mode, (2 * side, 2 * side))
            if image.mode.startswith("I"):
                # 16 bits per pixel, which Pillow would clip at 255 instead of scaling.
                high = np.asarray(image) >> 8
                return Image.fromarray(np.clip(high, 0, 255).astype(np.uint8)).convert(mode)
            if "transparency" in image.info:
                return image.convert("RGBA").convert(mode)  # a palette with transparency warns
            return image.convert(mode)


def shrink(stored: bytes, side: int = THUMBNAIL) -> bytes:
    """A stored image as a small JPEG; an `ImageError` where anything is wrong with it."""
    with one_image():
        small = unpack_image(stored, side)
        small.thumbnail((side, side))
        out = io.BytesIO()
        small.save(out, "JPEG", quality=70)
        return out.getvalue()


def _check_claims(image: Any, stored: bytes) -> None:
    """Refuse what would take too much memory or time to unpack; nothing is unpacked yet."""
    if image.width * image.height > MAX_PIXELS:
        raise ImageError(
            f"it would unpack to {image.width} × {image.height} pixels, more than "
            f"{MAX_PIXELS // 10**6} million"
        )
    # In the packed pixels of a JPEG the byte ff is followed by 00: ff da begins a scan.
    if stored.startswith(b"\xff\xd8") and (scans := stored.count(b"\xff\xda")) > MAX_SCANS:
        raise ImageError(f"it is a JPEG of {scans} scans, more than the {MAX_SCANS} that are read")


def unreadable(errors: Sequence[tuple[str, str]], n_images: int) -> str:
    """A sentence that counts the images that could not be read, and names the first.

    >>> unreadable([("a.jpg", "it is cut short")], 500)
    '1 of 500 images could not be read: a.jpg (it is cut short).'
    """
    return f"{len(errors):,} of {n_images:,} images could not be read: {first_of(errors)}."


def first_of(errors: Sequence[tuple[str, str]]) -> str:
    """The first images that could not be read, with the reason of each."""
    most = _LONGEST_NAME
    named = [(n if len(n) <= most else f"{n[:most]}…", why) for n, why in errors[:_NAMED]]
    first = "; ".join(f"{name} ({why})" for name, why in named)
    return f"{first}; and {len(errors) - _NAMED:,} more" if len(errors) > _NAMED else first


class _Quiet:
    """Silences Pillow's warnings about images that are counted and named anyway, in any thread.

    Filters belong to the whole process: the first to enter sets one, the last to leave removes it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._kept: warnings.catch_warnings[None] | None = None

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._kept = warnings.catch_warnings()
                self._kept.__enter__()
                warnings.filterwarnings("ignore", module=r"PIL\.")
            self._inside += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0 and self._kept is not None:
                self._kept.__exit__(None, None, None)


_quiet_pillow = _Quiet()


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
                raise MissingImageError(f"there is no such file in {self.home}")
            with path.open("rb") as file:
                check_size(os.fstat(file.fileno()).st_size)
                return file.read(MAX_BYTES)
        except ImageError:
            raise
        except (OSError, RuntimeError, ValueError) as error:  # too long a name, a loop of links, …
            raise ImageError(f"it cannot be read ({error})") from error


def home_of(first_name: str, candidates: list[Path]) -> Path:
    """The first folder in which the first image lies; the first of all where none has it."""
    return next((one for one in candidates if os.path.isfile(one / first_name)), candidates[0])
