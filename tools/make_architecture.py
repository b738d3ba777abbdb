"""Draw the packages and their imports, and make the table of docs/architecture.md.

    python tools/make_architecture.py

Order and imports are read from pyproject.toml and from the code (needs import-linter, `make lint`).
"""

from __future__ import annotations

import ast
import tomllib
from collections import Counter
from pathlib import Path

import grimp

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "modgap"
PAGE, DRAWING = ROOT / "docs" / "architecture.md", ROOT / "docs" / "pictures" / "architecture.svg"
START, END = "<!-- packages: start -->\n", "<!-- packages: end -->"
# Pixels of a cell of the drawing, and of the margin that holds the names.
CELL, MARGIN = 22, 110


def packages() -> list[str]:
    """The packages in the order of the data: each imports only those before it."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        contracts = tomllib.load(file)["tool"]["importlinter"]["contracts"]
    layers = next(one for one in contracts if one["containers"] == ["modgap"])["layers"]
    return [name.strip() for layer in reversed(layers) for name in layer.split("|")]


def imports(names: list[str]) -> Counter[tuple[str, str]]:
    """How many modules of a package import one of another, by (importer, imported)."""
    graph, found = grimp.build_graph("modgap"), Counter[tuple[str, str]]()
    for module in graph.modules:
        for other in graph.find_modules_directly_imported_by(module):
            pair = tuple(f"{one}.".split(".")[1] for one in (module, other))
            if pair[0] != pair[1] and {*pair} <= {*names}:
                found[pair] += 1
    return found


def table(names: list[str]) -> str:
    """One row a package: what it holds, in its own words, its files and its lines."""
    rows = ["| folder | what it holds | files | lines |", "|---|---|--:|--:|"]
    for name in names:
        folder = SOURCE / name
        files = sorted(folder.rglob("*.py"))
        said = ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8")))
        lines = sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files)
        link = f"[{name}/](../src/modgap/{name})"
        rows.append(f"| {link} | {(said or '').splitlines()[0]} | {len(files)} | {lines:,} |")
    return "\n".join(rows) + "\n"


def drawing(names: list[str], found: Counter[tuple[str, str]]) -> str:
    """A square of packages: a dot where the one of the row imports the one of the column."""
    size = MARGIN + CELL * len(names)
    shapes = []
    for place, name in enumerate(names):
        middle = MARGIN + CELL * place + CELL / 2
        shapes.append(f'<text x="{MARGIN - 8}" y="{middle + 4}" text-anchor="end">{name}</text>')
        shapes.append(
            f'<text transform="translate({middle + 4} {MARGIN - 8}) rotate(-60)">{name}</text>'
        )
        shapes.append(
            f'<rect x="{middle - CELL / 2}" y="{middle - CELL / 2}" width="{CELL}" '
            f'height="{CELL}" opacity="0.15"/>'
        )
    for (importer, imported), n in sorted(found.items()):
        x, y = (MARGIN + CELL * names.index(one) + CELL / 2 for one in (imported, importer))
        shapes.append(
            f'<circle cx="{x}" cy="{y}" r="{min(3 + n**0.5, CELL / 2 - 1):.1f}">'
            f"<title>{importer} imports {imported} in {n} places</title></circle>"
        )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size} {size}" width="{size}" '
        'font-family="sans-serif" font-size="12" role="img">\n'
        "<title>Which package imports which: all dots lie below the diagonal</title>\n"
        "<style>text, rect, circle { fill: #24292f } "
        "@media (prefers-color-scheme: dark) { text, rect, circle { fill: #e6edf3 } }</style>\n"
        + "\n".join(shapes)
        + "\n</svg>\n"
    )


def main() -> None:
    """Write the drawing, and the table between its marks."""
    names = packages()
    DRAWING.write_text(drawing(names, imports(names)), encoding="utf-8")
    text = PAGE.read_text(encoding="utf-8")
    first, last = text.index(START) + len(START), text.index(END)
    PAGE.write_text(f"{text[:first]}{table(names)}{text[last:]}", encoding="utf-8")
    print(f"wrote {PAGE} and {DRAWING}")


if __name__ == "__main__":
    main()
