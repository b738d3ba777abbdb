"""The live page in a real browser: search, the workbench, safety, access, small screens."""

from __future__ import annotations

import re
import warnings
from typing import Any

import numpy as np
import pytest

from modgap import Correction
from modgap.corrections import ExpectedWrong
from modgap.corrections.background import FewQueriesWarning
from modgap.reports import contents, from_pixels
from modgap.serve import Explorer
from modgap.serve.app import live_assets, make_app
from serving import DIM, HeldReport, endless_evaluation, make_data, served

pytestmark = pytest.mark.xdist_group("browser")
WAIT = 60_000


@pytest.fixture(scope="module")
def explorer():
    pixels = np.random.default_rng(0).integers(0, 256, size=(60, 8, 8))
    return Explorer(make_data(60, 120, pictures=from_pixels(pixels)), seed=1)


@pytest.fixture(scope="module")
def address(explorer):
    """A server whose report is made."""

    def document(progress: Any) -> dict[str, Any]:
        return contents(explorer.data, seed=1, progress=progress)[0]

    app = make_app(explorer, document, assets=live_assets())
    with served(app) as (_, port):
        assert app.state.document.wait(120).state == "done"
        yield f"http://127.0.0.1:{port}/"


@pytest.fixture(scope="module")
def tab(browser, address):
    """One tab for all tests, and what the browser complains of; it has compiled Plotly once."""
    opened = browser.new_context(accept_downloads=True).new_page()
    complaints: list[str] = []
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    opened.on("console", lambda m: m.type in ("error", "warning") and complaints.append(m.text))
    opened.on(
        "request",
        lambda r: r.url.startswith((address, "data:", "blob:")) or complaints.append(r.url),
    )
    return opened, complaints


@pytest.fixture
def page(tab, address, request):
    """The page, loaded anew, once it has searched; any complaint fails the test."""
    opened, complaints = tab
    width, scheme = getattr(request, "param", (1440, "light"))
    opened.set_viewport_size({"width": width, "height": 900})
    opened.emulate_media(color_scheme=scheme)
    complaints.clear()
    opened.goto(address)
    opened.wait_for_selector(".results[data-ready]", timeout=WAIT)
    yield opened
    assert complaints == []


def hits(page: Any, column: int) -> list[tuple[str, str]]:
    names = page.locator(".results-column").nth(column).locator(".hit .item-name")
    return [tuple(re.fullmatch(r"\W*(\w+) row ([\d,]+)", text.strip()).groups())
            for text in names.all_inner_texts()]  # fmt: skip


def ask(page: Any, modality: str, row: int) -> None:
    page.select_option("#ask-modality", modality)
    page.fill("#ask-text", str(row))
    page.keyboard.press("Enter")
    # Row 1 must not be taken for row 102, which may have been asked for before.
    name = re.compile(rf"{modality} row {row:,}(?![\d,])")
    page.locator(".asked .item-name", has_text=name).wait_for()
    page.wait_for_selector(".results:not([aria-busy])")


def fit(page: Any, method: str, **parameters: str) -> None:
    page.select_option("#workbench-method", method)
    for name, value in parameters.items():
        page.fill(f"#parameter-{name}", value)
    page.click("#workbench button.primary")
    page.wait_for_selector("#workbench button.primary:not([disabled])", timeout=WAIT)
    page.wait_for_selector(".results:not([aria-busy])")


def test_search_shows_what_the_explorer_finds_and_a_hit_is_the_next_query(page, explorer):
    page.select_option("#ask-index", "all")
    ask(page, "image", 7)
    found = explorer.search("image", row=7, k=10).raw
    assert hits(page, 0) == [(hit.modality, str(hit.row)) for hit in found]
    modality, row = hits(page, 0)[3]
    page.locator(".hit").nth(3).get_by_role("button").click()
    page.locator(".asked .item-name", has_text=f"{modality} row {row}").wait_for()
    again = explorer.search(modality, row=int(row), k=10).raw
    page.wait_for_selector(".results:not([aria-busy])")
    assert hits(page, 0) == [(hit.modality, str(hit.row)) for hit in again]


def test_search_and_workbench_are_in_the_navigation(page):
    links = page.locator("#sections a")
    links.filter(has_text="Workbench").wait_for()
    assert {"Search", "Workbench"} <= set(links.all_inner_texts())


def test_a_row_is_found_by_its_caption_with_the_keyboard(page):
    page.select_option("#ask-modality", "text")
    page.focus("#ask-text")
    page.keyboard.type("thing 33")
    page.wait_for_selector(".found button")
    assert page.locator(".found button").all_inner_texts()[0].startswith("Caption 33 of thing 33")
    page.keyboard.press("Enter")
    page.locator(".asked .item-label", has_text="Caption 33 of thing 33").wait_for()


def test_hits_that_have_pictures_show_them(page):
    page.select_option("#ask-index", "all")
    ask(page, "image", 7)
    shown = page.locator(".results-column").first.locator(".hit img")
    shown.first.wait_for()
    assert shown.first.evaluate("image => image.decode().then(() => image.naturalWidth)") == 8


def test_a_caption_like_markup_is_shown_as_text(page):
    ask(page, "text", 1)
    assert "<img src=x onerror=alert(1)>" in page.locator(".asked .item-label").inner_text()
    page.fill("#ask-text", "onerror")
    page.wait_for_selector(".found button")
    assert page.locator("img[src='x']").count() == 0
    assert page.locator("[onerror]").count() == 0


def test_a_fit_is_followed_shown_searched_with_and_downloaded(page, explorer, tmp_path):
    fit(page, "Shift", amount="0.35")
    rows = page.locator('[data-table="workbench"] tbody th').all_inner_texts()
    assert rows[0] == "as it is"
    assert any(row.startswith("Shift(amount=0.35)") for row in rows)
    identifier = page.eval_on_selector("#ask-correction", "select => select.value")
    fitted = explorer.corrections.get(identifier)
    assert fitted.name == "Shift(amount=0.35)"
    shown = page.locator('.num[data-key$="corrected.metrics.gap.value.value"]').last
    assert float(shown.get_attribute("data-value")) == fitted.corrected.metrics["gap"].value.value
    ask(page, "text", 5)
    found = explorer.search("text", row=5, k=10, correction=identifier, index="one_side")
    assert hits(page, 1) == [(h.modality, str(h.row)) for h in found.corrected or ()]
    with page.expect_download() as download:
        page.get_by_role("link", name="Download Shift(amount=0.35)").click()
    path = tmp_path / "c.safetensors"
    download.value.save_as(path)
    assert Correction.load(path).about["parameters"] == {"amount": 0.35}


def test_either_kind_of_query_is_searched_with_the_correction_that_serves_it(
    page, explorer, tmp_path
):
    fit(page, "Calibrate")
    identifier = page.eval_on_selector("#ask-correction", "select => select.value")
    for modality in ("image", "text"):
        ask(page, modality, 9)
        found = explorer.search(modality, row=9, k=10, correction=identifier, index="one_side")
        assert hits(page, 1) == [(h.modality, str(h.row)) for h in found.corrected or ()]
        assert found.corrected_demands in page.locator(".results-column").nth(1).inner_text()
    assert not page.locator("#search [role=alert]").is_visible()
    name = explorer.corrections.get(identifier).name
    page.get_by_text(f"What {name} demands, and what to run next").click()
    said = page.locator(".live-demands details[open]").inner_text()
    for asking in ("text", "image"):
        correction = explorer.corrections.get(identifier).serving(asking)
        assert f"For {asking} queries" in said
        assert f"--modality {asking} --role query" in said
        assert correction.queries == (asking,)
    with page.expect_download() as download:
        page.get_by_role("link", name=f"Download {name} for image queries").click()
    download.value.save_as(tmp_path / "c.safetensors")
    assert Correction.load(tmp_path / "c.safetensors").queries == ("image",)


def test_another_correction_is_put_to_use_in_search(page, explorer):
    fit(page, "Center")
    fit(page, "Shift", amount="0.2")
    page.get_by_role("button", name="Use Center() in search").click()
    page.wait_for_selector(".results-column h3:text('Corrected: Center()')")
    pressed = page.get_by_role("button", name="Use Center() in search")
    assert pressed.get_attribute("aria-pressed") == "true"


def test_a_fit_that_fails_says_why_and_the_next_one_works(page):
    fit(page, "OrthogonalShift", explained_variance="1")
    said = page.locator("#workbench [role=alert]")
    assert "moves nothing" in said.inner_text()
    fit(page, "Center")
    assert not said.is_visible()


def test_a_vector_can_be_pasted_and_a_wrong_one_is_refused_in_words(page, explorer):
    page.click(".paste summary")
    page.fill("#ask-vector", "1, 2, three")
    page.click("text=Search with the vector")
    assert page.locator("#search [role=alert]").inner_text() == "The vector must hold numbers only."
    page.fill("#ask-vector", "1 2 3")
    page.click("text=Search with the vector")
    said = page.locator("#search [role=alert]").inner_text()
    assert said == f"The vector must have {DIM} numbers, got 3."
    row = explorer.index.row("text", 17)[0]
    page.select_option("#ask-index", "all")
    page.fill("#ask-vector", str(row.tolist()))
    page.click("text=Search with the vector")
    page.locator(".asked", has_text="The vector you gave").wait_for()
    assert hits(page, 0)[0] == ("text", "17")
    assert not page.locator("#search [role=alert]").is_visible()


def test_nothing_misleads_while_the_report_is_made_cancelled_and_made_anew(tab, explorer):
    fresh = Explorer(explorer.data, seed=1)
    report = HeldReport(fresh.document)
    opened, complaints = tab
    with served(make_app(fresh, report, assets=live_assets())) as (_, port):
        address = f"http://127.0.0.1:{port}/"
        opened.goto(address)
        opened.wait_for_selector(".results[data-ready]", timeout=WAIT)
        column, advice = opened.locator(".results-column .missing"), "You can fit one in the"
        being_made = "The report is being made, and may recommend a correction."
        column.get_by_text(f"{being_made} {advice}").wait_for()
        opened.locator("#loading", has_text="being made: diagnosing (hubs), 20 % done.").wait_for()
        opened.click("#report-cancel")
        cancelled = "The report was cancelled at: diagnosing (hubs), 20 % done."
        opened.locator("#loading", has_text=cancelled).wait_for()
        assert opened.evaluate("document.activeElement.textContent") == "Make the report"
        column.get_by_text(f"{cancelled} So it recommends no correction. {advice}").wait_for()
        report.go.set()
        opened.get_by_role("button", name="Make the report").click()
        opened.wait_for_selector("html[data-ready=true]", state="attached", timeout=WAIT)
        assert not opened.locator("#loading").is_visible()
        opened.locator("h3", has_text="Corrected: ExpectedWrong").wait_for(timeout=WAIT)
        assert column.count() == 0
    # The browser itself complains of every answer that is no success.
    assert [one for one in complaints if "409" not in one and address not in one] == []


def test_a_fit_is_cancelled_while_it_runs_and_the_page_says_what_became_of_it(page):
    with endless_evaluation() as evaluating:
        page.select_option("#workbench-method", "Center")
        page.click("#workbench button.primary")
        assert evaluating.wait(30)
        page.get_by_role("button", name="Cancel", exact=True).click()
        page.wait_for_selector("#workbench button.primary:not([disabled])", timeout=WAIT)
    said = page.locator("#workbench [role=status]").inner_text()
    assert said == "Center() was cancelled while evaluating Center(). Nothing of it was kept."
    assert not page.locator("#workbench .working").is_visible()
    fit(page, "Shift", amount="0.3")
    assert "Shift(amount=0.3) is fitted" in page.locator("#workbench [role=status]").inner_text()


@pytest.mark.parametrize(
    "page",
    [
        (390, "dark"),
        *(pytest.param(one, marks=pytest.mark.long) for one in [(390, "light"), (1440, "dark")]),
    ],
    indirect=True,
)
def test_nothing_is_wider_than_the_screen_and_readers_of_all_kinds_can_use_it(page):
    fit(page, "Center")
    page.fill("#ask-text", "thing")
    page.wait_for_selector(".found button")
    width = page.evaluate("document.documentElement.scrollWidth")
    assert width <= page.viewport_size["width"]
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is missing")
    found = axe.Axe().run(page, context={"include": [["#search"], ["#workbench"]]})
    violations = [
        (v["id"], [n["target"] for n in v["nodes"]]) for v in found.response["violations"]
    ]
    assert violations == []


def test_results_below_the_cut_off_are_grey_and_nothing_found_is_said(page, explorer):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FewQueriesWarning)
        judged = explorer.try_out(ExpectedWrong(), lambda *step: None)
    explorer.corrections.add(judged)
    page.reload()
    page.wait_for_selector(".results[data-ready]", timeout=WAIT)
    page.select_option("#ask-modality", "text")
    page.select_option("#ask-index", "all")
    page.select_option("#ask-correction", judged.id)
    page.locator(".paste summary").click()
    texts = set()
    # The second query is between all others, like one without a match.
    middle = explorer.data.sides["text"].rows().mean(axis=0).tolist()
    for asked in ({"row": 5}, {"vector": middle}):
        if "row" in asked:
            ask(page, "text", asked["row"])
        else:
            page.fill("#ask-vector", str(middle))
            page.get_by_role("button", name="Search with the vector").click()
            page.locator(".asked", has_text="The vector you gave").wait_for()
        whole = explorer.search("text", correction=judged.id, **asked)
        column = page.locator(".results-column").nth(1)
        assert page.locator(".results-column").nth(0).locator(".cutoff").count() == 0
        shown = column.locator(".expected .num")
        values = [float(v) for v in shown.evaluate_all("all => all.map(one => one.dataset.value)")]
        wrong = [max(hit.expected_wrong, whole.least) for hit in whole.corrected]
        assert values == pytest.approx(wrong)
        lowest = int(column.locator("#cutoff").get_attribute("min"))
        for step in (lowest, 0, 6, 20):
            column.locator("#cutoff").fill(str(step))
            cut = explorer.search("text", correction=judged.id, at_most=10 ** (step / 10), **asked)
            kept = column.locator(".hit:not(.is-below) .item-name").all_inner_texts()
            assert [text.split()[-1] for text in kept] == [str(hit.row) for hit in cut.corrected]
            n_below = len(whole.corrected) - len(kept)
            assert column.get_by_text("below the cut-off").filter(visible=True).count() == n_below
            said = column.locator(".cutoff .note").inner_text()
            assert said.startswith(f"{len(kept)} of 10" if kept else "Nothing found")
            texts.add(said.split()[0])
    assert {"Nothing", "10"} <= texts
    # The cut-off stays for the next query.
    column.locator("#cutoff").fill("6")
    ask(page, "text", 3)
    assert page.locator("#cutoff").input_value() == "6"
