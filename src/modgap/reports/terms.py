"""What every word and number on the page means, and which paper it comes from (``terms.toml``)."""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Sequence
from functools import cache
from importlib import resources
from typing import Any

from modgap.evaluation.metric_names import directions, metric_label

Term = dict[str, str]


def terms(
    names: Sequence[str], queries: Sequence[str] | None = None, apart: Collection[str] = ()
) -> dict[str, Term]:
    """Label, definition and source of every term, for modalities of these names.

    ``queries`` ask, and those ``apart`` have queries that are not documents.
    """
    known = _read()
    shown = {key: {"source": "", **term} for key, term in known["terms"].items()}
    if len(names) > 2:
        for key, words in known["many"].items():
            shown[key] |= words
    ways = {**directions(names, None, apart), **directions(names, queries, apart)}
    for key, (asking, found) in ways.items():
        words = {"found": found, "asking": asking}
        shown[key] = {part: text.format(**words) for part, text in known["recall"].items()}
    for key, term in shown.items():
        term.setdefault("label", metric_label(key, names))
    return shown


def move_words(method: str) -> Term:
    """Key, label and description of a move of the slider, by its correction."""
    found: Term = _read()["moves"][method.partition("(")[0]]
    return found


@cache
def _read() -> dict[str, Any]:
    text = (resources.files("modgap.reports") / "terms.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)
