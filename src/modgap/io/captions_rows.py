"""What the readers of images with captions share: one row per image."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from modgap._claims import TEXT_LENGTH
from modgap._validate import InputValueError
from modgap.io._contents import listed

IMAGE_COLUMNS = ("image", "file_name", "filename", "filepath", "image_name", "image_path", "path")
CAPTION_COLUMNS = ("captions", "caption", "text", "title", "sentences", "raw")
NAME_COLUMNS = ("name", "file_name", "filename", "image_name", "key", "image_id", "img_id", "id")
SPLIT_COLUMNS = ("split",)


@dataclass(frozen=True, eq=False)
class CaptionRow:
    """An image: its name, its captions, its split if one is stated, and how to read its bytes."""

    name: str
    captions: tuple[str, ...]
    split: str | None
    read: Callable[[], bytes]


def merged(rows: Iterable[CaptionRow]) -> list[CaptionRow]:
    """One row per name and split, where it first appears, with the captions of all of them."""
    first: dict[tuple[str, str | None], CaptionRow] = {}
    captions: dict[tuple[str, str | None], list[str]] = {}
    for row in rows:
        key = (row.name, row.split)
        first.setdefault(key, row)
        captions.setdefault(key, []).extend(row.captions)
    return [replace(row, captions=tuple(captions[key])) for key, row in first.items()]


def clean(captions: Iterable[object]) -> tuple[str, ...]:
    """Captions without white space at the ends; what is empty or no text is left out.

    Karpathy's sentences, {"raw": ...}, are taken by their text.

    >>> clean([" A dog runs .\\n", "", None, {"raw": "A cat."}])
    ('A dog runs .', 'A cat.')
    """
    texts = (
        caption.get("raw") if isinstance(caption, Mapping) else caption for caption in captions
    )
    stripped = (text.strip() for text in texts if isinstance(text, str))
    found = tuple(text for text in stripped if text)
    for text in found:
        if len(text) > TEXT_LENGTH:
            raise InputValueError(
                f"A caption has {len(text):,} characters, more than the {TEXT_LENGTH:,} that are "
                f"read: {text[:40]!r} …"
            )
    return found


def choose_column(
    names: Sequence[str], known: Sequence[str], what: str, path: Path, *, needed: bool = True
) -> str | None:
    """The column of a table that has one of the known names; the first known one wins."""
    for name in known:
        if name in names:
            return name
    if not needed:
        return None
    raise InputValueError(
        f"{path} must have a column of {what}, called {listed(known[:2])} for instance. "
        f"It has {listed(names)}."
    )
