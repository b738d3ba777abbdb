"""The page as people meet it: a file in a real browser, with the network switched off."""

from __future__ import annotations

import base64
import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import modgap
from command_line import few_digits
from modgap.core.results import changed
from modgap.corrections import Background, Calibrate
from modgap.corrections.expected_wrong import list_of_batches
from modgap.search import search_corrected
from visits import ARTEFACTS, Visit, check_first_screen, serious, visit, written

pytestmark = pytest.mark.xdist_group("browser")


@pytest.fixture(scope="module")
def digits():
    found = few_digits(100)
    return modgap.report(
        found.X,
        found.Y,
        groups=found.groups,
        captions=(None, found.captions),
        images=(255 - found.images * (255 / 16), None),
        model="modgap digits",
        umap=False,
    )


@pytest.fixture(scope="module")
def digits_file(digits, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "digits.html"
    digits.save(path)
    return path


@pytest.fixture(scope="module")
def digits_seen(offline, digits_file):
    """The page of the digits, scrolled through once."""
    with visit(offline.new_page(), digits_file) as seen:
        seen.see_all()
        yield seen


@pytest.fixture
def seen(digits_seen):
    """The same page for all tests that leave it as it is."""
    digits_seen.page.bring_to_front()
    yield digits_seen
    digits_seen.page.emulate_media(media="screen")
    assert digits_seen.faults == []


@pytest.fixture
def fresh(tab, digits_file):
    """The same page, loaded anew."""
    with visit(tab, digits_file) as seen:
        yield seen


def look_up(document: Any, key: str) -> Any:
    """The value at a dotted path; a key of the document may itself hold dots."""
    if key == "":
        return document
    if isinstance(document, list):
        head, _, rest = key.partition(".")
        return look_up(document[int(head)], rest)
    for name, value in document.items():
        if key == name:
            return value
        if key.startswith(f"{name}."):
            return look_up(value, key[len(name) + 1 :])
    raise KeyError(key)


def test_every_figure_is_drawn_from_a_file_without_network(seen):
    figures = seen.page.query_selector_all("figure")
    assert len(figures) == 11
    for figure in figures:
        assert figure.query_selector("canvas, svg.main-svg"), figure.get_attribute("id")
        assert figure.query_selector("figcaption, h3, h4").inner_text()
    assert "WebGL is not supported" not in seen.page.inner_text("#picture")
    assert {url.partition(":")[0] for url in seen.asked} <= {"file", "data", "blob"}


def test_numbers_on_the_page_are_those_of_the_run(seen, digits):
    document = json.loads(json.dumps(digits.to_dict()))
    shown = seen.page.evaluate(
        "[...document.querySelectorAll('.num')].map(e => [e.dataset.key, e.dataset.value, "
        "e.textContent])"
    )
    assert len(shown) > 500
    for key, value, text in shown:
        expected = look_up(document, key)
        if expected is None:
            assert text == "–"
            continue
        assert float(value) == expected
        written = float(text.replace(",", "").replace("−", "-").replace("+", "").rstrip("%"))
        # Three digits at least are written, and they are right.
        assert written == pytest.approx(expected, rel=5e-3, abs=6e-4)


def test_verdict_is_said_in_two_sentences(seen, digits):
    said = seen.page.inner_text("#verdict")
    for sentence in digits.to_dict()["verdict"]["sentences"]:
        assert sentence in said


def test_the_first_screen_has_headline_search_and_three_metrics(fresh, digits):
    document = digits.to_dict()
    check_first_screen(fresh, document, "digits")
    typical = document["answers"]["queries"][document["answers"]["typical"]]
    items = document["answers"]["items"]
    assert fresh.page.inner_text(".example-text").strip() == items[typical["item"]]["label"]
    for side in ("raw", "corrected"):
        shown = fresh.page.locator(f".seen-side.{side}")
        hits = typical[side][: shown.locator("li").count()]
        for line, hit in zip(shown.locator("li").all(), hits, strict=True):
            one = items[hit["item"]]
            label = one["label"] or f"{document['names'][one['modality']]} {one['row']:,}"
            assert label in line.text_content()
            assert ("✓" in line.text_content()) == hit["match"]
            assert line.locator("img").count() == (one["thumbnail"] is not None)
        place = shown.locator('.num[data-term="place"]')
        assert int(place.get_attribute("data-value")) == typical[f"{side}_place"]


def index_of(data: modgap.Modalities, query: int) -> list[tuple[str, int]]:
    """Images and captions of the index that this caption asks, worked out anew.

    A quarter of the shuffled scans is held out. One half of it is there as images, the other as
    captions; a query asks the index that has its image.
    """
    gx, gy = data.groups
    known = np.unique(gx)
    held = np.sort(np.random.default_rng(0).permutation(known)[round(0.75 * len(known)) :])
    drawn = held[np.random.default_rng(0).permutation(len(held))]
    halves = np.split(drawn, [round(len(drawn) / 2)])
    images, captions = halves if gy[query] in halves[0] else halves[::-1]
    return [("image", int(row)) for row in np.flatnonzero(np.isin(gx, images))] + [
        ("text", int(row)) for row in np.flatnonzero(np.isin(gy, captions))
    ]


def test_a_stored_query_is_found_by_keyboard_and_its_results_are_right(fresh, digits):
    found, answers = few_digits(100), digits.to_dict()["answers"]
    # Scans that share a caption are one group.
    data = modgap.Modalities.of(found.X, found.Y, groups=found.groups).with_duplicates_grouped()
    wanted = (answers["typical"] + 7) % len(answers["queries"])
    query = answers["items"][answers["queries"][wanted]["item"]]["row"]
    page = fresh.page
    page.focus("#find-query")
    page.keyboard.type("no such words at all")
    page.keyboard.press("Enter")
    assert page.get_attribute(".results", "data-query") == str(answers["typical"])
    assert "No stored query has these words." in page.inner_text("#search")
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.type(str(found.captions[query]).upper())
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert page.get_attribute(".results", "data-query") == str(wanted)
    assert page.locator(".stored-query[aria-pressed=true]").count() == 1
    assert str(found.captions[query]) in page.inner_text(".asked")
    correction = digits.diagnosis.corrections[digits.diagnosis.recommended]
    index, shown = index_of(data, query), []
    for column, fix in enumerate((modgap.Correction.identity(64), correction)):
        held = {kind: np.array([row for name, row in index if name == kind]) for kind in data.names}
        raw = {"image": found.X[held["image"]], "text": found.Y[held["text"]]}
        if fix.background is not None:  # the bank searches this very index
            keys = {kind: data.keys_of(kind)[rows] for kind, rows in held.items()}
            lists = {
                kind: list_of_batches(fix, kind, iter([rows]), keys[kind])
                for kind, rows in raw.items()
            }
            fix = changed(fix, background=Background(lists))
        documents = {kind: fix.apply(rows, kind) for kind, rows in raw.items()}
        hits = search_corrected(fix, found.Y[[query]], documents, 10, modality="text")
        named = zip(hits.modalities[0], hits.ids[0], strict=True)
        expected = [(kind, int(held[kind][place])) for kind, place in named]
        lines = page.locator(".results-column").nth(column)
        shown.append(lines.locator(".item-name").all_inner_texts())
        assert shown[-1] == [f"{name} row {row:,}" for name, row in expected]
        read = "all => all.map(e => +e.dataset.value)"
        numbers = lines.locator(".num[data-term=score]").evaluate_all(read)
        np.testing.assert_allclose(numbers, hits.scores[0], atol=1e-6)
        assert lines.locator(".cutoff").count() == (fix.background is not None)
        if fix.background is not None:
            wrong = lines.locator(".num[data-term=expected_wrong]").evaluate_all(read)
            known = np.maximum(hits.expected_wrong[0], hits.least)
            np.testing.assert_allclose(wrong, known, rtol=1e-4)
            lines.locator("#cutoff").fill("5")
            below = lines.locator(".hit").evaluate_all(
                "hits => hits.map(hit => hit.classList.contains('is-below'))"
            )
            assert below == (hits.expected_wrong[0] > 10**0.5).tolist()
            assert len(set(below)) == 2
        marked = lines.locator(".hit").evaluate_all(
            "hits => hits.map(hit => hit.classList.contains('is-match'))"
        )
        groups = dict(zip(data.names, data.groups, strict=True))
        right = groups["text"][query]
        assert marked == [bool(groups[name][row] == right) for name, row in expected]
    before, after = shown
    facts = page.locator(".results-column").nth(1).locator(".hit-facts").all_inner_texts()
    for place, (name, text) in enumerate(zip(after, facts, strict=True)):
        assert ("new here" in text) == (name not in before)
        was = before.index(name) if name in before else place
        assert (f"was {was + 1}" in text) == (was != place)


def test_slider_moves_points_and_numbers_between_both_evaluations(fresh, digits):
    document = digits.to_dict()
    trials = {trial["method"]: trial["confirm"] for trial in document["diagnosis"]["trials"]}
    offered = fresh.page.locator("#path option").all_inner_texts()
    assert offered[0] == f"Best fixed correction: {digits.diagnosis.moving}"
    assert digits.diagnosis.moving != document["diagnosis"]["recommended"]
    assert [one.partition(":")[0] for one in offered[1:]] == [
        "Liang et al.",
        "GR-CLIP, I0T",
        "Chowers et al.",
    ]
    for choice, path in enumerate(document["paths"]):
        fresh.page.select_option("#path", index=choice)
        steps = int(fresh.page.locator("#slider").get_attribute("max"))
        assert fresh.page.get_attribute("#slider", "data-t") == ("1" if choice else "0")
        fresh.slide(0)
        before = fresh.points()
        for name in path["metrics"]:
            raw = document["diagnosis"]["raw"]["metrics"][name]["value"]["value"]
            shown = fresh.number(f"paths.{choice}.metrics.{name}.0")
            assert shown == pytest.approx(raw, abs=1e-12)
        fresh.slide(steps)
        after = fresh.points()
        for name in path["metrics"]:
            corrected = trials[path["method_at_1"]]["metrics"][name]["value"]["value"]
            shown = fresh.number(f"paths.{choice}.metrics.{name}.{steps}")
            assert shown == pytest.approx(corrected, abs=1e-12)
        for temperature, losses in path["losses"].items():
            key = f"paths.{choice}.losses.{temperature}.{steps}"
            assert fresh.number(key) == losses[-1]
        assert max(np.abs(a - b).max() for a, b in zip(before, after, strict=True)) > 0.05
        gap = [np.linalg.norm(p[0].mean(0) - p[1].mean(0)) for p in (before, after)]
        assert gap[1] < gap[0] / 2


def test_slider_and_controls_work_from_the_keyboard(fresh, digits):
    closed = digits.document["paths"][0]["gap_closed"]
    fresh.page.focus("#slider")
    fresh.page.keyboard.press("ArrowRight")
    assert fresh.page.input_value("#slider") == "1"
    said = fresh.page.get_attribute("#slider", "aria-valuetext")
    assert said == f"Step 1 of {len(closed) - 1}, gap closed: {closed[1]}\N{NO-BREAK SPACE}%"
    fresh.page.keyboard.press("End")
    assert fresh.page.input_value("#slider") == fresh.page.get_attribute("#slider", "max")
    reached = set()
    for _ in range(60):
        fresh.page.keyboard.press("Tab")
        reached.add(fresh.page.evaluate("document.activeElement.id || ''"))
    assert {"find", "metric"} <= reached


def test_every_number_explains_itself_on_hover_and_focus(fresh, digits):
    terms = digits.to_dict()["terms"]
    known = fresh.page.evaluate(
        "[...new Set([...document.querySelectorAll('.num')].map(e => e.dataset.term))]"
    )
    assert set(known) <= set(terms)
    fresh.page.locator('#verdict .num[data-term="gap"]').first.hover()
    tip = fresh.page.locator("[role=tooltip]")
    tip.wait_for(state="visible")
    assert terms["gap"]["definition"] in tip.inner_text()
    assert "Liang et al. 2022" in tip.inner_text()
    fresh.shot("digits-tooltip")
    fresh.page.keyboard.press("Escape")
    tip.wait_for(state="hidden")
    fresh.page.locator(".num[tabindex='0']").first.focus()
    tip.wait_for(state="visible")


def test_points_say_what_they_are_on_hover(fresh):
    fresh.page.locator("#picture-figure .js-plotly-plot").scroll_into_view_if_needed()
    box = fresh.page.locator("#picture-figure .js-plotly-plot").bounding_box()
    x, y = fresh.page.evaluate(
        """() => { const plot = document.querySelector('#picture-figure .js-plotly-plot');
          const t = plot.data.find(d => d.mode === 'markers'), l = plot._fullLayout;
          const at = (axis, value) => axis._offset + axis.d2p(value);
          return [at(l.xaxis, t.x[3]), at(l.yaxis, t.y[3])]; }"""
    )
    fresh.page.mouse.move(box["x"] + x - 3, box["y"] + y)
    fresh.page.mouse.move(box["x"] + x, box["y"] + y)
    label = fresh.page.locator("#picture-figure .hoverlayer text").first
    label.wait_for(state="attached")
    assert "image" in label.text_content() or "text" in label.text_content()


def check_holds_together(seen: Visit, width: int, scheme: str, name: str = "digits") -> None:
    """Nothing is wider than the screen, and the page is as light or dark as was asked."""
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= width
    ground = seen.page.evaluate("getComputedStyle(document.body).backgroundColor")
    light = sum(int(v) for v in ground.strip("rgba()").split(",")[:3]) / 3
    assert (light > 128) == (scheme == "light")
    seen.shot(f"{name}-{width}-{scheme}", whole=True)


def test_page_holds_together_and_axe_finds_nothing_serious(seen):
    check_holds_together(seen, 1440, "light")
    assert serious(seen.page) == []


@pytest.mark.parametrize(
    ("width", "scheme", "with_axe"),
    [
        (390, "dark", True),
        pytest.param(768, "light", False, marks=pytest.mark.long),
        (2560, "dark", False),
    ],
)
def test_page_holds_together_at_other_widths(tab, digits_file, width, scheme, with_axe):
    with visit(tab, digits_file, width, scheme) as seen:
        seen.see_all()
        seen.page.locator("#path option").first.evaluate(  # a correction with a long name
            "(one, name) => { one.textContent = name; }",
            "Recommended: Calibrate(mode='keep', hubs=0.5, neighbours=5)",
        )
        check_holds_together(seen, width, scheme)
        if with_axe:
            assert serious(seen.page) == []


def test_the_theme_can_be_switched_and_figures_follow(fresh):
    read = "document.querySelector('#picture-figure .js-plotly-plot').layout.font.color"
    before = fresh.page.evaluate(read)
    fresh.page.click("#theme")
    fresh.page.wait_for_function(f"{read} !== '{before}'")
    assert fresh.page.get_attribute("#theme", "aria-pressed") == "true"


def test_tables_and_figures_can_be_downloaded(seen, digits, tmp_path):
    def saved(name: str) -> Path:
        with seen.page.expect_download() as download:
            seen.page.get_by_role("button", name=name, exact=True).click()
        path = tmp_path / download.value.suggested_filename
        download.value.save_as(path)
        return path

    path = saved("Download the table “corrections” as CSV")
    rows = list(csv.reader(path.read_text(encoding="utf-8-sig").splitlines()))
    trials = digits.to_dict()["diagnosis"]["trials"]
    assert len(rows) == 2 + len(trials)
    [line] = [row for row in rows if row[0].lstrip("→ ") == "Center()"]
    [center] = [trial for trial in trials if trial["method"] == "Center()"]
    assert str(center["confirm"]["metrics"]["gap"]["value"]["value"]) in line
    png = saved("Download the figure “Cosines within and across” as PNG")
    assert png.suffix == ".png"
    assert png.read_bytes().startswith(b"\x89PNG")
    svg = saved("Download the figure “Picture of image and text” as SVG")
    assert "<svg" in svg.read_text(encoding="utf-8")[:200]
    fix = digits.to_dict()["fix"]
    with seen.page.expect_download() as download:
        seen.page.locator("#fix a[download]").click()
    download.value.save_as(tmp_path / "correction")
    assert (tmp_path / "correction").read_bytes() == base64.b64decode(fix["data"])


def test_other_projections_and_three_dimensions_can_be_chosen(fresh):
    before = fresh.points()[0]
    fresh.page.select_option("#projection", label="SVD")
    fresh.page.wait_for_timeout(300)
    assert np.abs(fresh.points()[0] - before).max() > 0.01
    fresh.page.click("#three")
    fresh.page.wait_for_function(
        "document.querySelector('#picture-figure .js-plotly-plot').data"
        ".some(t => t.type === 'scatter3d')"
    )
    fresh.shot("digits-3d")


def test_print_shows_figures_and_hides_controls(seen):
    seen.page.emulate_media(media="print")
    assert not seen.page.locator("#slider").is_visible()
    assert seen.page.locator("#cosines svg.main-svg").first.is_visible()
    path = Path(ARTEFACTS) / "digits.pdf" if ARTEFACTS else None
    assert seen.page.pdf(path=path, format="A4").startswith(b"%PDF")


def test_what_the_correction_demands_is_in_the_verdict_and_beside_the_file(fresh, digits):
    fix = digits.to_dict()["fix"]
    assert not fresh.page.locator("#verdict pre").is_visible()
    fresh.page.locator("#verdict summary").focus()
    fresh.page.keyboard.press("Enter")
    fresh.page.locator("#verdict pre").wait_for()
    for place in ("#verdict", "#fix"):
        said = fresh.page.inner_text(place)
        for words in (*fix["demands"].values(), *fix["commands"], fix["note"]):
            assert words in said
    assert fix["code"] in fresh.page.inner_text("#fix")
    assert "Queries\ntext" in fresh.page.inner_text("#head")
    assert "Text recall@1" not in fresh.page.inner_text("main")


@pytest.mark.long
@pytest.mark.published
def test_published_clip_page_says_use_and_is_drawn(tab, published_clip, tmp_path):
    found = modgap.diagnose(*published_clip, correctors=(Calibrate("keep"),))
    title = "CLIP ViT-B/16, 500 MS-COCO pairs"
    path, document = written(tmp_path, *published_clip, title=title, diagnosis=found)
    verdict = document["verdict"]
    assert verdict["verdict"] == "use"
    assert verdict["sentences"][0].endswith("image and text are 0.847 apart (125 held-out pairs).")
    with visit(tab, path) as seen:
        seen.see_all()
        assert "0.847" in seen.page.inner_text("#verdict")
        seen.shot("clip-1440-light", whole=True)


@pytest.fixture(scope="module")
def three_file(digits_fused, tmp_path_factory):
    """Images, captions and fused documents of the digits, with queries of their own."""
    asked = digits_fused.sides["text"].rows()[::9], digits_fused.group_labels[1][::9]
    data = digits_fused.with_queries({"text": asked[0]}, {"text": asked[1]})
    data = data.take_groups(data.matched_groups[:60])
    found = modgap.report(data, images={"image": np.zeros((60, 4, 4))}, umap=False)
    path = tmp_path_factory.mktemp("page") / "three.html"
    found.save(path)
    return path, json.loads(json.dumps(found.to_dict()))


@pytest.mark.parametrize(
    ("width", "scheme"), [(390, "dark"), pytest.param(1440, "light", marks=pytest.mark.long)]
)
def test_three_modalities_have_a_page(tab, three_file, width, scheme):
    path, document = three_file
    with visit(tab, path, width, scheme) as seen:
        check_first_screen(seen, document, "three")
        seen.page.set_viewport_size({"width": width, "height": 1000})
        seen.page.emulate_media(color_scheme=scheme)
        seen.see_all()
        check_holds_together(seen, width, scheme, "three")
        assert serious(seen.page) == []
        said = seen.page.inner_text("main")
        for sentence in (*document["missing"].values(), *document["verdict"]["sentences"]):
            assert sentence in said
        shown = seen.page.evaluate(
            "[...document.querySelectorAll('.num')].map(e => [e.dataset.key, e.dataset.value])"
        )
        assert seen.page.locator("#slider").count() == 0
    keys = {key for key, _ in shown}
    assert {f"measurement.gap_matrix.{i}.{j}" for i in range(3) for j in range(3) if i != j} <= keys
    assert {"every_two.lines.0.sides.2", "measures.0.sides.3", "asking.0.n"} <= keys
    for key, value in shown:
        expected = look_up(document, key)
        assert expected is None or float(value) == expected


def test_each_of_three_modalities_is_a_cloud_and_a_click_finds_all_matches(tab, three_file):
    path, document = three_file
    with visit(tab, path) as seen:
        clouds = seen.page.evaluate(
            """() => document.querySelector('#picture-figure .js-plotly-plot').data.slice(0, 3)
                 .map(t => [t.name, t.marker.color, t.marker.symbol, t.x.length])"""
        )
        assert [cloud[0] for cloud in clouds] == document["names"]
        for look in (1, 2):
            assert len({cloud[look] for cloud in clouds}) == 3
        drawn = [len(side["rows"]) for side in document["picture"]["sides"]]
        assert [cloud[3] for cloud in clouds] == drawn
        seen.page.fill("#find", f"fused {document['picture']['sides'][2]['rows'][5]}")
        seen.page.keyboard.press("Enter")
        names = seen.page.locator("#card .item-name").all_inner_texts()
        assert [name.split(",")[0] for name in names] == ["fused", "image", "text"]
        seen.page.check("#lines")
        seen.page.click("#three")
        seen.page.wait_for_function(
            "document.querySelector('#picture-figure .js-plotly-plot').data"
            ".filter(t => t.type === 'scatter3d').length === 5"
        )
