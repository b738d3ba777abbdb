from __future__ import annotations

import base64
import json
from dataclasses import replace

import numpy as np
import pytest

import modgap
from conftest import make_pairs
from modgap._results import document as as_document
from modgap._results import to_json
from modgap.corrections import Correction
from modgap.diagnosis import diagnose
from modgap.io import Embeddings, Modalities
from modgap.reports import contents
from modgap.reports.fix import apply_lines
from modgap.reports.picture import MAX_DRAWN, choose_drawn
from modgap.reports.terms import terms
from modgap.reports.thumbnails import from_pixels


def make_document(X, Y, **options):
    groups, paired = options.pop("groups", None), options.pop("paired", None)
    x = Embeddings.from_array(X, captions=options.pop("captions_x", None))
    y = Embeddings.from_array(Y, captions=options.pop("captions_y", None))
    data = Modalities.of(x, y, groups=groups, paired=paired)
    data = replace(data, thumbnails=options.pop("thumbnails", {}))
    found, _ = contents(data, umap=False, **options)
    json.dumps(found, allow_nan=False)  # plain values, and no NaN among them
    return found


@pytest.fixture(scope="module")
def rows():
    X, Y = make_pairs(420, 16, seed=2)
    return tuple(A / np.linalg.norm(A, axis=1, keepdims=True) for A in (X, Y))


@pytest.fixture(scope="module")
def page(rows):
    return make_document(*rows, captions_y=[f"caption {i}" for i in range(420)])


def moved(page, rows, path, key, step, side):
    """Where the page draws the rows, by its own formula."""
    drawn = page["picture"]
    [shown] = [one for one in drawn["projections"] if one["key"] == key]
    move, squares = path["move"][side], np.array(drawn[side]["squares"])
    length = 1.0
    if path["renormalise"] and step != 0:
        length = np.sqrt(squares + 2 * step * np.array(move["dot"]) + step**2 * move["square"])
    columns = [
        (np.array(c) + step * a) / length - o
        for c, a, o in zip(shown[side], move["along"][key], shown["origin"], strict=True)
    ]
    return np.stack(columns, axis=1)


def test_page_holds_the_diagnosis_of_the_same_run(page, rows):
    expected = json.loads(to_json(as_document("diagnose", diagnose(*rows))))
    assert page["diagnosis"] == expected
    assert page["measurement"] == expected["measurement"]
    assert page["verdict"]["sentences"][1] == expected["sentence"]


@pytest.mark.parametrize("key", ["pca", "svd"])
@pytest.mark.parametrize("step", [0, 0.35, 1])
def test_points_are_where_the_corrected_rows_are(page, rows, key, step):
    shown = modgap.measures.projection(*rows, key, 3)
    paths, _ = modgap.diagnosis.gap_paths(*rows, steps=(0,))
    for path, drawn_path in zip(paths, page["paths"], strict=True):
        for place, side in enumerate("xy"):
            expected = rows[place][page["picture"][side]["rows"]] + step * path.offsets[place]
            if path.renormalise and step != 0:
                expected = expected / np.linalg.norm(expected, axis=1, keepdims=True)
            drawn = moved(page, rows, drawn_path, key, step, side)
            np.testing.assert_allclose(drawn, expected @ shown.axes.T - shown.origin, atol=2e-5)


def test_slider_ends_are_the_evaluations_of_diagnose(page):
    trials = {trial["method"]: trial for trial in page["diagnosis"]["trials"]}
    assert [path["key"] for path in page["paths"]] == ["shift", "origin", "orthogonal"]
    for path in page["paths"]:
        assert (path["steps"][0], path["steps"][-1]) == (0, 1)
        for name, values in path["metrics"].items():
            raw = page["diagnosis"]["raw"]["metrics"][name]["value"]["value"]
            after = trials[path["method_at_1"]]["confirm"]["metrics"][name]["value"]["value"]
            assert values[0] == pytest.approx(raw, abs=1e-12)
            assert values[-1] == pytest.approx(after, abs=1e-12)


def test_every_number_has_a_term(page):
    terms = page["terms"]
    for line in page["measures"]:
        assert line["term"] in terms
    for name in page["diagnosis"]["raw"]["metrics"]:
        assert terms[name]["definition"]
    assert all(term["label"] and term["definition"] for term in terms.values())


def test_terms_are_about_the_modalities_given_whatever_their_names():
    known = terms(("{asking}", "sound"))
    assert known["{asking}_retrieval_recall@1"]["definition"] == (
        "Share of sound queries whose best result, among all {asking} rows, is a match."
    )
    assert known["sound_retrieval_recall@1"]["label"] == "Sound recall@1"


def test_the_slider_says_how_much_of_the_gap_is_closed(page):
    for path in page["paths"]:
        gaps = np.array(path["metrics"]["gap"])
        closed = np.array(path["gap_closed"])
        assert closed[0] == 0
        np.testing.assert_allclose(closed, 100 * (1 - gaps / gaps[0]), atol=0.5)


def test_the_page_says_how_rows_are_paired(rows):
    groups = np.arange(20), np.arange(20)
    given = [{}, {"groups": groups}, {"paired": False}]
    said = [make_document(rows[0][:20], rows[1][:20], **one)["pairing"] for one in given]
    assert said == ["row by row", "by group", "not known"]


def test_fix_holds_the_correction_and_the_lines_that_apply_it(page, rows, tmp_path):
    fix = page["fix"]
    assert len(fix["code"].splitlines()) == 3
    path = tmp_path / fix["file"]
    path.write_bytes(base64.b64decode(fix["data"]))
    expected = diagnose(*rows).correction.x(rows[0])
    np.testing.assert_array_equal(Correction.load(path).x(rows[0]), expected)
    scope = {"modgap": modgap, "rows": rows[0]}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        exec(apply_lines(("image", "text")), scope)
    np.testing.assert_array_equal(scope["documents"], expected)


def test_labels_are_captions_cut_where_long():
    X, Y = make_pairs(30)
    page = make_document(X, Y, captions_y=["word " * 200] * 30)
    [label] = set(page["picture"]["y"]["labels"])
    assert len(label) == 300
    assert label.endswith("…")
    assert page["picture"]["x"]["labels"] is None
    assert "image have no captions" in page["missing"]["captions"]


def test_typical_rows_come_with_their_captions_and_pictures():
    X, Y = make_pairs(30)
    pixels = np.arange(30)[:, None, None] * np.ones((1, 2, 2))
    page = make_document(
        X, Y, captions_x=[f"row {i}" for i in range(30)], thumbnails={"image": from_pixels(pixels)}
    )
    shown = page["conformity"]
    order = np.argsort(modgap.measures.conformity(X))
    assert [item["row"] for item in shown["least_x"]] == order[:8].tolist()
    for item in shown["most_x"]:
        assert item["caption"] == f"row {item['row']}"
        assert item["thumbnail"].startswith("data:image/png")
    assert shown["most_y"][0]["thumbnail"] is None
    assert "thumbnails" not in page["missing"]


def test_at_most_a_few_thousand_rows_are_drawn_and_pairs_first():
    X, Y = make_pairs(MAX_DRAWN + 300, 4)
    x, y = Embeddings.from_array(X), Embeddings.from_array(Y[:-100])
    groups = np.arange(len(X)), np.arange(len(Y) - 100)
    drawn = choose_drawn(Modalities.of(x, y, groups=groups), seed=0)
    assert len(drawn.x) == len(drawn.y) == drawn.n_pairs == MAX_DRAWN
    np.testing.assert_array_equal(drawn.x, drawn.y)
    few = choose_drawn(Modalities.of(x, y, groups=groups), seed=0, most=2250)
    assert few.n_pairs == 2200
    assert len(few.x) == 2250
    assert set(few.x[2200:]) <= set(range(2200, 2300))


def test_without_pairs_the_page_says_what_it_cannot_show(rows):
    page = make_document(rows[0], rows[1][:300])
    assert page["verdict"]["verdict"] == "no pairs"
    assert page["picture"]["lines"] is None
    assert "need pairs" in page["missing"]["landscapes"]
    assert page["paths"][0]["losses"] is None
    assert "own_modality_excess@10" in page["paths"][0]["metrics"]
    assert page["cosines"]["matching"] is None
    assert page["fix"] is None


@pytest.mark.parametrize("dim", [2, 5])
def test_three_items_are_drawn_and_measured_without_a_verdict(dim):
    X, Y = make_pairs(3, dim)
    page = make_document(X, Y)
    assert page["verdict"]["verdict"] is None
    assert "at least 8" in page["missing"]["verdict"]
    assert page["diagnosis"] is None
    assert len(page["picture"]["x"]["rows"]) == 3
    assert len(page["picture"]["projections"][0]["x"]) == min(dim, 3)
    assert page["paths"] == []
    assert page["measures"]
    assert page["features"]["separability"]


def test_one_dimension_is_measured_but_not_drawn():
    page = make_document(*make_pairs(3, 1))
    assert page["picture"] is None
    assert "two dimensions" in page["missing"]["picture"]
    assert page["measures"]


def test_two_dimensions_have_two_coordinates():
    X, Y = make_pairs(120, 2)
    page = make_document(X, Y)
    assert len(page["picture"]["projections"][0]["y"]) == 2
    assert len(page["paths"][0]["move"]["x"]["along"]["pca"]) == 2


def test_rows_that_are_all_the_same_leave_out_what_they_cannot_tell():
    page = make_document(np.ones((4, 3)), np.full((4, 3), 2.0))
    assert page["cosines"] is None
    assert "two different rows" in page["missing"]["shell"]


def test_a_row_of_zeros_is_named_and_the_rest_is_shown():
    X, Y = make_pairs(20)
    X[3] = 0
    page = make_document(X, Y)
    assert "row 3" in page["missing"]["cosines"]
    assert page["verdict"]["sentences"]


def test_names_and_file_names_are_kept_as_text():
    X, Y = make_pairs(20)
    evil = "</script><script>alert(1)</script>"
    x, y = (Embeddings.from_array(A, source=f"folder/{evil}.npy") for A in (X, Y))
    page, _ = contents(Modalities.of(x, y, ("<b>image", "text&")), umap=False)
    assert page["names"] == ["<b>image", "text&"]
    assert page["source"][0].endswith("script>.npy")


@pytest.mark.published
def test_published_clip_page_says_use(published_clip):
    page = make_document(*published_clip)
    assert page["verdict"]["verdict"] == "use"
    assert page["verdict"]["sentences"][0].endswith("The means of image and text are 0.851 apart.")
