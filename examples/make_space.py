"""The page of a verdict as a Space of Hugging Face, which shows it without a server.

    python examples/make_space.py space
    python examples/make_space.py space image.npy text.npy
    hf upload NAME/modality-gap space . --repo-type space

Without files it shows the digits that come with modgap.
"""

from __future__ import annotations

import sys
from pathlib import Path

import modgap

CARD = """\
---
title: Modality gap
emoji: 🔭
colorFrom: blue
colorTo: yellow
sdk: static
app_file: index.html
pinned: false
license: mit
---

What the modality gap does to a search of images and texts, and what a correction changes. Made with
[modgap](https://github.com/modgap/modgap).
"""


def main() -> None:
    """Write the card and the page into a folder."""
    folder, *files = sys.argv[1:]
    space = Path(folder)
    space.mkdir(parents=True, exist_ok=True)
    if files:
        page = modgap.report(*files)
    else:
        digits = modgap.load_digits()
        page = modgap.report(
            digits.X, digits.Y, groups=digits.groups, captions=(None, digits.captions),
            images=(255 - digits.images * 255 / 16, None), title="Handwritten digits",
        )  # fmt: skip
    page.save(space / "index.html")
    (space / "README.md").write_text(CARD, encoding="utf-8")
    print(f"wrote {space}")


if __name__ == "__main__":
    main()
