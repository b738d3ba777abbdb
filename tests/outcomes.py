"""What entries of modgap reproduce find in their fast setting, each run once for all tests."""

from __future__ import annotations

from functools import cache

import pytest

from conftest import EMBEDDINGS, PUBLISHED
from modgap.core.checks import MissingExtraError
from modgap.reproduce import Outcome, Setting, entries


@cache
def outcome_of(key: str, *, published: bool = True) -> Outcome:
    """The outcome with the first seed, on the published embeddings or without them."""
    run = entries()[key].run
    assert run is not None
    try:
        return run(Setting(embeddings=EMBEDDINGS if published else ()))
    except MissingExtraError as missing:
        pytest.skip(str(missing))


def published_outcome(key: str) -> Outcome:
    """The same, of an entry that is judged on the published embeddings."""
    if len(EMBEDDINGS) < 2:
        pytest.skip(f"the published embeddings are not at {PUBLISHED}")
    return outcome_of(key)
