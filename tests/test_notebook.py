"""Notebooks: each runs; the outputs of the first are looked at in a browser."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed")
pytest.importorskip("ipykernel", reason="ipykernel is not installed")
pytest.importorskip("matplotlib", reason="matplotlib is not installed")

pytestmark = pytest.mark.xdist_group("browser")  # executed once
FOLDER = Path(__file__).parents[1] / "docs" / "notebooks"
NOTEBOOK = FOLDER / "first-look.ipynb"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))

# A quarter of all pairs of images are nearer than an image and its caption; no text query finds
# its image among the first ten.
CLAIMS = """
near = measurement.modalities[0].cone.q3 > 1 - measurement.pairs.alignment / 2
print(near, modgap.mixed_retrieval(data, queries="text").queries[0].hit.sum() == 0)
"""


@pytest.fixture(scope="module")
def executed():
    from nbclient import NotebookClient

    notebook = nbformat.read(NOTEBOOK, as_version=4)
    notebook.cells.append(nbformat.v4.new_code_cell(CLAIMS))
    return NotebookClient(notebook, timeout=300, kernel_name="python3").execute()


@pytest.fixture(scope="module")
def claims(executed):
    """What the cell of the tests printed; the others stay as readers see them."""
    (printed,) = executed.cells.pop().outputs
    said: list[str] = printed.text.split()
    return said


def outputs(notebook: Any) -> list[Any]:
    return [out for cell in notebook.cells for out in cell.get("outputs", ())]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_are_kept_without_outputs_and_open_in_colab(path):
    notebook = nbformat.read(path, as_version=nbformat.NO_CONVERT)
    nbformat.validate(notebook)
    assert (notebook.nbformat, notebook.nbformat_minor) == (4, 5)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert len(code) > 3
    assert f"blob/main/docs/notebooks/{path.name})" in notebook.cells[0].source
    assert all(cell.outputs == [] and cell.execution_count is None for cell in code)


@pytest.mark.parametrize(
    "path", [path for path in NOTEBOOKS if path != NOTEBOOK], ids=lambda path: path.stem
)
def test_every_cell_of_a_notebook_runs(path):
    pytest.importorskip("torch", reason="torch is not installed")
    pyplot = pytest.importorskip("matplotlib.pyplot", reason="matplotlib is not installed")
    pyplot.switch_backend("Agg")
    cells = nbformat.read(path, as_version=4).cells
    names: dict[str, Any] = {}
    for cell in (cell for cell in cells if cell.cell_type == "code"):
        # Lines that begin with a percent sign are for notebooks alone.
        code = re.sub(r"^(\s*)%.*$", r"\1pass", cell.source, flags=re.MULTILINE)
        exec(compile(code, path.name, "exec"), names)
    pyplot.close("all")
    if path.stem == "fix-a-search":
        assert (names["found"] >= 500).mean() > 0.9 > (names["hits"].modalities == "text").mean()
    if path.stem == "training-gap":
        gaps = [run[-1]["gap_distance"] for run in names["runs"].values()]
        assert gaps[1] < gaps[0]  # a warm temperature closes the gap


def test_the_notebook_runs_without_a_warning_and_shows_tables_and_drawings(executed, claims):
    assert {out.output_type for out in outputs(executed)} == {"execute_result", "display_data"}
    code = [cell for cell in executed.cells if cell.cell_type == "code"]
    assert all(cell.outputs for cell in code[1:])  # the first one installs
    shown = [out.data for out in outputs(executed)]
    with_table = [data["text/html"] for data in shown if "text/html" in data]
    assert sum("<table" in page for page in with_table) == 6
    assert sum("<table" in page and "<svg" in page for page in with_table) == 5
    assert sum("what is done to rows" in page for page in with_table) == 1
    assert sum("<iframe" in page for page in with_table) == 1
    assert sum("image/png" in data for data in shown) == 3
    for data in shown:
        plain = data["text/plain"]
        assert "\n" not in plain
        assert len(plain) <= 160
        assert not re.search(r"array\(\[|=\w+\(", plain), "a raw dataclass"


def test_what_the_notebook_says_of_the_digits_is_so(claims):
    assert claims == ["True", "True"]


@pytest.mark.long
def test_the_notebook_reads_on_dark_and_its_page_works_without_a_network(
    browser, executed, claims, tmp_path
):
    exporter = pytest.importorskip("nbconvert", reason="nbconvert is not installed").HTMLExporter
    page, _ = exporter(template_name="lab", theme="dark").from_notebook_node(executed)
    path = tmp_path / "notebook.html"
    path.write_text(page, encoding="utf-8")
    context = browser.new_context(offline=True, viewport={"width": 1100, "height": 900})
    tab = context.new_page()
    failures: list[str] = []
    tab.on("pageerror", lambda error: failures.append(str(error)))
    tab.goto(path.as_uri())
    colours = tab.evaluate(
        """() => [...document.querySelectorAll("table td, table caption, svg[role=img] text")]
            .map((one) => getComputedStyle(one)[one.closest("svg") ? "fill" : "color"])"""
    )
    frame = tab.locator("iframe[srcdoc]")
    frame.scroll_into_view_if_needed()
    inside = frame.content_frame
    inside.locator("html[data-ready=true]").wait_for(state="attached")
    assert "Use" in inside.locator("#verdict").inner_text()
    assert frame.bounding_box()["height"] < 900
    # An origin of its own: it reaches neither the notebook nor what it stores.
    assert inside.locator("html").evaluate("() => window.origin") == "null"
    context.close()
    assert len(colours) > 300
    assert all(min(map(int, re.findall(r"\d+", one)[:3])) > 128 for one in colours)
    assert [text for text in failures if "require" not in text] == []
