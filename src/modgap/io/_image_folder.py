"""Image files of one folder, and of nowhere else."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

from modgap._validate import InputError, InputValueError

# A compressed image of more bytes is no photograph; reading it could fill the memory.
MOST_BYTES = 256 * 1024**2


class ImageError(InputError, ValueError):
    """One image cannot be used. Readers of many count it and go on."""


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
            if (size := path.stat().st_size) > MOST_BYTES:
                raise ImageError(f"it has {size} bytes, more than the {MOST_BYTES} that are read")
            return path.read_bytes()
        except (OSError, RuntimeError) as error:  # too long a name, a loop of links, no permission
            raise ImageError(f"it cannot be read ({error})") from error


def home_of(first_name: str, candidates: list[Path]) -> Path:
    """The first folder in which the first image lies; the first of all where none has it."""
    for folder in candidates:
        if folder.is_dir() and (folder / first_name).is_file():
            return folder
    return candidates[0]
