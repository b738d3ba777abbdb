"""Opens the items of a file or folder, whatever its format."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from modgap.core.checks import InputValueError, check_choice
from modgap.core.files import kind_of
from modgap.io._contents import listed
from modgap.io.formats.saved_dataset import find_saved
from modgap.io.images import SUFFIXES as IMAGE_SUFFIXES
from modgap.io.items.arrow import open_parquet_items, open_saved
from modgap.io.items.coco import open_coco
from modgap.io.items.columns import PATH_COLUMNS
from modgap.io.items.folder import find_files, open_folder, open_text
from modgap.io.items.item import Items, Opened, unique_names
from modgap.io.items.records import (
    delimiter,
    find_esc50,
    find_mixbench,
    find_tables,
    open_esc50,
    open_jsonl,
    open_tables,
)
from modgap.io.items.webdataset import open_webdataset
from modgap.io.sounds import SUFFIXES as SOUND_SUFFIXES

_Files = Sequence[Path]


class _Format(NamedTuple):
    """How the files of a format are found in a folder and opened, and words for these files."""

    find: Callable[[Path], _Files]
    open: Callable[[_Files, Any], Opened]
    files: str


def _matching(*patterns: str) -> Callable[[Path], _Files]:
    """The files of a folder by the first pattern that any matches."""

    def find(folder: Path) -> _Files:
        return next((found for one in patterns if (found := sorted(folder.glob(one)))), [])

    return find


_FORMATS = {
    "huggingface": _Format(
        find_saved, open_saved, "state.json or dataset_dict.json of save_to_disk"
    ),
    "esc50": _Format(find_esc50, open_esc50, "meta/esc50.csv and audio/"),
    "mixbench": _Format(find_mixbench, open_jsonl, "corpus.jsonl and queries.jsonl"),
    "parquet": _Format(
        _matching("*.parquet", "data/*.parquet"),  # Hugging Face writes the latter
        open_parquet_items,
        "*.parquet files, or some in data/",
    ),
    # Shards in sub-folders are splits, named as these.
    "webdataset": _Format(_matching("*.tar", "*/*.tar"), open_webdataset, "*.tar shards"),
    "coco": _Format(
        _matching("captions_*.json", "annotations/captions_*.json"),
        open_coco,
        "captions_*.json, or some in annotations/",
    ),
    "csv": _Format(find_tables, open_tables, "a .csv or .tsv of files and captions"),
    "jsonl": _Format(_matching("*.jsonl"), open_jsonl, "*.jsonl files"),
    "images": _Format(
        partial(find_files, suffixes=IMAGE_SUFFIXES), partial(open_folder, kind="image"), "images"
    ),
    "audio": _Format(
        partial(find_files, suffixes=SOUND_SUFFIXES),
        partial(open_folder, kind="audio"),
        "sounds (.wav, .flac, .ogg, .mp3)",
    ),
}
_FOLDERS = ("images", "audio")
# Looked for in this order: the layout of one data set has files of fixed names, and folders of
# files may lie beside any table.
_ORDER = (
    ("huggingface", "esc50", "mixbench"),
    ("parquet", "webdataset", "coco", "csv", "jsonl"),
    _FOLDERS,
)
_SUFFIXES = {
    ".parquet": "parquet",
    ".tar": "webdataset",
    ".json": "coco",
    ".csv": "csv",
    ".tsv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".txt": "text",
}
ITEM_FORMATS = (*_FORMATS, "text")


def open_items(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,  # noqa: A002 - the word users know
    split: str | None = None,
    images: str | os.PathLike[str] | None = None,
) -> Items:
    """The images, sounds or texts of a file or folder, to embed or to train on.

    - **Parquet**, one file or a folder of shards, and **Hugging Face datasets** as
      ``save_to_disk`` writes them: images or sounds as bytes, {bytes, path} or paths.
    - **CSV, TSV or JSON Lines** that name files in a column ``image`` or ``audio``, with captions,
      a label and more; or only texts.
    - **COCO captions JSON** or Karpathy's splits, **WebDataset** shards.
    - **A folder of images or sounds**; sub-folders are classes, below train, val, test or not.
    - **ESC-50** and **MixBench** as published; **a text file** with one text a line.

    Captions, labels and splits are read at once, images and sounds when they are needed.

    Parameters
    ----------
    path : path
        The file or folder.
    format : str, optional
        Needed only where a folder holds more than one: "parquet", "huggingface", "csv", "jsonl",
        "coco", "webdataset", "images", "audio", "esc50", "mixbench" or "text".
    split : str, optional
        Keep the items of this split.
    images : path, optional
        The folder that file names start from, by default beside the file that names them. Nothing
        outside it is read, whatever a name or a link says.
    """
    path = Path(path)
    if format is not None:
        check_choice(format, "format", ITEM_FORMATS)
    home = None if images is None else Path(images)
    if home is not None and not home.is_dir():
        raise InputValueError(f"images must be a folder of files, but {home} is none.")
    if not path.exists():
        raise InputValueError(f"There is no file or folder {str(path)!r}. Check the path.")
    kind, items = _open_file(path, format, home) if path.is_file() else _open(path, format, home)
    if not items:
        raise InputValueError(f"{path} must hold images, sounds or texts, but it has none.")
    data = Items(str(path), unique_names(items), kind)
    return data if split is None else data.split(split)


def _open_file(path: Path, format: str | None, images: Path | None) -> Opened:  # noqa: A002
    if path.stat().st_size == 0:
        raise InputValueError(f"{path} is empty (0 bytes). Write or download it again.")
    kind = format or _SUFFIXES.get(path.suffix.lower())
    if kind == "text" and format is None and _is_table(path):
        kind = "csv"
    if kind == "text":
        return open_text(path)
    if kind is None or kind not in _SUFFIXES.values():
        known = ", ".join(_SUFFIXES)
        raise InputValueError(f"{path} must end in {known}, or be a folder, got {path.suffix!r}.")
    return _FORMATS[kind].open([path], images)


def _is_table(path: Path) -> bool:
    """Whether a .txt is a table, as Flickr8k's captions.txt: its first line names the columns."""
    with path.open("rb") as file:
        header = file.readline(10_000).decode("utf-8-sig", "replace").strip()
    names = [name.strip() for name in header.split(delimiter(header))]
    return len(names) > 1 and any(name in ("image", *PATH_COLUMNS) for name in names)


def _open(folder: Path, format: str | None, images: Path | None) -> Opened:  # noqa: A002
    for names in _ORDER:
        place = images or folder if names is _FOLDERS else folder
        wanted = [name for name in names if format in (None, name)]
        found = {name: files for name in wanted if (files := _FORMATS[name].find(place))}
        if len(found) > 1:
            raise InputValueError(
                f"{folder} holds {listed(list(found))}. Choose one by format, or give the path of "
                "the file."
            )
        for name, files in found.items():
            if names is _FOLDERS:
                return _FORMATS[name].open(files, place)
            _refuse_links_out(files, folder)
            return _FORMATS[name].open(files, images)
    if format == "text":
        expected = "a file of texts: give its path"
    elif format is not None:
        expected = _FORMATS[format].files
    else:
        some = [_FORMATS[name].files for name in (*_FOLDERS, "csv", "jsonl")]
        more = "Parquet, WebDataset or COCO files, or a Hugging Face dataset saved to disk"
        expected = ", ".join([*some, more])
    raise InputValueError(f"{folder} must hold {expected}; nothing of it is there.")


def _refuse_links_out(files: _Files, folder: Path) -> None:
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
