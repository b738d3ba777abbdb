"""What rows are called on the page and by the server: captions, else ids, as text."""

from __future__ import annotations

from typing import Any

import numpy as np

from modgap.io import Embeddings

_LABEL_LENGTH = 300


def row_labels(
    side: Embeddings, rows: np.ndarray, most: int = _LABEL_LENGTH
) -> list[str | None] | None:
    """The caption of each row, else its id, cut where long; None where there is neither."""
    texts = side.captions if side.captions is not None else side.ids
    return None if texts is None else [label_text(texts[row], most) for row in rows.tolist()]


def row_ids(side: Embeddings, rows: np.ndarray) -> list[str | None] | None:
    """The id of each row beside its caption; None where it has none, or is labelled by it."""
    if side.ids is None or side.captions is None:
        return None
    return [label_text(side.ids[row]) for row in rows.tolist()]


def label_text(value: Any, most: int = _LABEL_LENGTH) -> str | None:
    """A value as text that JSON can carry, cut at ``most`` characters; None stays None."""
    if value is None:
        return None
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    if len(text) > most:
        text = text[: most - 1] + "…"
    # A lone surrogate is text to Python and cannot be sent.
    return text.encode("utf-8", "replace").decode("utf-8")
