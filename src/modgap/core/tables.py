"""Tables of results for other programs: pandas and LaTeX."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from modgap.core.checks import require

if TYPE_CHECKING:
    import pandas

# What stands for a number in a cell: a sign, thousands apart, a star for a significant change.
_NUMBER = r"[+−-]?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?"
_ALONE = re.compile(rf"({_NUMBER})\*?")
_INTERVAL = re.compile(rf"({_NUMBER}) \[({_NUMBER}), ({_NUMBER})\]")
_NOTHING = ("", "–")
_SPECIAL = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "→": r"$\rightarrow$", "−": "$-$", "<": "$<$", ">": "$>$", "–": "--", "σ": r"$\sigma$",
    "α": r"$\alpha$", "≤": r"$\le$", "×": r"$\times$", **{c: f"\\{c}" for c in "&%$#_{}"},
}  # fmt: skip


class HasTable:
    """A result with a table: a header and rows of text, as people read them."""

    def table(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """Header and rows."""
        raise NotImplementedError

    def to_pandas(self) -> pandas.DataFrame:
        """The table as a data frame, with the digits that it shows; ``to_dict`` has them all.

        A column of intervals becomes three: the value, and its ``low`` and ``high`` end.
        """
        frames: Any = require("pandas", "", "to_pandas", package="pandas")
        header, rows = self.table()
        columns: dict[str, list[Any]] = {}
        for name, cells in zip(header, zip(*rows, strict=True) if rows else [()] * len(header),
                               strict=True):  # fmt: skip
            columns |= _columns(name, cells)
        found = frames.DataFrame(columns)
        return found.set_index("").rename_axis(None) if "" in columns else found

    def to_latex(self, caption: str = "", label: str = "") -> str:
        """The table as LaTeX with the rules of booktabs; with a caption or label, as a float."""
        header, rows = self.table()
        lines = [" & ".join(map(_escaped, cells)) + r" \\" for cells in (header, *rows)]
        tabular = [
            rf"\begin{{tabular}}{{l{'r' * (len(header) - 1)}}}",
            r"\toprule", lines[0], r"\midrule", *lines[1:], r"\bottomrule", r"\end{tabular}",
        ]  # fmt: skip
        if caption or label:
            named = [rf"\caption{{{_escaped(caption)}}}"] * bool(caption)
            named += [rf"\label{{{label}}}"] * bool(label)
            tabular = [r"\begin{table}", r"\centering", *tabular, *named, r"\end{table}"]
        return "\n".join(tabular) + "\n"


def _columns(name: str, cells: Sequence[str]) -> dict[str, list[Any]]:
    """A column as numbers, as intervals or, where a cell is neither, as text."""
    known = [cell for cell in cells if cell not in _NOTHING]
    for form, names in ((_ALONE, [name]), (_INTERVAL, [name, f"{name} low", f"{name} high"])):
        if known and name and all(map(form.fullmatch, known)):
            found = [form.fullmatch(cell) for cell in cells]
            values = [
                [_number(one) for one in match.groups()] if match else [float("nan")] * len(names)
                for match in found
            ]
            return dict(zip(names, map(list, zip(*values, strict=True)), strict=True))
    return {name: list(cells)}


def _number(text: str) -> float | int:
    plain = text.replace("−", "-").replace(",", "")
    return int(plain) if plain.lstrip("+-").isdigit() else float(plain)


def _escaped(text: str) -> str:
    return "".join(_SPECIAL.get(letter, letter) for letter in text.strip())
