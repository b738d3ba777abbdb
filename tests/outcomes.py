"""What entries of modgap reproduce find in their fast setting, each run once for all tests."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from conftest import EMBEDDINGS, PUBLISHED, make_pairs
from modgap.core.checks import MissingExtraError
from modgap.reproduce import Outcome, Setting, entries
from modgap.reproduce.setting import OwnRows


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


def own_rows(length: float = 1.0, spread: float = 0.0, classes: bool = True) -> OwnRows:
    """Made-up pairs of six classes in two wordings, of this length, or of lengths that spread."""
    rows = []
    for k, A in enumerate(make_pairs(n=72, d=16)):
        by = length * np.exp(spread * np.random.default_rng(k).standard_normal((len(A), 1)))
        rows.append(by * A / np.linalg.norm(A, axis=1, keepdims=True))
    X, Y = rows
    if not classes:
        return OwnRows(X, Y)
    labels = np.arange(len(X)) % 6
    texts = np.stack([Y[labels == k].mean(axis=0) for k in range(6)])
    return OwnRows(X, Y, labels, texts, texts + 0.1 * np.roll(texts, 1, axis=1))
