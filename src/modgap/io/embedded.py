"""What `modgap embed` notes beside its rows: the model, the items, whether all is there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from modgap._validate import InputValueError

NOTE = "embed.json"
SCHEMA = "modgap/embed/2"


def read_note(folder: Path) -> dict[str, Any] | None:
    """What a folder says of itself; None where nothing was embedded into it."""
    path = folder / NOTE
    if not path.is_file():
        return None
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise InputValueError(f"{path} is damaged ({error}). Embed into another folder.") from error
    if not isinstance(found, dict) or found.get("schema") != SCHEMA:
        raise InputValueError(f"{path} is not one that this version of modgap embed wrote.")
    return found


def check_finished(folder: Path) -> None:
    """Refuse a folder that is still being embedded into, or was when that was stopped."""
    note = read_note(folder)
    if note is not None and note.get("finished") is not True:
        raise InputValueError(
            f"{folder} is not finished: modgap embed was stopped, or is still at work. Run the "
            "same command again; it goes on where it was."
        )
