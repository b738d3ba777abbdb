"""What `modgap embed` notes beside its rows: the model, the items, whether all is there."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from modgap._validate import InputError, InputValueError
from modgap.io.embeddings import Embeddings
from modgap.io.images import ImageError, shrink
from modgap.io.items import Items, open_items
from modgap.io.origin import is_own
from modgap.io.remote import read_json_at

Thumbnail = Callable[[int], bytes | None]

NOTE = "embed.json"
SCHEMA = "modgap/embed/2"


def read_note(folder: Any) -> dict[str, Any] | None:
    """What a folder says of itself; None where nothing was embedded into it."""
    path = folder / NOTE
    if not path.is_file():
        return None
    found = read_json_at(path, "what modgap embed notes")
    if not isinstance(found, dict) or found.get("schema") != SCHEMA:
        raise InputValueError(f"{path} is not one that this version of modgap embed wrote.")
    return found


def finished_note(folder: Any) -> dict[str, Any] | None:
    """What a folder says of itself, if it does; refused while it is still embedded into."""
    note = read_note(folder)
    if note is not None and note.get("finished") is not True:
        raise InputValueError(
            f"{folder} is not finished: modgap embed was stopped, or is still at work. Run the "
            "same command again; it goes on where it was."
        )
    return note


def pictures(note: Mapping[str, Any], side: Embeddings, folder: Path) -> Thumbnail | None:
    """Small pictures of embedded images, from the data they were embedded from.

    None where that is not there any more, or where someone else's folder names it. Its files are
    opened when the first picture is asked for; one that cannot be read raises an `ImageError`.
    """
    source = Path(str(note.get("source")))
    if not is_own(note, folder) or not source.exists() or importlib.util.find_spec("PIL") is None:
        return None

    @cache
    def opened() -> tuple[Items, dict[str, int]]:
        images = note.get("images")
        found = open_items(
            source, format=note.get("format") or None, split=note.get("split"), images=images
        )
        return found, {name: row for row, name in enumerate(found.names)}

    def picture(row: int) -> bytes:
        try:
            items, places = opened()
        except InputError as error:
            raise ImageError(str(error)) from error
        name = str(None if side.ids is None else side.ids[row])
        if name not in places:
            raise ImageError(f"{source} has it no more")
        return shrink(items.stored(places[name]))

    return picture
