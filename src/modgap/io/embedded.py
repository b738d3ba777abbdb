"""The note of `modgap embed` beside its rows: the model, the items, whether all is there."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

from modgap.core.checks import InputError, InputValueError
from modgap.io.embeddings import Embeddings
from modgap.io.images import ImageError, MissingImageError, Thumbnail, shrink
from modgap.io.items import Items, open_items
from modgap.io.remote import read_json_at

NOTE = "embed.json"
SCHEMA = "modgap/embed/2"


def read_embed_note(folder: Any) -> dict[str, Any] | None:
    """The note of an embedded folder; None where nothing was embedded into it."""
    path = folder / NOTE
    if not path.is_file():
        return None
    found = read_json_at(path, "what modgap embed notes")
    if not isinstance(found, dict) or found.get("schema") != SCHEMA:
        raise InputValueError(f"{path} is not one that this version of modgap embed wrote.")
    return found


def finished_note(folder: Any) -> dict[str, Any] | None:
    """The note of an embedded folder, if it has one; refused until the folder is finished."""
    note = read_embed_note(folder)
    if note is not None and note.get("finished") is not True:
        raise InputValueError(
            f"{folder} is not finished: modgap embed was interrupted, or still runs. Run the "
            "same command again; it resumes."
        )
    return note


def source_inside(note: Mapping[str, Any], folder: Path) -> Callable[[], Items] | None:
    """Opens the items that a folder was embedded from; None unless these lie inside the folder.

    A folder from someone else could name any other on this machine, and pictures out of that would
    be on a page that goes back to them.
    """
    source, images = note.get("source"), note.get("images")
    try:
        places = [Path(str(one)).resolve() for one in (source, images) if one]
        inside = all(place.is_relative_to(folder.resolve()) for place in places)
        if not source or not inside or not places[0].exists():
            return None
    except (OSError, ValueError, RuntimeError):  # no path
        return None
    return partial(
        open_items,
        str(source),
        format=note.get("format") or None,
        split=note.get("split"),
        images=images,
    )


def pictures_inside(note: Mapping[str, Any], side: Embeddings, folder: Path) -> Thumbnail | None:
    """Small pictures of images that lie inside their embedded folder; None where they do not."""
    opens = source_inside(note, folder)
    if opens is None or importlib.util.find_spec("PIL") is None:
        return None
    return item_pictures(opens, lambda row: None if side.ids is None else side.ids[row])


def item_pictures(opens: Callable[[], Items], name_of: Callable[[int], Any]) -> Thumbnail:
    """Small pictures of items, found by the names of rows.

    The items are opened for the first picture. One that cannot be read raises an `ImageError`.
    """

    @cache
    def opened() -> tuple[Items, dict[str, int]] | InputError:
        try:
            items = opens()
        except InputError as error:
            return error
        return items, {name: place for place, name in enumerate(items.names)}

    def picture(row: int) -> bytes:
        found = opened()
        if isinstance(found, InputError):
            raise ImageError(str(found)) from found
        items, places = found
        name = str(name_of(row))
        if name not in places:
            raise MissingImageError(f"{items.source} has no {name!r}")
        return shrink(items.stored(places[name]))

    return picture
