"""What entries of modgap reproduce find in their fast setting, each run once for all tests."""

from __future__ import annotations

from functools import cache

from conftest import EMBEDDINGS
from modgap.reproduce import Outcome, Setting, entries


@cache
def outcome_of(key: str, *, published: bool = True) -> Outcome:
    """The outcome with the first seed, on the published embeddings or without them."""
    run = entries()[key].run
    assert run is not None
    return run(Setting(embeddings=EMBEDDINGS if published else ()))
