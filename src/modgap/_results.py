"""What results have in common: frozen data that turns into plain JSON and into tables."""

from __future__ import annotations

import dataclasses
import html
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from modgap._arrays import is_torch, to_numpy
from modgap._version import __version__

# Within a schema keys are only added, so a reader of version 2 can read every later file of it.
SCHEMA = 2

# Called with what is being done, how many steps are done, and of how many, 0 where that is not
# known.
Progress = Callable[[str, int, int], None]


def silent(step: str, done: int, total: int) -> None:
    """A progress that tells nobody."""


def part_of(progress: Progress, what: str, first: int, last: int, total: int = 100) -> Progress:
    """The progress of a part of larger work, which goes from ``first`` to ``last`` of ``total``.

    It never goes back, whatever the part says of itself.

    >>> heard = []
    >>> part = part_of(lambda *step: heard.append(step), "diagnosing", 10, 60)
    >>> part("measuring", 0, 2), part("hubs", 1, 2), part("reading", 0, 0)
    (None, None, None)
    >>> heard[1:]
    [('diagnosing (hubs)', 35, 100), ('diagnosing (reading)', 35, 100)]
    """
    reached = first

    def said(step: str, done: int, of: int) -> None:
        nonlocal reached
        if of:
            reached = max(reached, first + (last - first) * min(done, of) // of)
        progress(f"{what} ({step})", reached, total)

    return said


@dataclass(frozen=True)
class Result:
    """A frozen result; subclasses add fields. ``to_dict`` gives what JSON can carry."""

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain Python values; arrays become lists, NaN and infinity None."""
        return {f.name: plain(getattr(self, f.name)) for f in dataclasses.fields(self)}


def plain(value: Any) -> Any:
    """A value as JSON knows it."""
    if isinstance(value, Result):
        return value.to_dict()
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if is_torch(value) or isinstance(value, np.ndarray):
        return plain(to_numpy(value).tolist())
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def document(kind: str, result: Result, *, seed: int | None = None, **more: Any) -> dict[str, Any]:
    """A result as a JSON document that says what it is and what wrote it."""
    head = {"schema": f"modgap/{kind}/{SCHEMA}", "version": __version__, "seed": seed}
    return {**head, **plain(more), **result.to_dict()}


def to_json(value: Any) -> str:
    """Plain values as indented JSON; never NaN, which JSON does not know."""
    return json.dumps(plain(value), indent=2, ensure_ascii=False, allow_nan=False)


def number(value: float | None, digits: int = 4) -> str:
    """A number as people read it: few digits, thousands apart, a dash where there is none."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    if isinstance(value, (int, np.integer)):
        return f"{value:,}"
    if value != 0 and (abs(value) >= 1e5 or abs(value) < 10**-digits):
        return f"{value:.3g}"
    return f"{value:.{digits}f}"


def spoken(words: Iterable[str]) -> str:
    """Words as a sentence lists them.

    >>> spoken(["image", "text"]), spoken(["image", "text", "audio"])
    ('image and text', 'image, text and audio')
    """
    *others, last = words
    return f"{', '.join(others)} and {last}" if others else last


def by_side(values: Sequence[Any], key: str = "") -> dict[str, Any]:
    """A value of each modality as JSON has it: of two under x and y, of more as one list.

    >>> by_side([1, 2]), by_side([1, 2], "most"), by_side([1, 2, 3], "most"), by_side([1, 2, 3])
    ({'x': 1, 'y': 2}, {'most_x': 1, 'most_y': 2}, {'most': [1, 2, 3]}, {'sides': [1, 2, 3]})
    """
    if len(values) != 2:
        return {key or "sides": list(values)}
    return {f"{key}_{side}" if key else side: v for side, v in zip("xy", values, strict=True)}


def text_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns aligned with spaces: the first to the left, the others to the right."""
    widths = [max(len(line[c]) for line in (header, *rows)) for c in range(len(header))]

    def line(cells: Sequence[str]) -> str:
        first = cells[0].ljust(widths[0])
        return "  ".join([first, *(c.rjust(w) for c, w in zip(cells[1:], widths[1:], strict=True))])

    return "\n".join(line(cells).rstrip() for cells in (header, *rows))


def html_table(header: Sequence[str], rows: Sequence[Sequence[str]], caption: str) -> str:
    """The same table for a notebook; every cell is text, never markup."""
    head = "".join(f"<th>{html.escape(cell)}</th>" for cell in header)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return (
        f"<table><caption>{html.escape(caption)}</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    )
