"""What results have in common: frozen data that turns into plain JSON and into tables."""

from __future__ import annotations

import dataclasses
import html
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

import array_api_compat
import numpy as np

from modgap._version import __version__

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Within a schema keys are only added, so a reader of version 2 can read every later file of it.
SCHEMA = 2

# What a repr shows at most: letters of the line and of one text, items of one tuple.
_MAX_LINE, _MAX_TEXT, _MAX_ITEMS = 160, 40, 4

# Called with what is being done, how many steps are done, and of how many, 0 where that is not
# known.
Progress = Callable[[str, int, int], None]

# A header and rows.
Table = tuple[tuple[str, ...], list[tuple[str, ...]]]
Kind = TypeVar("Kind")
# Of a field that ``to_dict`` leaves out: an entry per item, or what has a file of its own.
NOT_IN_JSON = {"json": False}


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


class Brief:
    """Says what it is in one line: ``repr`` has its main numbers, never arrays or nested results.

    A dataclass that inherits from it says what to show in ``_brief``; else every field that fits.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        # In the class itself: there @dataclass looks before it writes a repr of its own.
        cls.__repr__ = cls.__repr__  # type: ignore[method-assign]

    def __repr__(self) -> str:
        said = f"{type(self).__name__}({self._brief()})"
        line = "".join(c if c.isprintable() else " " for c in said)  # of hostile names too
        return line if len(line) <= _MAX_LINE else f"{line[: _MAX_LINE - 2]}…)"

    def _brief(self) -> str:
        fields = dataclasses.fields(self)  # type: ignore[arg-type]
        shown = {f.name: _brief_value(getattr(self, f.name)) for f in fields if f.repr}
        return ", ".join(f"{name}={text}" for name, text in shown.items() if text)


def _brief_value(value: Any) -> str:
    """A value in few letters; "" for what has more to say than fits, such as another result."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int)):
        return str(value)
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, str):
        return repr(value if len(value) <= _MAX_TEXT else f"{value[: _MAX_TEXT - 1]}…")
    if array_api_compat.is_torch_array(value) or isinstance(value, np.ndarray):
        return f"array{tuple(value.shape)}"
    if isinstance(value, (Mapping, list, tuple)):
        items = [] if isinstance(value, Mapping) else [_brief_value(item) for item in value]
        few = 0 < len(items) <= _MAX_ITEMS and all(items)
        return f"({', '.join(items)})" if few else f"<{len(value)}>" if len(value) else ""
    return ""


class HasFigure:
    """A result with a figure of its own."""

    def plot(self, *, title: str = "", ax: Axes | None = None) -> Axes:
        """Draw it with matplotlib, into new axes or into ``ax``, and return the axes."""
        # Figures come after results in the way of the data: found by name, when one is wanted.
        axes: Axes = import_module("modgap.plot").draw(self, title=title, ax=ax)
        return axes


def unchecked(kind: type[Kind], **values: Any) -> Kind:
    """A frozen dataclass of numbers that we made: its constructor checks those of others.

    Whoever makes them checks them, once.
    """
    made = object.__new__(kind)
    for one in dataclasses.fields(kind):  # type: ignore[arg-type]
        if one.name in values:
            value = values[one.name]
        else:
            value = one.default
            if one.default_factory is not dataclasses.MISSING:
                value = one.default_factory()
        made.__dict__[one.name] = value
    return made


def changed(given: Kind, **values: Any) -> Kind:
    """``replace`` without the checks of the constructor, see ``unchecked``."""
    held = {one.name: getattr(given, one.name) for one in dataclasses.fields(given)}  # type: ignore[arg-type]
    return unchecked(type(given), **{**held, **values})


@dataclass(frozen=True)
class Result(Brief):
    """A frozen result; subclasses add fields. ``to_dict`` gives what JSON can carry."""

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain Python values; arrays become lists, NaN and infinity None.

        Fields with the metadata ``NOT_IN_JSON`` are left out.
        """
        kept = (f.name for f in dataclasses.fields(self) if f.metadata.get("json", True))
        return {name: plain(getattr(self, name)) for name in kept}


def plain(value: Any) -> Any:
    """A value as JSON knows it."""
    if isinstance(value, Result):
        return value.to_dict()
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if array_api_compat.is_torch_array(value) or isinstance(value, np.ndarray):
        return plain(value.tolist())
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


def signed(value: float) -> str:
    """A change as people read it, with a plus or a minus sign.

    >>> signed(0.0126), signed(-0.006)
    ('+0.013', '−0.006')
    """
    return f"{value:+.3f}".replace("-", "−")


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
    """The same table as HTML; every cell is text, never markup."""
    head = "".join(f"<th>{html.escape(cell)}</th>" for cell in header)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return (
        f"<table><caption>{html.escape(caption)}</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    )


def notebook_table(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    caption: str = "",
    marked: int | None = None,
    *,
    words: bool = False,
) -> str:
    """The table for a notebook, on light or dark: styles in place, since nothing else is sure.

    The row ``marked`` stands out. Where the cells are ``words``, all are set to the left.
    """

    def line(tag: str, cells: Sequence[str], style: str) -> str:
        sides = ["left", *["left" if words else "right"] * (len(cells) - 1)]
        return "".join(
            f'<{tag} style="text-align:{side};padding:2px 10px;{style}">'
            f"{html.escape(cell).replace('  ', '&emsp;')}</{tag}>"
            for cell, side in zip(cells, sides, strict=True)
        )

    under = "font-weight:600;border-bottom:1px solid rgba(128,128,128,.6)"
    head = f"<thead><tr>{line('th', header, under)}</tr></thead>" if any(header) else ""
    body = "".join(
        f"<tr>{line('td', row, 'font-weight:600' if place == marked else '')}</tr>"
        for place, row in enumerate(rows)
    )
    said = (
        '<caption style="caption-side:top;text-align:left;padding:4px 10px;color:inherit">'
        f"{html.escape(caption)}</caption>"
    )
    return (
        '<table style="border-collapse:collapse;font-variant-numeric:tabular-nums;margin:4px 0;'
        'color:inherit">'
        f"{said if caption else ''}{head}<tbody>{body}</tbody></table>"
    )


def notebook_words(text: str) -> str:
    """A sentence for a notebook, as text."""
    return f'<p style="margin:4px 0 8px;line-height:1.45">{html.escape(text)}</p>'


def notebook_html(*parts: str) -> str:
    """Drawings and tables below each other, no wider than the notebook."""
    shown = "".join(f"<div>{part}</div>" for part in parts if part)
    return f'<div style="max-width:960px;overflow-x:auto">{shown}</div>'
