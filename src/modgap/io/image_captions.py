"""Images with their captions, of any known format: bytes of files, not pixels."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

from modgap._files import kind_of
from modgap._validate import InputValueError, check_choice
from modgap.io._contents import listed
from modgap.io.captions_coco import find_coco, open_coco
from modgap.io.captions_csv import SUFFIXES as CSV_SUFFIXES
from modgap.io.captions_csv import find_csv, open_csv
from modgap.io.captions_parquet import find_parquet, open_caption_parquet
from modgap.io.captions_rows import CaptionRow
from modgap.io.captions_webdataset import find_shards, open_webdataset
from modgap.io.images import ImageError
from modgap.io.items import Items

__all__ = ["ImageCaptions", "ImageError", "open_image_captions"]


class ImageCaptions(Items):
    """Images and the captions of each, in a fixed order; images are read when they are asked for.

    ``left_out`` names the images that have no caption and are therefore not among the rows.
    """

    def __init__(self, source: str, rows: Sequence[CaptionRow], left_out: Sequence[str] = ()):
        super().__init__(source, rows)
        self.left_out = tuple(left_out)

    def image(self, row: int) -> bytes:
        """The image of a row as it is stored: see `stored`."""
        return self.stored(row)

    def _of(self, rows: Sequence[CaptionRow]) -> Self:
        return type(self)(self.source, rows, self.left_out)


# Which files of a folder belong to a format, and how they are opened.
_Found = Sequence[Path]
_FORMATS: dict[
    str, tuple[Callable[[Path], _Found], Callable[[_Found, Path | None], list[CaptionRow]]]
] = {
    "parquet": (find_parquet, open_caption_parquet),
    "webdataset": (find_shards, open_webdataset),
    "coco": (find_coco, open_coco),
    "csv": (find_csv, open_csv),
}
_SUFFIXES = {".parquet": "parquet", ".tar": "webdataset", ".json": "coco"} | dict.fromkeys(
    CSV_SUFFIXES, "csv"
)


def open_image_captions(
    path: str | os.PathLike[str],
    *,
    split: str | None = None,
    images: str | os.PathLike[str] | None = None,
    format: str | None = None,  # noqa: A002 - the word users know
) -> ImageCaptions:
    """Images and captions of a file or folder.

    - **Parquet**, one file or a folder of shards: an image column of bytes, or of the structure
      {bytes, path} of Hugging Face datasets, and captions as lists or one per row.
    - **A folder with a CSV** of columns ``image`` and ``caption``, several rows per image.
    - **COCO captions JSON**, or Karpathy's splits, with a folder of images.
    - **WebDataset** shards, .tar, of images with a .txt (a caption per line) or .json beside.

    Parameters
    ----------
    path : path
        The file or folder.
    split : str, optional
        Keep the images of this split.
    images : path, optional
        The folder that image names start from, by default beside the captions. Nothing outside
        it is read, whatever a name or a link says.
    format : str, optional
        Needed only where a folder holds more than one of these.
    """
    path = Path(path)
    if format is not None:
        check_choice(format, "format", tuple(_FORMATS))
    home = None if images is None else Path(images)
    if home is not None and not home.is_dir():
        raise InputValueError(f"images must be a folder of image files, but {home} is none.")
    kind, files = _find(path, format)
    rows = _FORMATS[kind][1](files, home)
    kept = [row for row in rows if row.captions]
    left_out = [row.name for row in rows if not row.captions]
    if not kept:
        what = f"none of its {len(rows)} images has one" if rows else "it has no images"
        raise InputValueError(f"{path} must hold images with captions, but {what}.")
    data = ImageCaptions(str(path), kept, left_out)
    return data if split is None else data.split(split)


def _find(path: Path, format: str | None) -> tuple[str, _Found]:  # noqa: A002
    """The format of a path and its files."""
    if not path.exists():
        raise InputValueError(f"There is no file or folder {str(path)!r}. Check the path.")
    if path.is_file():
        if path.stat().st_size == 0:
            raise InputValueError(f"{path} is empty (0 bytes). Write or download it again.")
        kind = format or _SUFFIXES.get(path.suffix.lower())
        if kind is None:
            raise InputValueError(
                f"{path} must end in {', '.join(_SUFFIXES)}, or be a folder, got {path.suffix!r}."
            )
        return kind, [path]
    found = {kind: files for kind, (find, _) in _FORMATS.items() if (files := find(path))}
    if format is not None:
        found = {kind: files for kind, files in found.items() if kind == format}
    if len(found) == 1:
        kind, files = next(iter(found.items()))
        refuse_links_out(files, path)
        return kind, files
    wanted = (
        "a folder with a CSV of images and captions, COCO captions JSON, Parquet files or "
        "WebDataset .tar shards"
    )
    if not found:
        raise InputValueError(f"{path} must be {wanted}, got none of these.")
    raise InputValueError(
        f"{path} must be one of these: {wanted}; it holds {listed(list(found))}. "
        "Choose one by format, or give the path of the file."
    )


def refuse_links_out(files: _Found, folder: Path) -> None:
    """Files found in a folder must lie in it: a link may point to anything on the machine."""
    home = folder.resolve()
    for file in files:
        if not file.resolve().is_relative_to(home):
            raise InputValueError(
                f"Files of {folder} must lie in it, but {file.name} is a link that leads out. "
                "Give the folder it leads to, or copy the file."
            )
        if file.exists() and not file.is_file():
            raise InputValueError(f"{file} must be a file to read from, but it is {kind_of(file)}.")
