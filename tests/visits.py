"""A page that is open in a real browser, and what every page of modgap must hold to there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from modgap.io import Embeddings, Modalities
from modgap.reports import contents
from modgap.reports.assemble import page_html

ARTEFACTS = os.environ.get("MODGAP_ARTEFACTS")  # a folder for screenshots
EVIL = (
    "<img src=x onerror='window.pwned=1'>",
    "</script><script>window.pwned=2</script>",
    "<a href='javascript:window.pwned=3'>click</a>",
    '=HYPERLINK("http://example.com")',
    "${window.pwned=4}<svg/onload=window.pwned=5>",
)
FIRST_SCREENS = [
    (width, height, scheme)
    for width, height in ((1440, 900), (390, 844))
    for scheme in ("light", "dark")
]


class Visit:
    """A page that is open, and what went wrong on it."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.faults: list[str] = []
        self.asked: list[str] = []
        self._heard = {
            "console": lambda m: self.faults.append(m.text) if m.type == "error" else None,
            "pageerror": lambda error: self.faults.append(str(error)),
            "request": lambda request: self.asked.append(request.url),
            "dialog": lambda dialog: (self.faults.append(dialog.message), dialog.dismiss()),
        }
        for event, hear in self._heard.items():
            page.on(event, hear)

    def leave(self) -> None:
        """Forget the theme that was chosen, and close the page."""
        self.page.evaluate("localStorage.clear()")
        self.page.goto("about:blank")
        for event, hear in self._heard.items():
            self.page.remove_listener(event, hear)

    def see_all(self) -> None:
        """Scroll through the page, so that every figure is drawn."""
        for figure in self.page.query_selector_all("figure"):
            figure.scroll_into_view_if_needed()
            self.page.wait_for_function("f => f.dataset.drawn === 'true'", arg=figure)

    def number(self, key: str) -> float:
        return float(self.page.locator(f'.num[data-key="{key}"]').first.get_attribute("data-value"))

    def slide(self, step: int) -> None:
        """Points move with the next frame, and Plotly is told when they rest: wait for that."""
        self.page.locator("#slider").evaluate(
            """async (s, v) => {
                 s.value = v;
                 s.dispatchEvent(new Event('input', {bubbles: true}));
                 const frame = () => new Promise(requestAnimationFrame);
                 await frame();
                 await frame();
                 const plot = document.querySelector('#picture-figure .js-plotly-plot');
                 await Promise.race([new Promise(done => plot.once('plotly_update', done)),
                                     new Promise(done => setTimeout(done, 600))]); }""",
            step,
        )

    def points(self) -> list[np.ndarray]:
        """Where the rows of each modality are drawn."""
        found = self.page.evaluate(
            """() => document.querySelector('#picture-figure .js-plotly-plot').data
                 .filter(t => t.mode === 'markers' && t.x.length > 1).slice(0, 2)
                 .map(t => [Array.from(t.x), Array.from(t.y)])"""
        )
        return [np.array(side, dtype=float).T for side in found]

    def shot(self, name: str, *, whole: bool = False) -> None:
        if ARTEFACTS:
            self.page.screenshot(path=Path(ARTEFACTS) / f"{name}.png", full_page=whole)


@contextmanager
def visit(tab: Any, path: Path, width: int = 1440, scheme: str = "light") -> Iterator[Visit]:
    tab.bring_to_front()  # behind another tab nothing is drawn
    tab.set_viewport_size({"width": width, "height": 1000})
    tab.emulate_media(media="screen", color_scheme=scheme)
    seen = Visit(tab)
    try:
        tab.goto(path.as_uri())
        tab.wait_for_selector("html[data-ready=true]", timeout=30_000)
        yield seen
    finally:
        seen.leave()
    assert seen.faults == []


def boxes(page: Any, *places: str) -> list[tuple[float, float]]:
    """Where each thing begins and ends, from the top of the screen."""
    found = [page.locator(place).bounding_box() for place in places]
    return [(box["y"], box["y"] + box["height"]) for box in found]


def check_first_screen(seen: Visit, document: dict[str, Any], name: str) -> None:
    """Headline, one search before and after and three metrics are seen without scrolling."""
    page, said = seen.page, document["headline"]
    page.evaluate("window.scrollTo({top: 0, behavior: 'instant'})")
    for width, height, scheme in FIRST_SCREENS:
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(color_scheme=scheme)
        parts = boxes(page, ".headline", ".seen-side.raw", ".seen-side.corrected", ".three")
        parts += boxes(page, *(f'.three [data-metric="{key}"]' for key in said["metrics"]))
        assert len(said["metrics"]) == 3
        for top, bottom in parts:
            assert 0 <= top < bottom <= height
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        seen.shot(f"{name}-first-{width}-{scheme}")
    page.emulate_media(color_scheme="light")
    assert page.inner_text("h1").split() == " ".join(said["sentences"][:2]).split()
    for sentence in (*said["sentences"][2:], said["evidence"]):
        assert sentence in page.inner_text("#first")
    labels = page.locator(".three .tile-name").all_inner_texts()
    assert labels == [document["terms"][key]["label"] for key in said["metrics"]]
    assert "retrieval_recall" not in page.inner_text("main")


def serious(page: Any, within: str = "html") -> list[str]:
    """The serious and critical violations that axe-core reports."""
    from axe_playwright_python.sync_playwright import Axe

    where, what = {"include": [[within]]}, {"resultTypes": ["violations"]}
    found = Axe().run(page, context=where, options=what).response["violations"]
    return [
        f"{one['id']}: {node['html'][:200]}"
        for one in found
        if one["impact"] in ("serious", "critical")
        for node in one["nodes"][:3]
    ]


def written(tmp_path: Path, X: Any, Y: Any, **options: Any) -> tuple[Path, dict[str, Any]]:
    """A page of rows given, and its document."""
    sides = [
        Embeddings.from_array(rows, captions=options.pop(f"captions_{side}", None),
                              source=options.get("source", side))
        for rows, side in ((X, "x"), (Y, "y"))
    ]  # fmt: skip
    options.pop("source", None)
    names = options.pop("names", ("image", "text"))
    data = Modalities.of(*sides, names, paired=options.pop("paired", None))
    data = replace(data, thumbnails=options.pop("thumbnails", {}))
    document, _ = contents(data, umap=False, **options)
    path = tmp_path / "page.html"
    path.write_text(page_html(document), encoding="utf-8")
    return path, document
