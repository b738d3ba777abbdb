"""WebDataset shards: tar files whose members share a key, 000001.jpg and 000001.txt."""

from __future__ import annotations

import json
import os
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from modgap.core.checks import InputValueError
from modgap.io._contents import reading
from modgap.io.images import SUFFIXES as IMAGE_SUFFIXES
from modgap.io.images import ImageError, check_size
from modgap.io.items.columns import CAPTION_COLUMNS
from modgap.io.items.item import Item, ItemKind, Opened, clean
from modgap.io.sounds import SUFFIXES as SOUND_SUFFIXES

_KINDS: dict[str, ItemKind] = {
    **{suffix[1:]: "image" for suffix in IMAGE_SUFFIXES},
    **{suffix[1:]: "audio" for suffix in SOUND_SUFFIXES},
}
_MOST_TEXT = 1024**2
_TAR_ERRORS = (tarfile.TarError, OSError, ValueError, OverflowError)


def open_webdataset(files: Sequence[Path], images: Path | None) -> Opened:
    """One item per key that has an image, or where none has one, a sound; a .cls is its label.

    Shards are looked through once; images are then read from where they lie. Nothing is unpacked.
    """
    if images is not None:
        raise InputValueError("WebDataset shards hold their images: leave images out.")
    several = len({file.parent for file in files}) > 1
    found: dict[ItemKind, list[Item]] = {"image": [], "audio": []}
    for file in files:
        for kind, item in _open(file, file.parent.name if several else None):
            found[kind].append(item)
    return ("image", found["image"]) if found["image"] else ("audio", found["audio"])


def _open(path: Path, split: str | None) -> Iterator[tuple[ItemKind, Item]]:
    places: dict[tuple[ItemKind, str], tuple[str, int, int]] = {}
    said: dict[str, dict[str, bytes]] = {}
    size = path.stat().st_size
    with (
        reading(path, "an uncompressed tar shard", *_TAR_ERRORS),
        # "r:" refuses compressed shards: images could not be read from where they lie.
        tarfile.open(path, "r:") as tar,
    ):
        for member in tar:
            if member.size < 0 or member.offset_data + member.size > size:
                raise ValueError(f"{member.name[:80]!r} claims {member.size} bytes")
            if not member.isreg() or member.issparse():
                continue  # links and devices carry no data of their own
            key, suffix = _split_name(member.name)
            if suffix in ("txt", "json", "cls") and member.size <= _MOST_TEXT:
                file = tar.extractfile(member)
                said.setdefault(key, {})[suffix] = file.read() if file else b""
            if (kind := _KINDS.get(suffix)) is not None:
                if (kind, key) in places:
                    raise InputValueError(
                        f"{path} must hold one {'image' if kind == 'image' else 'sound'} per key, "
                        f"got several of {key!r}."
                    )
                places[kind, key] = (suffix, member.offset_data, member.size)
    for (kind, key), (suffix, offset, size) in places.items():
        captions = _captions(said.get(key, {}), path, key)
        read = partial(_read, path, offset, size)
        label = said.get(key, {}).get("cls", b"").decode("utf-8", "replace").strip() or None
        yield kind, Item(f"{path.name}/{key}.{suffix}", captions, split, read, label)


def _split_name(name: str) -> tuple[str, str]:
    """Key and kind of a member: WebDataset cuts at the first dot of the last part.

    >>> _split_name("a.b/0001.seg.png")
    ('a.b/0001', 'seg.png')
    """
    folder, slash, last = name.rpartition("/")
    key, _, kind = last.partition(".")
    return folder + slash + key, kind.lower()


def _captions(said: Mapping[str, bytes], path: Path, key: str) -> tuple[str, ...]:
    """A caption per line of the .txt; without one, ``captions`` or ``caption`` of the .json."""
    with reading(path, f"captions of {key!r}", ValueError, RecursionError):
        if "txt" in said:
            return clean(said["txt"].decode("utf-8").splitlines())
        fields = json.loads(said["json"]) if "json" in said else {}
    for name in CAPTION_COLUMNS:
        if isinstance(fields, Mapping) and name in fields:
            value = fields[name]
            return clean(value if isinstance(value, list) else [value])
    return ()


def _read(path: Path, offset: int, size: int) -> bytes:
    check_size(size)
    try:
        # A file of its own for each read: threads then need no lock.
        with open(path, "rb", buffering=0) as file:
            file.seek(offset, os.SEEK_SET)
            image = file.read(size)
    except OSError as error:
        raise ImageError(f"{path} cannot be read ({error})") from error
    if len(image) < size:
        raise ImageError(f"{path} is cut short")
    return image
