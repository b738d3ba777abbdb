"""Which format the items of a file or folder have."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from modgap._files import kind_of
from modgap._validate import InputValueError, check_choice
from modgap.io._contents import listed
from modgap.io.formats.saved_dataset import find_saved
from modgap.io.images import SUFFIXES as IMAGE_SUFFIXES
from modgap.io.items.arrow import find_parquet, open_parquet_items, open_saved
from modgap.io.items.coco import find_coco, open_coco
from modgap.io.items.columns import names_files
from modgap.io.items.folder import find_files, open_folder, open_text
from modgap.io.items.item import ItemKind, Items, Opened, unique_names
from modgap.io.items.records import (
    delimiter,
    find_esc50,
    find_jsonl,
    find_mixbench,
    find_tables,
    open_esc50,
    open_jsonl,
    open_tables,
)
from modgap.io.items.webdataset import find_shards, open_webdataset
from modgap.io.sounds import SUFFIXES as SOUND_SUFFIXES

_Files = Sequence[Path]
_Open = Callable[[_Files, Path | None], Opened]

# A layout of one data set has files of fixed names, so it is looked for before the formats.
_LAYOUTS: dict[str, tuple[Callable[[Path], _Files], _Open]] = {
    "huggingface": (find_saved, open_saved),
    "esc50": (find_esc50, open_esc50),
    "mixbench": (find_mixbench, open_jsonl),
}
_FORMATS: dict[str, tuple[Callable[[Path], _Files], _Open]] = {
    "parquet": (find_parquet, open_parquet_items),
    "webdataset": (find_shards, open_webdataset),
    "coco": (find_coco, open_coco),
    "csv": (find_tables, open_tables),
    "jsonl": (find_jsonl, open_jsonl),
}
_FOLDERS: dict[str, tuple[ItemKind, Sequence[str]]] = {
    "images": ("image", IMAGE_SUFFIXES),
    "audio": ("audio", SOUND_SUFFIXES),
}
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
ITEM_FORMATS = (*_LAYOUTS, *_FORMATS, *_FOLDERS, "text")


def open_items(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,  # noqa: A002 - the word users know
    split: str | None = None,
    images: str | os.PathLike[str] | None = None,
) -> Items:
    """What can be embedded in a file or folder: images, sounds or texts.

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
    if kind not in _FORMATS:
        known = ", ".join(_SUFFIXES)
        raise InputValueError(f"{path} must end in {known}, or be a folder, got {path.suffix!r}.")
    return _FORMATS[kind][1]([path], images)


def _is_table(path: Path) -> bool:
    """Whether a .txt is a table, as Flickr8k's captions.txt: its first line names the columns."""
    with path.open("rb") as file:
        header = file.readline(10_000).decode("utf-8-sig", "replace").strip()
    names = [name.strip() for name in header.split(delimiter(header))]
    return len(names) > 1 and names_files(names)


def _open(folder: Path, format: str | None, images: Path | None) -> Opened:  # noqa: A002
    for table in (_LAYOUTS, _FORMATS):
        wanted = table if format is None else {format: table[format]} if format in table else {}
        found = {name: files for name, (find, _) in wanted.items() if (files := find(folder))}
        if len(found) > 1:
            raise InputValueError(
                f"{folder} holds {listed(list(found))}. Choose one by format, or give the path of "
                "the file."
            )
        for name, files in found.items():
            _refuse_links_out(files, folder)
            return table[name][1](files, images)
    below = {
        name: files
        for name, (_, suffixes) in _FOLDERS.items()
        if format in (None, name) and (files := find_files(images or folder, suffixes))
    }
    if len(below) == 1:
        name, files = next(iter(below.items()))
        return open_folder(images or folder, files, _FOLDERS[name][0])
    if below:
        raise InputValueError(
            f"{folder} holds images and sounds. Choose one by format: 'images' or 'audio'."
        )
    raise InputValueError(f"{folder} must hold {_expected(format)}; nothing of it is there.")


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


def _expected(format: str | None) -> str:  # noqa: A002
    """The files that a format, or any of them, would have."""
    expected = {
        "parquet": "*.parquet files, or some in data/",
        "huggingface": "state.json or dataset_dict.json of save_to_disk",
        "csv": "a .csv or .tsv of files and captions",
        "jsonl": "*.jsonl files",
        "coco": "captions_*.json, or some in annotations/",
        "webdataset": "*.tar shards",
        "images": "images",
        "audio": "sounds (.wav, .flac, .ogg, .mp3)",
        "esc50": "meta/esc50.csv and audio/",
        "mixbench": "corpus.jsonl and queries.jsonl",
    }
    if format == "text":
        return "a file of texts: give its path"
    if format is not None:
        return expected[format]
    *most, last = [expected[name] for name in ("images", "audio", "csv", "jsonl")]
    more = "Parquet, WebDataset or COCO files, or a Hugging Face dataset saved to disk"
    return f"{', '.join(most)}, {last}, {more}"
