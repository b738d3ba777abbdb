"""Make docs/evidence/reproduction.md and its pictures from a finished run.

    modgap reproduce all --embeddings DIR -o reproduction
    python tools/make_reproduction.py reproduction

Pictures are made small enough to be kept beside the text.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from PIL import Image

EVIDENCE = Path(__file__).parents[1] / "docs" / "evidence"
WIDTH, COLOURS = 900, 64


def main(run: Path) -> None:
    """Copy the table, point its links at the pictures beside it, and shrink those."""
    text = (run / "reproduction.md").read_text(encoding="utf-8")
    linked = sorted(set(re.findall(r"\]\(([^)\s]+\.png)\)", text)))
    for name in linked:
        target = EVIDENCE / "reproduction" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        with Image.open(run / name, formats=["PNG"]) as picture:
            small = picture.convert("RGB")
            small.thumbnail((WIDTH, 10 * WIDTH))
            small.quantize(COLOURS).save(target, optimize=True)
        text = text.replace(f"]({name})", f"](reproduction/{name})")
    (EVIDENCE / "reproduction.md").write_text(text, encoding="utf-8")
    print(f"wrote reproduction.md and {len(linked)} pictures")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
