"""Draw docs/pictures/demo.svg, the README's picture: what `modgap demo` prints, as it prints it."""

from __future__ import annotations

import io
import re
import tempfile
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import SVG_EXPORT_THEME

from modgap.cli import show

PICTURE = Path(__file__).parents[1] / "docs" / "pictures" / "demo.svg"
WIDTH = 112


def main() -> None:
    """Run the demo on a console that records, and keep what it shows as SVG."""
    show.out = Console(
        record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, highlight=False
    )
    show.err = Console(file=io.StringIO())
    from modgap.cli.demo import demo  # after the consoles are in place

    with tempfile.TemporaryDirectory() as folder:
        demo(output=Path(folder), seed=0, as_json=False)
    svg = show.out.export_svg(title="modgap demo", theme=SVG_EXPORT_THEME)
    # The picture must not fetch fonts from anywhere: any fixed-width font will do.
    svg = re.sub(r"@font-face\s*\{.*?\}", "", svg, flags=re.DOTALL)
    svg = svg.replace("Fira Code", "DejaVu Sans Mono, Menlo, Consolas")
    PICTURE.write_text(svg, encoding="utf-8")
    print(f"wrote {PICTURE.name}")


if __name__ == "__main__":
    main()
