"""The page of odd data: hostile and long words, too few rows, rows without pairs or pictures."""

from __future__ import annotations

import csv
from typing import Any

import numpy as np
import pytest

import modgap
from conftest import make_pairs
from modgap.reports.rows import from_pixels
from visits import EVIL, Visit, check_first_screen, visit, written

pytestmark = pytest.mark.xdist_group("browser")


def test_long_captions_and_names_with_markup_do_nothing(tab, tmp_path):
    n, names = 400, tuple(one.replace(".", "") for one in EVIL[:2])
    path, document = written(
        tmp_path,
        *make_pairs(n, 16),
        captions_x=[EVIL[i % len(EVIL)] * 9 for i in range(n)],
        captions_y=[EVIL[(i + 1) % len(EVIL)] * 9 for i in range(n)],
        source=f"folder/{EVIL[0]}.npy",
        names=names,
        queries=names[1],
        model=EVIL[1],
        title=EVIL[1] * 9,
        thumbnails={names[0]: from_pixels(np.zeros((n, 4, 4)))},
    )
    assert document["verdict"]["verdict"] == "use"
    with visit(tab, path) as seen:
        check_first_screen(seen, document, "long")
        seen.page.set_viewport_size({"width": 1440, "height": 1000})
        seen.see_all()
        box = seen.page.locator("#picture-figure .js-plotly-plot").bounding_box()
        for share in np.linspace(0.1, 0.9, 15):
            seen.page.mouse.move(box["x"] + share * box["width"], box["y"] + box["height"] / 2)
        seen.page.fill("#find", "<img")
        seen.page.keyboard.press("Enter")
        seen.page.fill("#find-query", "<img")
        seen.page.keyboard.press("Enter")
        assert EVIL[0] * 2 in seen.page.inner_text(".asked")
        assert seen.page.evaluate("window.pwned") is None
        assert (
            seen.page.locator("main img[src=x], main script, main a[href^=javascript]").count() == 0
        )
        assert EVIL[1] in seen.page.inner_text("main")
        with seen.page.expect_download() as download:
            seen.page.get_by_role("button", name="as CSV").first.click()
        download.value.save_as(tmp_path / "table.csv")
        for row in csv.reader((tmp_path / "table.csv").read_text("utf-8-sig").splitlines()):
            assert not any(cell.startswith(("=", "@")) for cell in row)


@pytest.mark.parametrize(
    ("name", "rows", "options"),
    [
        pytest.param(
            "unequal", (make_pairs(60)[0][:31], make_pairs(60)[1]), {}, marks=pytest.mark.long
        ),
        ("three-items", make_pairs(3), {}),
        pytest.param("two-dimensions", make_pairs(60, 2), {}, marks=pytest.mark.long),
        ("one-dimension", make_pairs(30, 1), {}),
        ("all-the-same", (np.ones((12, 4)), np.full((12, 4), 2.0)), {}),
        ("a-row-of-zeros", (np.vstack([np.zeros((1, 5)), np.eye(5)]), np.eye(6, 5) + 1), {}),
    ],
)  # fmt: skip
# In one or two dimensions pairs can hardly be told from chance.
@pytest.mark.filterwarnings("ignore::modgap.io.PairingWarning")
def test_page_shows_what_it_can_and_says_what_it_cannot(tab, tmp_path, name, rows, options):
    path, document = written(tmp_path, *rows, **options)
    with visit(tab, path) as seen:
        check_says_what_it_cannot(seen, document)
        seen.shot(f"bad-{name}", whole=True)


def check_says_what_it_cannot(seen: Visit, document: dict[str, Any]) -> None:
    seen.see_all()
    said = seen.page.inner_text("main")
    for sentence in document["missing"].values():
        assert sentence in said
    assert said.count("No verdict") == (document["diagnosis"] is None)
    assert "undefined" not in said
    assert "NaN" not in said


def test_missing_thumbnails_leave_the_captions_which_may_have_gaps(tab, tmp_path):
    path, document = written(
        tmp_path, *make_pairs(30), captions_x=[f"row {i}" for i in range(30)],
        captions_y=[None, "a"] * 15, thumbnails={"image": lambda row: None},
    )  # fmt: skip
    with visit(tab, path) as seen:
        check_says_what_it_cannot(seen, document)
        assert f"row {document['conformity']['most_x'][0]['row']}" in seen.page.inner_text("main")


def test_a_correction_without_a_verdict_is_shown_as_not_judged(tab, tmp_path):
    path, document = written(tmp_path, *make_pairs(60), paired=False)
    label = "balances the modalities; too few pairs to test relevance"
    with visit(tab, path) as seen:
        check_says_what_it_cannot(seen, document)
        seen.shot("bad-no-pairs", whole=True)
        box = seen.page.locator(".verdict")
        assert box.locator(".label").inner_text() == f"{document['fix']['method']}: {label}"
        assert seen.page.locator("#fix h2").inner_text() == f"A fix: {label}"
        assert f"Written: {label}" in seen.page.inner_text("#corrections")
        assert "Recommended" not in seen.page.inner_text("#corrections")
        excess = seen.page.locator('[data-metric="own_modality_excess@10"] .tile-values .num')
        before, after = (float(one.get_attribute("data-value")) for one in excess.all())
        trials = {t["method"]: t["confirm"] for t in document["diagnosis"]["trials"]}
        name = "own_modality_excess@10"
        assert before == document["diagnosis"]["raw"]["metrics"][name]["value"]["value"]
        assert after == trials[document["fix"]["method"]]["metrics"][name]["value"]["value"]
        with seen.page.expect_download() as download:
            seen.page.locator("#fix a[download]").click()
        download.value.save_as(tmp_path / "correction.safetensors")
        written_ = modgap.Correction.load(tmp_path / "correction.safetensors")
        assert written_.about["judged_on"] == label
