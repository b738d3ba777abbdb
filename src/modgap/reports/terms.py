"""What every word and number on the page means, and which paper it comes from (``terms.toml``)."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import Any

Term = dict[str, str]


def terms(names: Sequence[str]) -> dict[str, Term]:
    """Label, definition and source of every term, for modalities of these names."""
    known = _read()
    shown = {key: {"source": "", **term} for key, term in known["terms"].items()}
    for found, asking in (names, names[::-1]):
        words = {"found": found, "Found": found.capitalize(), "asking": asking}
        shown[f"{found}_retrieval_recall@1"] = {
            part: text.format(**words) for part, text in known["recall"].items()
        }
    return shown


def move_words(method: str) -> Term:
    """Key, label and description of a move of the slider, by its correction."""
    found: Term = _read()["moves"][method.partition("(")[0]]
    return found


@cache
def _read() -> dict[str, Any]:
    text = (resources.files("modgap.reports") / "terms.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)
