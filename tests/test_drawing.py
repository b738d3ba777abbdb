from __future__ import annotations

from xml.etree import ElementTree

import numpy as np
import pytest

import modgap
from conftest import make_pairs
from modgap.core.drawing import Range, Ranges

SVG = "{http://www.w3.org/2000/svg}"


def drawn(*lines, reference=None):
    return ElementTree.fromstring(Ranges("title", lines, reference).svg())


def test_values_lie_in_order_on_one_scale():
    picture = drawn(Range("a", 0.2, 0.1, 0.3), Range("b", 0.8, 0.7, 0.9))
    first, second = (float(c.get("cx")) for c in picture.iter(f"{SVG}circle"))
    left, right = (float(line.get("x1")) for line in picture.iter(f"{SVG}line"))
    assert left < first < right < second


def test_the_marked_line_has_another_shape():
    picture = drawn(Range("a", 0.2, 0.1, 0.3), Range("b", 0.8, 0.7, 0.9, marked=True))
    assert len(list(picture.iter(f"{SVG}path"))) == 1
    assert len(list(picture.iter(f"{SVG}circle"))) == 1


def test_labels_are_text_and_never_markup():
    picture = drawn(Range("<script>&\"'", 0.5, 0.4, 0.6))
    assert "<script>&\"'" in [t.text for t in picture.iter(f"{SVG}text")]
    assert not list(picture.iter(f"{SVG}script"))


def test_what_is_not_a_number_is_left_out():
    nan = float("nan")
    assert Ranges("title", [Range("a", nan, nan, nan)]).svg() == ""
    picture = drawn(Range("a", nan, 0, 1), Range("b", 0.5, nan, nan), reference=nan)
    assert len(list(picture.iter(f"{SVG}circle"))) == 1
    assert not list(picture.iter(f"{SVG}line"))


def test_one_value_alone_can_be_drawn():
    assert len(list(drawn(Range("a", 3.0, 3.0, 3.0)).iter(f"{SVG}circle"))) == 1


@pytest.mark.parametrize("n", [2, 60])
def test_notebooks_show_the_drawing_above_the_table(n):
    html = modgap.measure(*make_pairs(n), names=("<i>", "text"))._repr_html_()
    assert html.index("<svg") < html.index("<table")
    assert "<i>" not in html


def test_a_diagnosis_draws_every_correction_and_marks_the_recommended():
    X, Y = make_pairs(420, 16, seed=2)
    found = modgap.diagnose(*(A / np.linalg.norm(A, axis=1, keepdims=True) for A in (X, Y)))
    picture = ElementTree.fromstring(found.ranges().svg())
    assert len(list(picture.iter(f"{SVG}circle"))) == len(found.trials) - 1
    bold = [t.text for t in picture.iter(f"{SVG}text") if t.get("font-weight")]
    assert found.recommended in bold
