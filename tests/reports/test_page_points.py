"""Points of the page: coloured by a column, selected with mouse, words and keyboard, and saved."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import modgap
from conftest import make_pairs
from modgap.io import Embeddings
from visits import EVIL, Visit, serious, visit

pytestmark = pytest.mark.xdist_group("browser")
N = 140
PLOT = "#picture-figure .js-plotly-plot"
CLOUDS = f"document.querySelector('{PLOT}').data.slice(0, 2)"
HOSTILE = '=1+1 <b>"x"</b>'


@pytest.fixture(scope="module")
def document():
    """Pairs by id, with columns of every kind; some names and values would like to be code."""
    rng = np.random.default_rng(3)
    X, Y = make_pairs(N)
    ids = [f"{i}.jpg" for i in range(N)]
    image = {
        "shade": [f"shade {k}" for k in np.minimum(rng.geometric(0.2, N), 14)],
        "year": np.where(rng.random(N) < 0.1, np.nan, 1950 + rng.integers(0, 70, N)),
        HOSTILE: [EVIL[i % len(EVIL)] for i in range(N)],
        "__proto__": rng.integers(-5, 5, N),
    }
    text = {
        "shade": [None if i % 7 == 0 else "shade 1" for i in range(N)],
        "year": 1950 + rng.integers(0, 70, N),
    }
    x = Embeddings.from_array(X, ids=ids, fields=image)
    captions = [
        EVIL[i % 5] if i < 10 else f"caption of {i}, {'dog' if i % 3 else 'cat'}" for i in range(N)
    ]
    y = Embeddings.from_array(Y, ids=ids, captions=captions, fields=text)
    return modgap.report(x, y, umap=False)


@pytest.fixture(scope="module")
def open_page(offline, document, tmp_path_factory):
    path = tmp_path_factory.mktemp("points") / "points.html"
    document.save(path)
    with visit(offline.new_page(), path) as seen:
        seen.page.locator(PLOT).scroll_into_view_if_needed()
        yield seen


@pytest.fixture
def seen(open_page):
    """One page for all; every test leaves it without a selection, in 2-D, coloured by modality."""
    page = open_page.page
    yield open_page
    if page.locator("#three").inner_text() == "Show in 2-D":
        page.click("#three")
        page.wait_for_function(f"document.querySelector('{PLOT}').data[0].type === 'scatter'")
    if page.locator("#clear-selection").is_visible():
        page.click("#clear-selection")
    for tool in page.locator(".tools button[aria-pressed=true]").all():
        tool.click()
    page.select_option("#colour", index=0)
    page.select_option("#select-how", index=0)
    page.wait_for_timeout(300)
    assert page.evaluate("window.pwned") is None
    assert open_page.faults == []


def fields(document: Any) -> dict[str, dict[str, Any]]:
    return {
        one["name"]: one for one in json.loads(json.dumps(document.document))["picture"]["fields"]
    }


def value(field: dict[str, Any], side: int, index: int) -> Any:
    own = field["xy"[side]]
    if own is None or own[index] is None:
        return None
    return own[index] if field["kind"] == "number" else field["values"][own[index]]


def rows_of(document: Any) -> list[list[int]]:
    return [list(document.document["picture"][side]["rows"]) for side in "xy"]


def listed(seen: Visit, document: Any) -> set[tuple[int, int]]:
    """The selection as its list shows it, page by page, as places among the drawn rows."""
    shown = seen.page.evaluate(
        """() => {
          const turn = (id) => { const one = document.getElementById(id);
            return one && !one.disabled && !one.parentElement.hidden && (one.click(), true); };
          while (turn('page-back'));
          const found = [];
          do found.push(...document.querySelectorAll('.selected li')); while (turn('page-on'));
          return found.map(e => [+e.dataset.side, +e.dataset.row]); }"""
    )
    rows = rows_of(document)
    found = [(side, rows[side].index(row)) for side, row in shown]
    count = re.match(r"[\d,]+|No", seen.page.inner_text(".selection-count")).group()
    assert len(found) == len(set(found)) == (0 if count == "No" else int(count.replace(",", "")))
    return set(found)


def find(seen: Visit, document: Any, words: str) -> set[tuple[int, int]]:
    """What is selected once words were looked for."""
    seen.page.fill("#find", words)
    seen.page.click("#find-all")
    return listed(seen, document)


def marked(seen: Visit) -> set[tuple[int, int]]:
    """The points that stand out in the drawing."""
    sizes = seen.page.evaluate(f"{CLOUDS}.map(t => t.marker.size)")
    if not isinstance(sizes[0], list):
        return set()
    least = min(map(min, sizes))
    return {(s, i) for s, own in enumerate(sizes) for i, size in enumerate(own) if size > least}


def show(seen: Visit) -> None:
    """Scroll the picture to the middle of the screen."""
    seen.page.locator(PLOT).evaluate(
        "e => e.scrollIntoView({block: 'center', behavior: 'instant'})"
    )


def pixels(seen: Visit) -> list[np.ndarray]:
    """Where the points of each modality are on the screen."""
    show(seen)
    found = seen.page.evaluate(
        f"""() => {{ const plot = document.querySelector('{PLOT}'), l = plot._fullLayout;
          const box = plot.getBoundingClientRect();
          const at = (axis, value) => axis._offset + axis.d2p(value);
          return plot.data.slice(0, 2).map(t => Array.from(t.x, (x, i) =>
            [box.left + at(l.xaxis, x), box.top + at(l.yaxis, t.y[i])])); }}"""
    )
    return [np.array(side) for side in found]


def pixels_of_three(seen: Visit) -> np.ndarray:
    """Where the texts are on the screen in 3-D, by the matrices of the drawing."""
    matrices, scale, box, places = seen.page.evaluate(
        f"""() => {{
          const plot = document.querySelector('{PLOT}'), scene = plot._fullLayout.scene._scene;
          const {{model, view, projection}} = scene.glplot.cameraParams;
          const {{left, top, width, height}} = scene.container.getBoundingClientRect();
          return [[model, view, projection].map(m => Array.from(m)), Array.from(scene.dataScale),
            [left, top, width, height], [..."xyz"].map(k => Array.from(plot.data[1][k]))]; }}"""
    )
    places = np.array(places).T * scale
    points = np.hstack([places, np.ones((len(places), 1))])
    for matrix in matrices:
        points = points @ np.array(matrix).reshape(4, 4)  # stored by column
    left, top, width, height = box
    across, down = points[:, 0] / points[:, 3], points[:, 1] / points[:, 3]
    return np.stack([left + width * (1 + across) / 2, top + height * (1 - down) / 2], axis=1)


def lonely(points: np.ndarray) -> np.ndarray:
    """The point that has its next one farthest away."""
    apart = np.linalg.norm(points[:, None] - points, axis=2) + 1e6 * np.eye(len(points))
    return points[apart.min(1).argmax()]


def inside(polygon: np.ndarray, point: np.ndarray) -> bool:
    """Whether a point is inside: a ray to the right crosses an odd number of edges."""
    crossed = False
    for a, b in zip(polygon, np.roll(polygon, -1, axis=0), strict=True):
        if (a[1] > point[1]) != (b[1] > point[1]):
            crossed ^= point[0] < a[0] + (point[1] - a[1]) * (b[0] - a[0]) / (b[1] - a[1])
    return crossed


def from_edge(polygon: np.ndarray, point: np.ndarray) -> float:
    """How far a point is from the border."""
    far = np.inf
    for a, b in zip(polygon, np.roll(polygon, -1, axis=0), strict=True):
        along = np.clip((point - a) @ (b - a) / ((b - a) @ (b - a)), 0, 1)
        far = min(far, np.linalg.norm(a + along * (b - a) - point))
    return far


def eventually(seen: Visit, check: Callable[[], Any]) -> Any:
    """What a check returns once it holds: drawings follow a moment later."""
    for _ in range(100):
        try:
            return check()
        except AssertionError:
            seen.page.wait_for_timeout(100)
    return check()


def drag(seen: Visit, corners: np.ndarray, *, closed: bool) -> None:
    mouse = seen.page.mouse
    before = seen.page.inner_text(".selection-count")
    mouse.move(*corners[0])
    mouse.down()
    for corner in [*corners[1:], *([corners[0]] if closed else [])]:
        mouse.move(*corner, steps=6)
    mouse.up()
    seen.page.wait_for_function(
        "before => document.querySelector('.selection-count').textContent !== before", arg=before
    )


def check_marks(seen: Visit, expected: set[tuple[int, int]]) -> None:
    assert marked(seen) == expected


def check_colours(seen: Visit, document: Any, name: str) -> None:
    """Every point has the colour that the legend gives its value, and its modality's shape."""
    field = fields(document)[name]
    drawn = seen.page.evaluate(f"{CLOUDS}.map(t => [t.marker.color, t.marker.symbol])")
    legend = dict(
        seen.page.evaluate(
            """[...document.querySelectorAll('.legend-value')].map(e => [e.innerText.trim(),
                 getComputedStyle(e.querySelector('i'))[
                   e.querySelector('.hollow') ? 'borderColor' : 'backgroundColor']])"""
        )
    )
    named = field["values"][:10]
    for side in (0, 1):
        for index, (colour, symbol) in enumerate(zip(*drawn[side], strict=True)):
            own = value(field, side, index)
            entry = "no value" if own is None else own
            if own is not None and own not in named:
                entry = f"{len(field['values']) - 10} other values"
            assert re.findall(r"\d+", colour)[:3] == re.findall(r"\d+", legend[entry])[:3]
            shape = ("circle", "diamond")[side]
            assert symbol == (f"{shape}-open" if own is None else shape)
    assert len(set(legend.values())) == len(legend)


def test_points_have_the_colours_of_their_values_in_both_themes_and_while_they_move(seen, document):
    page = seen.page
    page.select_option("#colour", label="shade")
    eventually(seen, lambda: check_colours(seen, document, "shade"))
    counts = fields(document)["shade"]
    said = page.inner_text("#legend")
    assert said.split()[:2] == ["image", "text"]
    assert f"no value\n{counts['n_missing']}" in said.replace("\n\n", "\n")
    points = f"[...document.querySelectorAll('{PLOT} .trace:first-of-type .point')]"
    fill = f"{points}.map(e => e.style.fill)"
    before = page.evaluate(fill)
    seen.slide(4)
    assert page.evaluate(fill) == before
    check_colours(seen, document, "shade")
    page.click("#theme")
    eventually(seen, lambda: check_colours(seen, document, "shade"))
    assert page.evaluate(fill) != before
    page.click("#theme")
    seen.slide(0)


def test_numbers_are_a_scale_whose_ends_the_legend_says(seen, document):
    page = seen.page
    page.select_option("#colour", label="year")
    field = fields(document)["year"]
    place = list(fields(document)).index("year")
    for end in (0, 1):
        assert seen.number(f"picture.fields.{place}.range.{end}") == field["range"][end]
    page.wait_for_function(f"Array.isArray({CLOUDS}[0].marker.color)")
    colours = page.evaluate(f"{CLOUDS}.map(t => t.marker.color)")
    known = {}
    for side in (0, 1):
        for index, colour in enumerate(colours[side]):
            own = value(field, side, index)
            if own is not None:
                clipped = float(np.clip(own, *field["range"]))
                red, green, blue = map(int, re.findall(r"\d+", colour)[:3])
                light = 0.2126 * red + 0.7152 * green + 0.0722 * blue
                assert known.setdefault(clipped, light) == light
    # On light paper larger numbers are darker.
    ordered = [known[own] for own in sorted(known)]
    assert ordered == sorted(ordered, reverse=True)
    assert len(set(ordered)) > 30


def placed(seen: Visit) -> tuple[dict[tuple[int, int], np.ndarray], np.ndarray, np.ndarray]:
    """Where each point is on the screen, their middle and their spread."""
    points = pixels(seen)
    both = np.vstack(points)
    places = {(s, i): p for s, own in enumerate(points) for i, p in enumerate(own)}
    return places, both.mean(0), both.std(0)


def test_lasso_and_box_select_the_points_inside(seen, document):
    page = seen.page
    page.click("#tool-lasso")
    places, middle, wide = placed(seen)
    angles = np.linspace(0, 2 * np.pi, 9)[:-1]
    reach = np.where(np.arange(8) % 2, 0.5, 1.3)[:, None]
    star = middle + reach * wide * np.stack([np.cos(angles), np.sin(angles)], 1)
    drag(seen, star, closed=True)
    clear = {one for one, p in places.items() if from_edge(star, p) > 4}
    expected = {one for one, p in places.items() if inside(star, p)}
    found = listed(seen, document)
    assert 5 < len(expected) < N
    assert found & clear == expected & clear
    eventually(seen, lambda: check_marks(seen, found))
    # A box with the Shift key held adds to it.
    page.click("#tool-box")
    places, middle, wide = placed(seen)
    left = min(p[0] for p in places.values()) - 5  # inside the axes
    low, high = np.array([left, middle[1] - 1.6 * wide[1]]), middle - [0, 1.0 * wide[1]]
    page.keyboard.down("Shift")
    drag(seen, np.array([low, high]), closed=False)
    page.keyboard.up("Shift")
    depth = {one: min(*(p - low), *(high - p)) for one, p in places.items()}
    now = listed(seen, document)
    assert found < now
    assert {one for one in now - found if abs(depth[one]) > 2} == {
        one for one, deep in depth.items() if deep > 2 and one not in found
    }
    seen.slide(6)
    eventually(seen, lambda: check_marks(seen, now))
    assert listed(seen, document) == now
    seen.slide(0)


def test_words_and_columns_select_rows_and_each_selection_adds_or_takes_away(seen, document):
    page, known = seen.page, fields(document)
    every = [(s, i) for s, own in enumerate(rows_of(document)) for i in range(len(own))]
    labels = [document.document["picture"][side]["labels"] for side in "xy"]

    def select(words: str, how: str | None = None) -> set[tuple[int, int]]:
        if how:
            page.select_option("#select-how", label=how)
        return find(seen, document, words)

    year = {one: value(known["year"], *one) for one in every}
    shade = {one: value(known["shade"], *one) for one in every}
    late = {one for one in every if year[one] is not None and year[one] > 2000}
    ones = {one for one in every if shade[one] == "shade 1"}
    assert select("year: >2000") == late
    assert select("YEAR : 1960..1970") == {
        one for one in every if year[one] is not None and 1960 <= year[one] <= 1970
    }
    assert select("shade: =shade 1; year: >2000") == late & ones
    assert select("Caption Of 2") == {
        (s, i) for s, i in every if "caption of 2" in (labels[s][i] or "").lower()
    }
    assert select("id: 7.jpg; modality: image") == {
        (0, i) for i, label in enumerate(labels[0]) if "7.jpg" in label
    }
    before = select("__proto__: <0")
    assert before == {one for one in every if (value(known["__proto__"], *one) or 0) != 0 and
                      int(value(known["__proto__"], *one)) < 0}  # fmt: skip
    assert select("no such words") == before
    assert "Nothing found." in page.inner_text("#card")
    assert select("year: >2000", "adds to it") == before | late
    assert select("shade: =shade 1", "takes away from it") == (before | late) - ones
    page.select_option("#select-how", index=0)
    # A value of the legend selects its rows.
    page.select_option("#colour", label="shade")
    page.locator(".legend-value", has_text="no value").click()
    assert listed(seen, document) == {one for one in every if shade[one] is None}
    assert f"{len([1 for v in shade.values() if v is None])} of the" in page.inner_text("#said")


def test_matches_of_selected_rows_are_added(seen, document):
    page = seen.page
    own = find(seen, document, "modality: image; row: 0..19")
    page.click("#add-matches")
    assert listed(seen, document) == own | {(1, index) for _, index in own}
    # Lines are then drawn between these alone.
    path = page.evaluate(f"document.querySelector('{PLOT}').layout.shapes[0].path")
    assert path.count("M") == len(own) == 20


def said_row(seen: Visit) -> tuple[str, ...]:
    """Which row the keyboard has come to, once the page says so."""
    said = seen.page.inner_text("#said")
    found = re.match(r"(\w+) row (\d+)", said)
    assert found
    assert "added." not in said
    return found.groups()


def test_everything_works_from_the_keyboard(seen, document):
    page, rows = seen.page, rows_of(document)
    page.focus(PLOT)
    chosen = []
    for key in ("ArrowRight", "ArrowRight", "ArrowUp", "ArrowLeft"):
        page.keyboard.press(key)
        name, row = eventually(seen, lambda: said_row(seen))
        side = ("image", "text").index(name)
        chosen.append((side, rows[side].index(int(row))))
        page.keyboard.press(" ")
        assert "added" in page.inner_text("#said")
    points = seen.points()
    places = [points[side][index] for side, index in chosen]
    for axis, sign, before, after in ((0, 1, 0, 1), (1, 1, 1, 2), (0, -1, 2, 3)):
        assert sign * (places[after][axis] - places[before][axis]) > 0
    assert listed(seen, document) == set(chosen)
    assert page.inner_text("#card .item-name").startswith(("image", "text")[chosen[-1][0]])
    page.keyboard.press(" ")
    assert "removed" in page.inner_text("#said")
    assert listed(seen, document) == set(chosen[:-1])
    # Entries of the list are reached and removed, and the keyboard keeps its place.
    page.locator(".selected .remove").first.focus()
    page.keyboard.press("Enter")
    assert len(listed(seen, document)) == 2
    assert page.evaluate("document.activeElement.className").endswith("remove")
    page.focus(PLOT)
    page.keyboard.press("Escape")
    assert listed(seen, document) == set()
    assert page.inner_text("#said") == "Cleared. No rows are selected."


def test_points_of_three_dimensions_are_coloured_and_picked(seen, document):
    page = seen.page
    page.select_option("#colour", label="shade")
    page.click("#three")
    page.wait_for_function(f"document.querySelector('{PLOT}').data[0].type === 'scatter3d'")
    eventually(seen, lambda: check_colours(seen, document, "shade"))
    assert page.locator("#tool-lasso").is_disabled()
    found = find(seen, document, "shade: =shade 2")
    assert found
    eventually(seen, lambda: check_marks(seen, found))
    seen.slide(5)
    eventually(seen, lambda: check_marks(seen, found))
    page.click("#tool-points")
    show(seen)
    x, y = lonely(pixels_of_three(seen))
    for pause in (300, 900, 2_700):  # which point is there is known once a frame is drawn
        page.mouse.move(x - 4, y)
        page.mouse.move(x, y, steps=4)
        page.wait_for_timeout(pause)
        page.mouse.down()
        page.wait_for_timeout(pause)
        page.mouse.up()
        page.wait_for_timeout(pause)
        if listed(seen, document) != found:
            break
    assert len(listed(seen, document) ^ found) == 1
    page.focus(PLOT)
    said = []
    for key in ("PageUp", "PageDown"):  # along the third axis
        page.keyboard.press(key)
        said.append(page.inner_text("#said"))
    assert any(re.match(r"(image|text) row \d+", sentence) for sentence in said)
    seen.slide(0)


def test_the_saved_selection_holds_everything_and_no_formula(seen, document, tmp_path):
    page, known = seen.page, fields(document)

    def saved(button: str) -> str:
        with page.expect_download() as download:
            page.click(button)
        path = tmp_path / download.value.suggested_filename
        download.value.save_as(path)
        return path.read_text("utf-8")

    chosen = sorted(find(seen, document, "row: 0..6"))
    picture = document.document["picture"]
    told = json.loads(saved("#save-json"))
    assert told["schema"] == "modgap/selection/1"
    assert told["rows"] == {"image": list(range(7)), "text": list(range(7))}
    for (side, index), item in zip(chosen, told["items"], strict=True):
        own = picture["xy"[side]]
        assert item["row"] == own["rows"][index]
        assert item["id"] == f"{item['row']}.jpg"
        assert item["caption"] == (own["labels"][index] if side else None)
        assert item["fields"] == {name: value(field, side, index) for name, field in known.items()}
    lines = list(csv.reader(saved("#save-csv").splitlines()))
    assert lines[0] == ["modality", "row", "id", "caption", *(
        f"'{name}" if name.startswith("=") else name for name in known)]  # fmt: skip
    assert len(lines) == 1 + 14
    for line, item in zip(lines[1:], told["items"], strict=True):
        assert line[:3] == [item["modality"], str(item["row"]), item["id"]]
        assert not any(cell.startswith(("=", "@", "+")) for cell in line)
        assert [cell.removeprefix("'") for cell in line[3:]] == [
            "" if one is None else str(one) for one in (item["caption"], *item["fields"].values())
        ]
    page.click("#copy-rows")
    page.get_by_text("The row numbers are copied.").wait_for(state="attached")


def test_the_saved_picture_has_the_legend_of_its_colours(seen, document, tmp_path):
    seen.page.select_option("#colour", label="shade")
    with seen.page.expect_download() as download:
        seen.page.get_by_role(
            "button", name="Download the figure “Picture of image and text” as SVG"
        ).click()
    download.value.save_as(tmp_path / "picture.svg")
    drawn = (tmp_path / "picture.svg").read_text("utf-8")
    for words in ("image", "text", *fields(document)["shade"]["values"][:10], "other values"):
        assert f">{words}<" in drawn


def test_coloured_and_selected_points_are_accessible_and_fit(seen):
    page = seen.page
    page.select_option("#colour", label=HOSTILE)
    page.fill("#find", "<")
    page.click("#find-all")
    for width, scheme in ((1440, "light"), (390, "dark")):
        page.set_viewport_size({"width": width, "height": 1000})
        page.emulate_media(media="screen", color_scheme=scheme)
        page.wait_for_function(f"document.documentElement.scrollWidth <= {width}")
        seen.shot(f"points-{width}-{scheme}", whole=True)
    assert page.locator(".selected li").count() <= 50
    assert serious(page, "#picture") == []
    assert page.locator("main img[src=x], main script").count() == 0
    page.set_viewport_size({"width": 1440, "height": 1000})
    page.emulate_media(media="screen", color_scheme="light")
