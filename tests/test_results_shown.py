"""What results look like: one line, a table with a drawing in a notebook, a figure."""

from __future__ import annotations

import dataclasses
import html
import importlib
import pkgutil
import re
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import modgap
from conftest import make_pairs
from modgap.core.checks import InputTypeError
from modgap.core.results import Brief, HasFigure, Result
from modgap.corrections import Calibrate, Center, Procrustes, Shift
from modgap.diagnosis import Fix, gap_paths
from modgap.drift import detect_drift
from modgap.evaluation import Gaussian, mixed_curve, robustness
from modgap.io import Modalities
from modgap.measures import profile, projection
from modgap.search import Hits, judge_hits, reliability_curve
from modgap.tasks import sweep_task, zero_shot_task
from task_rows import planted

pytestmark = pytest.mark.xdist_group("results shown")  # one set of results for several tests
SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "<img src=x onerror=alert(1)>&\"'"
# Others say how these are shown.
NOT_OURS = {"Embeddings", "Modalities"}


@pytest.fixture(scope="module")
def shown():
    """One of each kind that is shown, on few rows."""
    names, asks = ("image", "text"), "text"
    X, Y = make_pairs(420, 16, seed=2)
    X, Y = (A / np.linalg.norm(A, axis=1, keepdims=True) for A in (X, Y))
    data = Modalities.of(X, Y, names)
    diagnosis = modgap.diagnose(data, correctors=(Procrustes(), Calibrate()), queries=asks)
    hubs = Calibrate(hubs=0.5).fit(data, queries=asks)
    hits = judge_hits(Y, X, pair=(names[1], names[0]))
    calibrator = modgap.ScoreCalibrator().fit(hits)
    measurement = modgap.measure(data)
    assert measurement.pairs is not None
    (path,), _ = gap_paths(data, queries=asks, moves=(Shift(0.5),), steps=(0, 1))
    return {
        "measurement": measurement,
        "shift": measurement.pairs.shift_landscape,
        "origin": measurement.pairs.origin_landscape,
        "diagnosis": diagnosis,
        "correction": diagnosis.correction,
        "hubs": hubs.correction_,
        "evaluation": modgap.evaluate_correction(data, correction=diagnosis.correction),
        "as it is": modgap.evaluate_correction(data),
        "retrieval": modgap.retrieval(data),
        "mixed": modgap.mixed_retrieval(data),
        "curve": mixed_curve(data),
        "path": path,
        "hits": Hits(np.array([[3, 1]]), np.array([[0.5, 0.25]]), np.array([names])),
        "judged": hits,
        "reliability": reliability_curve(calibrator.predict(hits.scores), hits.matches),
        "robustness": robustness(Y[:50], X[:50], Gaussian(0.1), 3, amounts=(0.0, 1.0)),
        "projection": projection(dict(zip(names, (X, Y), strict=True))),
        "profile": profile(data),
        "report": modgap.report(data, diagnosis=diagnosis),
        "fix": Fix("out", {"text": diagnosis}, ("out/search.py",), ("modgap index build",)),
        "drift": detect_drift({"image": X[:200]}, {"image": X[200:] + 0.5}),
        "sweep": sweep_task(zero_shot_task(*planted()), resamples=100),
    }


@pytest.fixture(autouse=True)
def _no_window():
    yield
    import matplotlib.pyplot as pyplot

    pyplot.close("all")


def nested(value: Any) -> Iterator[Any]:
    """A result and all results inside it."""
    if isinstance(value, Brief):
        yield value
        for field in dataclasses.fields(value):
            yield from nested(getattr(value, field.name))
    elif isinstance(value, dict):
        for item in value.values():
            yield from nested(item)
    elif isinstance(value, tuple):
        for item in value:
            yield from nested(item)


def test_every_result_is_one_short_line(shown):
    seen = {type(one): one for result in shown.values() for one in nested(result)}
    assert len(seen) > 30
    kinds = {kind.__name__ for kind in seen}
    for kind, result in seen.items():
        line = repr(result)
        assert line.startswith(f"{kind.__name__}(")
        assert len(line) <= 160
        assert "\n" not in line
        assert "array([" not in line
        inside = line.removeprefix(f"{kind.__name__}(")
        assert not any(f"{name}(" in inside for name in kinds), line


def test_a_line_has_the_main_numbers(shown):
    gap = f"{shown['measurement'].gap_distance:.4f}"
    rows = "image 420 rows, text 420 rows, 16 columns"
    assert repr(shown["measurement"]) == f"Measurement({rows}, gap distance {gap})"
    recall = shown["retrieval"].recall()["image_retrieval_recall@1"]
    assert f"text finds image: recall@1 {recall:.3f}" in repr(shown["retrieval"])
    assert f"NDCG@10 {shown['mixed'].ndcg:.3f}" in repr(shown["mixed"])
    served = "for text queries, 16 → 17 columns, rank by inner product"
    assert repr(shown["hubs"]) == f"Correction(Calibrate(mode='keep', hubs=0.5), {served})"
    found = shown["diagnosis"]
    assert repr(found).startswith(f"Diagnosis({found.verdict}: {found.recommended}, goal mixed ")
    assert found.recommended in repr(shown["report"])


def test_what_is_no_result_says_what_it_is_too(shown):
    assert repr(modgap.load_digits()) == "DigitPairs(1,000 scans, 5,000 captions, 64 columns)"
    assert repr(shown["hubs"].affine("text", "query")) == "Affine(16 → 16 columns, unit length)"
    assert repr(shown["profile"].moments["text"]) == "Moments(420 rows, 16 columns)"
    fitted = modgap.ScoreCalibrator(k=5).fit(shown["judged"])
    assert repr(fitted) == "ScoreCalibrator(k=5) fitted on text→image"
    assert repr(modgap.ScoreCalibrator(k=5)) == "ScoreCalibrator(k=5)"
    assert repr(modgap.index.QuantisedIndex("4bit")) == "QuantisedIndex('4bit')"


def test_an_index_says_where_it_is_and_what_it_holds(shown):
    pytest.importorskip("faiss", reason="faiss is not installed")
    index = modgap.index.FaissIndex("both.faiss", shown["hubs"])
    assert repr(index) == "FaissIndex('both.faiss', image and text, by inner product)"


def test_a_line_stays_one_line_whatever_a_result_holds():
    @dataclasses.dataclass(frozen=True)
    class Held(Result):
        text: str
        rows: np.ndarray
        many: tuple[int, ...]
        none: None
        share: float

    held = Held("a\n\x1b[31mb" + 400 * "c", np.zeros((3, 4)), tuple(range(900)), None, 1 / 3)
    assert repr(held)[:12] == "Held(text='a"
    assert repr(held).endswith("…', rows=array(3, 4), many=<900>, none=None, share=0.3333)")
    assert repr(held).isprintable()
    wide = dataclasses.make_dataclass(
        "Wide", [f"f{k}" for k in range(90)], bases=(Result,), frozen=True
    )
    assert len(repr(wide(*range(90)))) == 160


def test_a_class_may_say_its_own_line_and_pass_it_on():
    class Own(Brief):
        def __repr__(self) -> str:
            return "own"

    @dataclasses.dataclass
    class Heir(Own):
        value: int

    assert repr(Heir(1)) == "own"


def public_dataclasses() -> list[type]:
    found = {}
    for package in pkgutil.walk_packages(modgap.__path__, "modgap."):
        if package.ispkg and not package.name.startswith(
            ("modgap.core", "modgap.arrays", "modgap.cli", "modgap.adapters")
        ):
            module = importlib.import_module(package.name)
            values = [getattr(module, name) for name in getattr(module, "__all__", ())]
            kinds = [v for v in values if isinstance(v, type) and dataclasses.is_dataclass(v)]
            found.update({f"{kind.__module__}.{kind.__name__}": kind for kind in kinds})
    return [kind for kind in found.values() if kind.__name__ not in NOT_OURS]


def test_no_public_value_dumps_its_arrays():
    arrays = re.compile(r"ndarray|NDArray|\bArray\b|Tensor|Moments|Items")
    for kind in public_dataclasses():
        held = [str(f.type) for f in dataclasses.fields(kind) if f.repr]
        if any(arrays.search(one) and "Callable" not in one for one in held):
            assert issubclass(kind, Brief), kind


IN_NOTEBOOK = (
    "measurement", "diagnosis", "correction", "hubs", "evaluation", "as it is", "retrieval",
    "mixed", "sweep", "hits", "fix",
)  # fmt: skip


@pytest.mark.parametrize("name", IN_NOTEBOOK)
def test_a_notebook_shows_a_drawing_and_a_table(shown, name):
    tree = ElementTree.fromstring(shown[name]._repr_html_().replace("&emsp;", ""))
    cells = [cell.text for cell in tree.iter("td")]
    assert len(cells) > 3
    drawings = list(tree.iter(f"{SVG}svg"))
    assert len(drawings) == (name not in ("hits", "correction", "hubs"))
    for drawing in drawings:
        assert list(drawing.iter(f"{SVG}text"))
        assert drawing.get("fill") == "currentColor"  # on light and on dark


def test_the_table_of_a_correction_says_what_it_demands(shown):
    tree = ElementTree.fromstring(shown["hubs"]._repr_html_())
    cells = [cell.text for cell in tree.iter("td")]
    assert cells[cells.index("rank by") + 1] == ("inner product (cosine undoes the correction)")
    steps = [(one.text or "").removesuffix(": ") for one in tree.iter() if one.tag in ("p", "span")]
    assert {"image documents", "text documents", "text queries", "1 appended"} <= {*steps}


def test_names_are_text_wherever_they_are_shown():
    data = Modalities.of(*make_pairs(), (HOSTILE, "text"))
    center = Center().fit(data).correction_
    for result in (
        modgap.measure(data),
        modgap.diagnose(data, correctors=(Center(),)),
        modgap.evaluate_correction(data, correction=center),
        modgap.retrieval(data),
        modgap.mixed_retrieval(data),
        center,
    ):
        assert HOSTILE[:4] in repr(result) or isinstance(result, modgap.diagnosis.Diagnosis)
        in_notebook = result._repr_html_()
        assert "&lt;img" in in_notebook
        assert "<img" not in in_notebook
        ElementTree.fromstring(in_notebook.replace("&emsp;", ""))


def test_a_fitted_corrector_shows_its_correction(shown):
    fitted = Calibrate().fit(*make_pairs())
    bundle = fitted._repr_mimebundle_()
    assert bundle["text/html"] == fitted.correction_._repr_html_()
    assert bundle["text/plain"] == repr(fitted)
    assert "text/plain" in Calibrate()._repr_mimebundle_()


def test_a_report_is_its_page_in_a_frame_of_an_origin_of_its_own(shown):
    (frame,) = re.findall(
        r'<iframe srcdoc="([^"]*)"([^>]*)></iframe>', shown["report"]._repr_html_()
    )
    assert html.unescape(frame[0]) == shown["report"].html()
    (rights,) = re.findall(r'sandbox="([^"]*)"', frame[1])
    assert rights.split() == ["allow-scripts", "allow-downloads"]
    assert "connect-src &#x27;none&#x27;" in frame[0]


def test_every_result_with_a_figure_draws_it(shown):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed").use("Agg")
    from modgap import plot

    drawn = {type(one): one for one in shown.values() if isinstance(one, HasFigure)}
    assert {*drawn} == {kind for kind in plot.draw.registry if kind is not object}
    for kind, result in drawn.items():
        ax = result.plot(title=kind.__name__)
        assert ax.has_data()
        assert ax.get_title() == kind.__name__
        ax.figure.canvas.draw()
        _, (given,) = plot.panels(1)
        assert result.plot(ax=given) is given


def test_a_figure_draws_the_numbers_of_its_result(shown):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed").use("Agg")
    found = shown["retrieval"]
    first = found.plot().get_lines()[0]
    recall = dict(zip(first.get_xdata().tolist(), first.get_ydata().tolist(), strict=True))
    for k in (1, 5, 10):
        assert recall[k] == found.recall()[f"image_retrieval_recall@{k}"]
    lines = shown["measurement"].ranges().lines
    labels = [tick.get_text() for tick in shown["measurement"].plot().get_yticklabels()]
    assert labels == [line.label for line in lines]


def test_what_has_no_figure_says_what_has(shown):
    from modgap.plot import draw

    with pytest.raises(InputTypeError, match=r"Hits has no figure\. Those of .*Measurement.* have"):
        draw(shown["hits"])
