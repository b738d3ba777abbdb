"""Small drawings for notebooks: ranges on one scale, and what is done to rows step by step."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

_PLOT, _VALUES, _LINE, _TOP = 330, 60, 22, 30
# About the width of a letter, and the most that labels may take.
_LETTER, _MOST_LABEL = 6.6, 400
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


@dataclass(frozen=True)
class Ranges:
    """What a result draws on one scale, in a notebook and in a figure alike.

    ``reference`` is a dashed line across; the scale reaches over ``span`` whatever is drawn.
    """

    title: str
    lines: Sequence[Range]
    reference: float | None = None
    span: tuple[float, ...] = ()

    def svg(self) -> str:
        """The drawing for a notebook; "" where no line has a value.

        Text takes the colour of the page around it, so it can be read on light and on dark.
        """
        lines = [line for line in self.lines if math.isfinite(line.value)]
        if not lines:
            return ""
        ends = [v for line in lines for v in (line.low, line.high, line.value) if math.isfinite(v)]
        ends += [v for v in (self.reference, *self.span) if v is not None and math.isfinite(v)]
        low, high = min(ends), max(ends)
        span = high - low or 1.0
        labels = _room([line.label for line in lines])

        def across(value: float) -> float:
            return labels + 8 + (value - low) / span * (_PLOT - 16)

        width, height = labels + _PLOT + _VALUES, _TOP + _LINE * len(lines) + 22
        parts = _opened(self.title, width, height)
        if self.reference is not None and math.isfinite(self.reference):
            x = across(self.reference)
            parts.append(
                f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP - 6}" y2="{_TOP + _LINE * len(lines)}" '
                'stroke="currentColor" stroke-dasharray="3 3" opacity="0.6"/>'
            )
        for number, line in enumerate(lines):
            parts.append(_line(line, labels, _TOP + _LINE * (number + 0.5), across))
        for value, anchor in ((low, "start"), (high, "end")):
            parts.append(
                f'<text x="{across(value):.1f}" y="{height - 5}" text-anchor="{anchor}" '
                f'opacity="0.7">{value:.2f}</text>'
            )
        return "".join([*parts, "</svg>"])


def _line(line: Range, labels: int, y: float, across: Callable[[float], float]) -> str:
    colour = _STRONG if line.marked else _PLAIN
    weight = ' font-weight="bold"' if line.marked else ""
    parts = [
        f'<text x="{labels - 8}" y="{y + 4:.1f}" text-anchor="end"{weight}>'
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
    parts.append(f'<text x="{labels + _PLOT + 6}" y="{y + 4:.1f}"{weight}>{line.value:.3f}</text>')
    return "".join(parts)


def draw_steps(title: str, lanes: Sequence[tuple[str, Sequence[str]]]) -> str:
    """A line of HTML for each kind of rows: what they are, then every step in a box."""
    box = '<span style="border:1px solid;border-radius:4px;padding:0 6px">'
    lines = "".join(
        f'<p style="margin:6px 0">{html.escape(label)}: '
        + " → ".join(f"{box}{html.escape(step)}</span>" for step in steps)
        + "</p>"
        for label, steps in lanes
    )
    return f"<b>{html.escape(title)}</b>{lines}"


def _room(labels: Sequence[str]) -> int:
    """Pixels for labels, some of them bold."""
    return min(_MOST_LABEL, 24 + math.ceil(1.1 * _LETTER * max(map(len, labels))))


def _opened(title: str, width: int, height: int) -> list[str]:
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'role="img" aria-label="{html.escape(title)}" style="max-width:100%;height:auto" '
        'font-family="sans-serif" font-size="12" fill="currentColor">',
        f'<text x="0" y="14" font-weight="bold">{html.escape(title)}</text>',
    ]
