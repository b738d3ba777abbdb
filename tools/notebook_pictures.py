"""Pictures of the notebook of the examples, as JupyterLab renders it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbconvert import HTMLExporter

NOTEBOOK = Path(__file__).parents[1] / "docs" / "notebooks" / "first-look.ipynb"
# The picture, the theme, and the first and the last cell on it, counted from 0.
PICTURES = (
    ("notebook-measure", "light", 4, 6),
    ("notebook-diagnose", "light", 10, 13),
    ("notebook-report", "dark", 14, 18),
)
SIZE = {"width": 1000, "height": 900}
# Milliseconds that the page in its frame takes to draw.
SETTLE = 4000


def notebook_pictures(browser: Any, folder: Path) -> dict[str, bytes]:
    """Run the notebook, render it on light and on dark, and photograph its cells."""
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    NotebookClient(notebook, timeout=600, kernel_name="python3").execute()
    tabs = {}
    for theme in {theme for _, theme, *_ in PICTURES}:
        page, _ = HTMLExporter(template_name="lab", theme=theme).from_notebook_node(notebook)
        path = folder / f"notebook-{theme}.html"
        path.write_text(page, encoding="utf-8")
        # What the template would load is not needed, and nothing may depend on it.
        tab = browser.new_context(offline=True, viewport=SIZE, color_scheme=theme).new_page()
        tab.goto(path.as_uri())
        tab.locator("iframe[srcdoc]").scroll_into_view_if_needed()
        tab.wait_for_timeout(SETTLE)
        tabs[theme] = tab
    found = {}
    for name, theme, first, last in PICTURES:
        cells = tabs[theme].locator(".jp-Cell")
        top, end = (cells.nth(k).bounding_box() for k in (first, last))
        scrolled = tabs[theme].evaluate("() => window.scrollY")
        height = end["y"] + end["height"] - top["y"]
        clip = {"x": 0, "y": top["y"] + scrolled, "width": SIZE["width"], "height": height}
        found[name] = tabs[theme].screenshot(full_page=True, clip=clip)
    return found
