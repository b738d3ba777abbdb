"""COCO captions JSON, and Karpathy's splits, with a folder of images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from modgap.core.checks import InputValueError
from modgap.core.limits import read_json
from modgap.io.images import ImageFolder, home_of
from modgap.io.items.item import Item, Opened, clean

# Those of COCO have 90 MB; Python takes about ten times as much for what it reads.
_MOST_BYTES = 1024**3


def open_coco(files: Sequence[Path], images: Path | None) -> Opened:
    """One item per image; several files are splits, named as the files: captions_val2017.json."""
    several = len(files) > 1
    return "image", [item for file in files for item in _open(file, images, several=several)]


def _open(path: Path, images: Path | None, *, several: bool) -> list[Item]:
    data = read_json(path, "captions", _MOST_BYTES)
    entries = data.get("images") if isinstance(data, Mapping) else None
    if not isinstance(entries, list) or not all(isinstance(entry, Mapping) for entry in entries):
        raise InputValueError(
            f'{path} must be COCO captions JSON, {{"images": [...], "annotations": [...]}}.'
        )
    if not entries:
        return []
    has_sentences = "sentences" in entries[0]
    captions = {} if has_sentences else _annotations(data, path)
    split = path.stem.removeprefix("captions_") if several else None
    items = []
    folder: ImageFolder | None = None
    for entry in entries:
        name = _name(entry, path)
        if folder is None:
            folder = ImageFolder(images or home_of(name, _near(path)))
        said = entry.get("sentences") if has_sentences else captions.get(_key(entry.get("id")))
        own_split = entry.get("split", split)
        if not isinstance(own_split, str | None):
            raise InputValueError(f"The split of {name!r} in {path} must be text, got {own_split}.")
        captioned = clean(said if isinstance(said, list) else ())
        items.append(Item(name, captioned, own_split, folder.reader(name, path)))
    return items


def _annotations(data: Mapping[str, Any], path: Path) -> dict[Any, list[Any]]:
    """The captions of every image id."""
    annotations = data.get("annotations")
    captions: dict[Any, list[Any]] = {}
    try:
        for annotation in annotations or ():
            captions.setdefault(_key(annotation["image_id"]), []).append(annotation["caption"])
    except (TypeError, KeyError) as error:
        raise InputValueError(
            f"Every annotation of {path} must have an image_id and a caption, got one without "
            f"({error}). Take the captions_*.json, not the instances."
        ) from error
    return captions


def _key(image_id: Any) -> Any:
    """An id that captions can be looked up by; lists and objects are none."""
    return image_id if isinstance(image_id, (str, int, float)) else None


def _name(entry: Mapping[str, Any], path: Path) -> str:
    """The image's file, relative to the folder of images; Karpathy's files say filepath, too."""
    name = entry.get("file_name", entry.get("filename"))
    if not isinstance(name, str):
        raise InputValueError(f"Every image of {path} must have a file_name, got {dict(entry)!r}.")
    return f"{entry['filepath']}/{name}" if isinstance(entry.get("filepath"), str) else name


def _near(path: Path) -> list[Path]:
    """Where the images usually lie: beside annotations/captions_val2017.json is val2017/."""
    own, above = path.parent, path.parent.parent
    named = path.stem.removeprefix("captions_")
    return [own / named, above / named, own / "images", above / "images", own, above]
