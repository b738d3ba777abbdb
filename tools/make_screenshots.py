"""Make the pictures of the page, of its first screen and of the notebook, for digits and a file.

    python tools/make_screenshots.py ../features_clip.npy

The file is CLIP ViT-B/16 on 500 MS-COCO pairs, published with Liang et al. 2022.
"""

from __future__ import annotations

import io
import sys
import tempfile
from pathlib import Path
from typing import Any

from notebook_pictures import notebook_pictures
from PIL import Image

import modgap
from modgap.io import open_pair

ROOT = Path(__file__).parents[1]
PICTURES = ROOT / "docs" / "pictures"
sys.path.insert(0, str(ROOT / "tests"))
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
            images=(255 - digits.images * (255 / 16), None),
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
                path=PICTURES / f"{name}.png",
                full_page=True,
                clip={"x": 0, "y": 0, "width": SIZE["width"], "height": end["y"] + end["height"]},
            )
            keep(name, (PICTURES / f"{name}.png").read_bytes())
        for name, seen in first_screens(browser, Path(folder) / "page-digits.html").items():
            keep(name, seen)
        for name, seen in notebook_pictures(browser, Path(folder)).items():
            keep(name, seen)


def first_screens(browser: Any, path: Path) -> dict[str, bytes]:
    """What is seen without scrolling, on a wide and on a narrow screen, light and dark."""
    found = {}
    for width, size in FIRST_SCREENS.items():
        for scheme in ("light", "dark"):
            tab = browser.new_page(viewport=size)
            tab.emulate_media(color_scheme=scheme)
            tab.goto(path.as_uri())
            tab.wait_for_selector("html[data-ready=true]", state="attached")
            found[f"page-first-{width}-{scheme}"] = tab.screenshot()
            tab.close()
    return found


def keep(name: str, picture: bytes) -> None:
    """Write a picture of few colours, which is a fraction of its size."""
    with Image.open(io.BytesIO(picture), formats=["PNG"]) as seen:
        # Not by median cut, which drops the colour of the one line that is marked.
        few = seen.convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE)
        few.save(PICTURES / f"{name}.png", optimize=True)
    print(f"wrote {name}.png")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
