"""Whether an embedded folder may say where its images are.

A folder of someone else could name any other on this machine, and pictures out of that would be on
a page that goes back to them. So `modgap embed` marks its notes with a key that only this user has.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_KEY = "embed.key"
_BYTES = 32
_SAID = ("source", "images", "format", "split")


def mark_of(note: Mapping[str, Any]) -> str | None:
    """The mark of a note that this user writes; None where no key can be kept."""
    key = _own_key(make=True)
    return None if key is None else _mark(note, key)


def is_own(note: Mapping[str, Any], folder: Path) -> bool:
    """Whether what a note says of its source may be followed.

    It may where this user embedded it, or where all of it lies in the embedded folder.
    """
    key, mark = _own_key(make=False), note.get("mark")
    if key is not None and isinstance(mark, str):
        same = hmac.compare_digest(_mark(note, key).encode(), mark.encode("utf-8", "replace"))
        if same:
            return True
    named = [note.get("source"), note.get("images")]
    home = folder.resolve()
    try:
        return all(Path(str(one)).resolve().is_relative_to(home) for one in named if one)
    except (OSError, ValueError, RuntimeError):
        return False


def _mark(note: Mapping[str, Any], key: bytes) -> str:
    said = json.dumps([note.get(name) for name in _SAID])
    return hmac.new(key, said.encode(), hashlib.sha256).hexdigest()


def _own_key(*, make: bool) -> bytes | None:
    """This user's key, from a file that only they can read."""
    state = os.environ.get("XDG_STATE_HOME", "")
    try:
        base = Path(state) if os.path.isabs(state) else Path.home() / ".local" / "state"
    except RuntimeError:  # a user without a home
        return None
    place = base / "modgap"
    path = place / _KEY
    try:
        if make and not path.exists():
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
            opened = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
            with open(opened, "wb") as file:
                file.write(secrets.token_bytes(_BYTES))
    except FileExistsError:
        pass  # another run was faster
    except OSError:
        return None
    try:
        key = path.read_bytes()
    except OSError:
        return None
    return key if len(key) == _BYTES else None
