"""Make the pictures of the page: of the digits, its first screen too, and of embeddings in a file.

    python docs/make_screenshots.py ../features_clip.npy

The file is CLIP ViT-B/16 on 500 MS-COCO pairs, published with Liang et al. 2022.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from PIL import Image

import modgap
from modgap.cli.demo import scan_pixels
from modgap.io import open_pair

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests"))
SIZE = {"width": 1200, "height": 1000}
FIRST_SCREENS = {"1440": {"width": 1440, "height": 900}, "390": {"width": 390, "height": 844}}


def main(embeddings: Path) -> None:
    """Open both pages in a browser and keep what is seen of the verdict and the picture."""
    from browser import opened

    digits = modgap.load_digits()
    pages = {
        "page-digits": modgap.report(
            digits.X,
            digits.Y,
            groups=digits.groups,
            captions=(None, digits.captions),
            images=(scan_pixels(digits.images), None),
            title="Handwritten digits and their captions",
        ),
        "page-clip": modgap.report(
            open_pair(embeddings), title="CLIP ViT-B/16 on 500 MS-COCO pairs"
        ),
    }
    with tempfile.TemporaryDirectory() as folder, opened() as browser:
        for (name, page), step in zip(pages.items(), (4, 0), strict=True):
            path = Path(folder) / f"{name}.html"
            page.save(path)
            tab = browser.new_page(viewport=SIZE)
            tab.goto(path.as_uri())
            tab.wait_for_selector("html[data-ready=true]", state="attached")
            tab.locator("#slider").evaluate(
                "(s, v) => { s.value = v; s.dispatchEvent(new Event('input', {bubbles: true})); }",
                step,
            )
            tab.wait_for_timeout(1500)
            end = tab.locator("#picture").bounding_box()
            tab.screenshot(
                path=HERE / f"{name}.png",
                full_page=True,
                clip={"x": 0, "y": 0, "width": SIZE["width"], "height": end["y"] + end["height"]},
            )
            _fewer_colours(f"{name}.png")
        _first_screens(browser, Path(folder) / "page-digits.html")


def _first_screens(browser: Any, path: Path) -> None:
    """What is seen without scrolling, on a wide and on a narrow screen, light and dark."""
    for width, size in FIRST_SCREENS.items():
        for scheme in ("light", "dark"):
            tab = browser.new_page(viewport=size)
            tab.emulate_media(color_scheme=scheme)
            tab.goto(path.as_uri())
            tab.wait_for_selector("html[data-ready=true]", state="attached")
            name = f"page-first-{width}-{scheme}.png"
            tab.screenshot(path=HERE / name)
            tab.close()
            _fewer_colours(name)


def _fewer_colours(name: str) -> None:
    with Image.open(HERE / name, formats=["PNG"]) as seen:
        seen.convert("RGB").quantize(128).save(HERE / name, optimize=True)
    print(f"wrote {name}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
