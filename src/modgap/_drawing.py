"""A small drawing for notebooks: one line per thing, its range, its middle and its value."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

_LABELS, _PLOT, _VALUES, _LINE, _TOP = 285, 330, 60, 22, 30
_STRONG, _PLAIN = "#d55e00", "#0072b2"  # told apart by the colour-blind too


@dataclass(frozen=True)
class Range:
    """A line of the drawing. ``middle`` is drawn thick; a marked line stands out."""

    label: str
    value: float
    low: float
    high: float
    middle: tuple[float, float] | None = None
    marked: bool = False


def draw_ranges(title: str, lines: Sequence[Range], reference: float | None = None) -> str:
    """An SVG of the ranges on one scale; ``reference`` is a dashed line across. "" without lines.

    Text takes the colour of the page around it, so that it reads on light and on dark.
    """
    lines = [line for line in lines if math.isfinite(line.value)]
    if not lines:
        return ""
    ends = [v for line in lines for v in (line.low, line.high, line.value) if math.isfinite(v)]
    ends += [reference] if reference is not None and math.isfinite(reference) else []
    low, high = min(ends), max(ends)
    span = high - low or 1.0

    def across(value: float) -> float:
        return _LABELS + 8 + (value - low) / span * (_PLOT - 16)

    width, height = _LABELS + _PLOT + _VALUES, _TOP + _LINE * len(lines) + 22
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'role="img" aria-label="{html.escape(title)}" style="max-width:100%;height:auto" '
        'font-family="sans-serif" font-size="12" fill="currentColor">',
        f'<text x="0" y="14" font-weight="bold">{html.escape(title)}</text>',
    ]
    if reference is not None and math.isfinite(reference):
        x = across(reference)
        parts.append(
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP - 6}" y2="{_TOP + _LINE * len(lines)}" '
            'stroke="currentColor" stroke-dasharray="3 3" opacity="0.6"/>'
        )
    for number, line in enumerate(lines):
        parts.append(_line(line, _TOP + _LINE * (number + 0.5), across))
    for value, anchor in ((low, "start"), (high, "end")):
        parts.append(
            f'<text x="{across(value):.1f}" y="{height - 5}" text-anchor="{anchor}" opacity="0.7">'
            f"{value:.2f}</text>"
        )
    return "".join([*parts, "</svg>"])


def _line(line: Range, y: float, across: Callable[[float], float]) -> str:
    colour = _STRONG if line.marked else _PLAIN
    weight = ' font-weight="bold"' if line.marked else ""
    parts = [
        f'<text x="{_LABELS - 8}" y="{y + 4:.1f}" text-anchor="end"{weight}>'
        f"{html.escape(line.label)}</text>"
    ]
    spans = [((line.low, line.high), 1.5)]
    spans += [(line.middle, 7.0)] if line.middle is not None else []
    for (start, end), thickness in spans:
        if math.isfinite(start) and math.isfinite(end):
            parts.append(
                f'<line x1="{across(start):.1f}" x2="{across(end):.1f}" y1="{y:.1f}" y2="{y:.1f}" '
                f'stroke="{colour}" stroke-width="{thickness}"/>'
            )
    x = across(line.value)
    parts.append(
        f'<path d="M{x - 5:.1f} {y:.1f}l5 -5l5 5l-5 5Z" fill="{colour}"/>'
        if line.marked
        else f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}" stroke="#fff"/>'
    )
    parts.append(f'<text x="{_LABELS + _PLOT + 6}" y="{y + 4:.1f}"{weight}>{line.value:.3f}</text>')
    return "".join(parts)
