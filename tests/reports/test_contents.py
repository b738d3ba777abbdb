from __future__ import annotations

import base64
import json
import sys
from dataclasses import replace

import numpy as np
import pytest

import modgap
from conftest import make_many, make_pairs
from modgap.core.checks import InputValueError
from modgap.core.results import document as as_document
from modgap.core.results import to_json
from modgap.corrections import Calibrate, Center, ExpectedWrong, next_commands
from modgap.corrections.interpolated import in_proportion, interpolated
from modgap.diagnosis import diagnose, gap_paths
from modgap.io import Embeddings, Modalities
from modgap.reports import contents, diagnosis_markdown
from modgap.reports.assemble import page_html
from modgap.reports.picture import MAX_DRAWN, choose_drawn
from modgap.reports.rows import from_pixels
from modgap.reports.slider import way_document
from modgap.reports.terms import terms

pytestmark = pytest.mark.xdist_group("page contents")  # one page for several tests


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
def found(rows):
    return diagnose(*rows)


@pytest.fixture(scope="module")
def page(rows):
    return make_document(*rows, captions_y=[f"caption {i}" for i in range(420)])


def moved(page, path, key, step, side):
    """Where the page draws the rows, by its own formula."""
    drawn = page["picture"]
    [shown] = [one for one in drawn["projections"] if one["key"] == key]
    move, squares = path["move"][side], np.array(drawn[side]["squares"])
    start, dot, square = np.array(shown[side]), np.array(move["dot"]), np.array(move["square"])
    if "ends" in move:
        end = np.array(move["ends"][key])
    else:
        scale = move["scale"]
        end = scale * start + np.array(move["along"][key])[:, None]
        dot, square = scale * squares + dot, scale**2 * squares + 2 * scale * dot + square
    placed = ((1 - step) * start + step * end) * (1 - step + step * move["factor"])
    if path["renormalise"]:
        placed /= np.sqrt(
            (1 - step) ** 2 * squares + 2 * step * (1 - step) * dot + step**2 * square
        )
    return placed.T - shown["origin"]


def test_page_holds_the_diagnosis_of_the_same_run(page, found):
    expected = json.loads(to_json(as_document("diagnose", found)))
    assert page["diagnosis"] == expected
    assert page["measurement"] == expected["measurement"]
    assert page["verdict"]["sentences"][1] == expected["sentence"]


@pytest.mark.parametrize("key", ["pca", "svd"])
@pytest.mark.parametrize("step", [0.35, 1])
def test_points_are_where_the_corrected_rows_are(rows, found, page, ways, key, step):
    """Of every way, and of corrections with a matrix, with hubs, of mixed mode and in blocks."""
    shown = modgap.measures.projection(*rows, key, 3)
    for path in ways:
        correction = in_proportion(found.corrections[path["method_at_1"]])
        for place, (name, side) in enumerate((("image", "x"), ("text", "y"))):
            own = rows[place][page["picture"][side]["rows"]]
            part = interpolated(correction, step).affine(name)
            if blocks := part.blocks:
                part = replace(part, blocks=(sum(blocks),))
            expected = part(own) @ shown.axes.T - shown.origin
            np.testing.assert_allclose(moved(page, path, key, step, side), expected, atol=2e-5)


@pytest.fixture(scope="module")
def ways(rows, found, page):
    """Those of the page, and those it would have with another recommendation."""
    drawn = choose_drawn(Modalities.of(*rows), 0)
    shown = [modgap.measures.projection(*rows, key, 3) for key in ("pca", "svd")]
    more = []
    for trial in found.trials:
        if trial.method.startswith(("Whiten(shrinkage=0.1", "Procrustes", "Calibrate(")):
            other = replace(found, recommended=trial.method)
            [path], _ = gap_paths(*rows, diagnosis=other, moves=(), steps=(0,))
            more.append(way_document(path, other, drawn, shown))
    assert len(more) >= 3
    return [*page["paths"], *more]


def test_slider_ends_are_the_evaluations_of_diagnose(page):
    trials = {trial["method"]: trial for trial in page["diagnosis"]["trials"]}
    paths = page["paths"]
    assert [path["key"] for path in paths] == ["recommended", "shift", "origin", "orthogonal"]
    assert paths[0]["method_at_1"] == page["diagnosis"]["recommended"]
    assert [path["recommended"] for path in paths] == [True, False, False, False]
    for path in paths:
        assert (path["steps"][0], path["steps"][-1]) == (0, 1)
        for name, values in path["metrics"].items():
            raw = page["diagnosis"]["raw"]["metrics"][name]["value"]["value"]
            after = trials[path["method_at_1"]]["confirm"]["metrics"][name]["value"]["value"]
            assert values[0] == pytest.approx(raw, abs=1e-12)
            assert values[-1] == pytest.approx(after, abs=1e-12)


def test_one_thing_has_one_number(page, found):
    gap = page["diagnosis"]["raw"]["metrics"]["gap"]["value"]["value"]
    confirm = page["diagnosis"]["n_groups"]["confirm"]
    said = f"are {gap:.3f} apart ({confirm} held-out pairs)."
    assert page["verdict"]["sentences"][0].endswith(said)
    assert {path["metrics"]["gap"][0] for path in page["paths"]} == {gap}
    labels = {line["term"]: line["label"] for line in page["measures"]}
    assert labels["gap_distance"] == "gap distance"  # of all rows, and another number
    assert labels["loss"] == "contrastive loss at 0.01, 420 pairs"
    assert all(path["n_pairs"] == confirm for path in page["paths"])
    for side, one in zip("xy", found.measurement.modalities, strict=True):
        assert page["cosines"]["mean"][f"within_{side}"] == one.cone.mean


def test_where_nothing_is_recommended_the_papers_ways_remain(rows, found):
    left = replace(found, verdict="leave it alone", recommended=None, correction=None)
    page = make_document(*rows, diagnosis=left)
    paths = page["paths"]
    assert page["queries"] == ["text"]  # those of the diagnosis
    assert [path["key"] for path in paths] == ["shift", "origin", "orthogonal"]
    assert [len(path["steps"]) for path in paths] == [11, 11, 11]


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
    few = [side[:7] for side in rows]  # fewer than a verdict takes
    given = [{}, {"groups": (np.arange(7), np.arange(7))}, {"paired": False}]
    said = [make_document(*few, **one)["pairing"] for one in given]
    assert said == ["row by row", "by group", "not known"]


def run_lines(fix, rows, queries, folder):
    """What the page's lines of Python make of documents of both modalities and of queries."""
    (folder / fix["file"]).write_bytes(base64.b64decode(fix["data"]))
    documents = dict(zip(("image", "text"), rows, strict=True))
    scope = {"modgap": modgap, "documents": documents, "queries": queries}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        exec(fix["code"], scope)
    return scope["documents"], scope["queries"]


def test_fix_holds_the_correction_and_the_lines_that_apply_it(page, rows, found, tmp_path):
    fix, correction = page["fix"], found.correction
    documents, queries = run_lines(fix, rows, rows[1], tmp_path)
    np.testing.assert_array_equal(documents["image"], correction.x(rows[0]))
    np.testing.assert_array_equal(documents["text"], correction.y(rows[1]))
    np.testing.assert_array_equal(queries, correction.y(rows[1], "query"))
    assert "the saved file was refitted on all data." in fix["note"]
    assert correction.about["fitted_on"] == {"image": 420, "text": 420}


def test_fix_says_what_the_correction_demands_and_what_to_run(page, found):
    fix, correction = page["fix"], found.correction
    assert (fix["columns"], fix["metric"], fix["queries"]) == ([16, 16], "inner_product", ["text"])
    said = "\n".join(page["diagnosis"]["demands"])
    assert list(fix["demands"]) == ["columns", "documents", "queries", "rank by"]
    assert all(words in said for words in fix["demands"].values())
    assert fix["demands"]["queries"].startswith("text only: ")
    assert fix["code"].splitlines()[-1] == f"# Rank by {fix['demands']['rank by']}."
    assert fix["commands"] == next_commands({fix["file"]: correction})
    assert fix["command"].splitlines() == fix["commands"]
    assert fix["sentence"] in page["verdict"]["sentences"][1]
    assert fix["label"] is None


def test_lines_apply_a_correction_that_serves_all_queries(rows, tmp_path):
    fix = make_document(*rows, diagnosis=diagnose(*rows, correctors=[Center()]))["fix"]
    assert fix["queries"] == ["image", "text"]
    asked = dict(zip(("image", "text"), rows, strict=True))
    documents, queries = run_lines(fix, rows, asked, tmp_path)
    expected = Center().fit(*rows).correction_
    np.testing.assert_array_equal(queries["image"], expected.x(rows[0], "query"))
    np.testing.assert_array_equal(documents["text"], expected.y(rows[1]))


def test_the_page_is_about_the_queries_asked_for(rows, found):
    page = make_document(*(side[:240] for side in rows), queries="image")
    assert page["queries"] == page["diagnosis"]["queries"] == ["image"]
    assert "image" in page["fix"]["queries"]
    for metrics in (page["diagnosis"]["raw"]["metrics"], page["paths"][0]["metrics"]):
        assert "text_retrieval_recall@1" in metrics
        assert "image_retrieval_recall@1" not in metrics
    assert "of image queries" in page["verdict"]["sentences"][0]
    with pytest.raises(InputValueError, match="those of the diagnosis, text, got 'image'"):
        make_document(*rows, diagnosis=found, queries="image")


def test_both_may_ask_of_one_vector(rows):
    page = make_document(*(side[:240] for side in rows), queries=("text", "image"))
    assert page["queries"] == ["image", "text"]
    recalls = {"text_retrieval_recall@1", "image_retrieval_recall@1"}
    assert recalls <= set(page["diagnosis"]["raw"]["metrics"])
    assert page["fix"]["columns"] == [16, 32]
    assert page["fix"]["queries"] == ["image", "text"]


@pytest.mark.parametrize(
    ("n", "options", "drawn"),
    [
        (12, {}, ["pca", "svd"]),
        (12, {"umap": True}, ["pca", "svd", "umap"]),
        (1, {"umap": True}, ["pca", "svd"]),  # it needs more rows
    ],
)
def test_umap_is_drawn_on_request_only(rows, monkeypatch, n, options, drawn):
    def quick(sides, names, dims, seed):  # the real one takes half a minute to compile
        placed = tuple(side[:, :dims] for side in sides)
        return modgap.measures.Projection("umap", placed, None, None, None, names)

    module = sys.modules["modgap.measures.projection"]
    monkeypatch.setattr(module, "umap_is_installed", lambda: True)
    monkeypatch.setattr(module, "_umap", quick)
    page, _ = contents(Modalities.of(*(side[:n] for side in rows)), **options)
    assert [view["key"] for view in page["picture"]["projections"]] == drawn


def test_umap_that_is_not_installed_is_refused_before_anything_is_computed(rows, monkeypatch):
    monkeypatch.setitem(sys.modules, "umap", None)
    said = []
    with pytest.raises(ImportError, match=r"pip install 'modgap\[umap\]'"):
        contents(Modalities.of(*rows), umap=True, progress=lambda *step: said.append(step))
    assert said == []


def test_lengths_of_rows_change_no_number_where_the_metric_is_cosine(rows, page):
    lengths = np.random.default_rng(5).uniform(0.1, 9, size=(2, 420, 1))
    long = make_document(*(a * b for a, b in zip(rows, lengths, strict=True)))
    assert long["measurement"]["gap_distance"] > 1.5 * page["measurement"]["gap_distance"]
    assert_same(long["diagnosis"], page["diagnosis"] | {"measurement": None})
    assert_same(long["paths"], page["paths"])
    assert_same(long["cosines"], page["cosines"])
    for side in "xy":
        shown, expected = (p["picture"]["projections"][0][side] for p in (long, page))
        np.testing.assert_allclose(shown, expected, atol=2e-5)
    assert long["verdict"]["sentences"] == page["verdict"]["sentences"]


def assert_same(found, expected):
    """The same keys, words and numbers; where nothing is expected, anything."""
    if isinstance(expected, dict):
        assert set(found) == set(expected)
        for key, value in expected.items():
            assert_same(found[key], value)
    elif isinstance(expected, list):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_same(one, other)
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, abs=1e-4, rel=1e-4)
    elif expected is not None:
        assert found == expected


def test_labels_are_captions_cut_where_long():
    X, Y = make_pairs(7)
    page = make_document(X, Y, captions_y=["word " * 200] * 7)
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


def test_a_page_stays_small_by_cutting_labels_and_leaving_out_pictures(monkeypatch):
    X, Y = make_pairs(30)
    noise = np.random.default_rng(0).integers(0, 255, (30, 24, 24, 3))
    both = {name: from_pixels(noise) for name in ("image", "text")}
    given = {"captions_y": ["<&>" * 100] * 30, "thumbnails": both}  # six bytes a letter
    module = sys.modules["modgap.reports.contents"]
    monkeypatch.setattr(module, "_PAGE_BYTES", 0)
    page = make_document(X, Y, **given)
    assert {*page["picture"]["x"]["thumbnails"]} == {None}
    assert {*map(len, page["picture"]["y"]["labels"])} == {18}
    most = len(page_html(page).encode()) + 60_000
    monkeypatch.setattr(module, "_PAGE_BYTES", most)
    page = make_document(X, Y, **given)
    shown = [page["picture"][side]["thumbnails"] for side in "xy"]
    assert all(one[0] is not None and one[-1] is None for one in shown)
    assert {*map(len, page["picture"]["y"]["labels"])} == {300}
    assert len(page_html(page).encode()) <= most


def test_at_most_a_few_thousand_rows_are_drawn_and_pairs_first():
    X, Y = make_pairs(MAX_DRAWN + 300, 4)
    x, y = Embeddings.from_array(X), Embeddings.from_array(Y[:-100])
    groups = np.arange(len(X)), np.arange(len(Y) - 100)
    drawn = choose_drawn(Modalities.of(x, y, groups=groups), seed=0)
    first, second = drawn.numbers.values()
    assert len(first) == len(second) == drawn.n_pairs == MAX_DRAWN
    np.testing.assert_array_equal(first, second)
    few = choose_drawn(Modalities.of(x, y, groups=groups), seed=0, most=2250)
    assert few.n_pairs == 2200
    assert len(few.numbers["image"]) == 2250
    assert set(few.numbers["image"][2200:]) <= set(range(2200, 2300))


def test_without_pairs_the_page_says_what_it_cannot_show(rows):
    page = make_document(rows[0], rows[1][:300])
    assert page["verdict"]["verdict"] == "no pairs"
    assert page["picture"]["lines"] is None
    assert "need pairs" in page["missing"]["landscapes"]
    assert page["paths"][0]["losses"] is None
    assert "own_modality_excess@10" in page["paths"][0]["metrics"]
    assert page["cosines"]["matching"] is None


@pytest.mark.parametrize(
    ("n", "verdict", "corrector"),
    [
        ((420, 300), "no pairs", ExpectedWrong(0.25)),
        ((60, 60), "not enough pairs", Calibrate("keep")),
    ],
)
def test_a_correction_that_was_not_judged_is_shown_with_its_label(
    rows, tmp_path, n, verdict, corrector
):
    sides = rows[0][: n[0]], rows[1][: n[1]]
    page = make_document(*sides)
    assert page["verdict"]["verdict"] == verdict
    assert (
        page["verdict"]["label"]
        == page["fix"]["label"]
        == "balances the modalities; too few pairs to test relevance"
    )
    assert page["fix"]["method"] == page["diagnosis"]["recommended"] == corrector.label
    [trial] = [t for t in page["diagnosis"]["trials"] if t["method"] == page["fix"]["method"]]
    before = page["diagnosis"]["raw"]["metrics"]["own_modality_excess@10"]["value"]["value"]
    after = trial["confirm"]["metrics"]["own_modality_excess@10"]["value"]["value"]
    assert abs(after) < abs(before)
    documents, _ = run_lines(page["fix"], sides, sides[1], tmp_path)
    data = Modalities.of(*sides, paired=None if n[0] == n[1] else False)
    expected = corrector.fit(data).correction_
    np.testing.assert_array_equal(documents["text"], expected.y(sides[1]))
    said = diagnosis_markdown(diagnose(*sides))
    assert "## The correction: balances the modalities; too few pairs to test relevance" in said
    assert "Own-modality excess@10" in said.partition("## The correction")[0]
    assert not any(key in said for key in page["diagnosis"]["explanations"] if "_" in key)
    assert str(expected) in said
    for command in next_commands({"correction.safetensors": expected}):
        assert command in said


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
    shifts = [path["move"]["x"] for path in page["paths"] if "along" in path["move"]["x"]]
    assert [len(side["along"]["pca"]) for side in shifts] == [2] * len(shifts)
    assert shifts


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
    X, Y = make_pairs(7)
    evil = "</script><script>alert(1)</script>"
    x, y = (Embeddings.from_array(A, source=f"folder/{evil}.npy") for A in (X, Y))
    names = ("<b>image", "text&")
    page, _ = contents(Modalities.of(x, y, names), umap=False, queries="text&")
    assert page["names"] == ["<b>image", "text&"]
    assert page["source"][0].endswith("script>.npy")


def test_a_page_of_three_modalities_holds_each_and_says_what_needs_two():
    data = make_many(240, 16)
    page, found = contents(data, umap=False)
    json.dumps(page, allow_nan=False)
    assert page["names"] == ["image", "text", "audio"]
    assert page["verdict"]["sentences"][1] == found.sentence
    assert "one index for all modalities" in page["verdict"]["sentences"][0]
    gaps = np.array(page["measurement"]["gap_matrix"])
    assert gaps.shape == (3, 3)
    assert [len(side["rows"]) for side in page["picture"]["sides"]] == [240] * 3
    assert page["picture"]["lines"][7] == [7, 7, 7]
    for shown in page["picture"]["projections"]:
        assert len(shown["sides"]) == 3
    assert page["paths"] == []
    assert {"slider", "landscapes", "separability"} <= set(page["missing"])
    assert [line["sides"] for line in page["measures"] if line["label"] == "rows"] == [[240] * 3]
    assert len(page["every_two"]["names"]) == 3
    assert {line["term"] for line in page["measures"]} <= set(page["terms"])
    assert set(page["diagnosis"]["raw"]["metrics"]) <= set(page["terms"])


def test_captions_and_images_come_by_name():
    data = make_many(60, 8)
    rows = {name: side.rows() for name, side in data.sides.items()}
    captions = {"audio": [f"sound {i}" for i in range(60)]}
    found = modgap.report(
        rows, captions=captions, images={"image": np.zeros((60, 4, 4))}, umap=False
    ).to_dict()
    image, _, audio = found["picture"]["sides"]
    assert audio["labels"][3] == "sound 3"
    assert image["thumbnails"][0].startswith("data:image/png")
    with pytest.raises(InputValueError, match="modality must be one of 'image', 'text', 'audio'"):
        modgap.report(rows, captions={"video": []})
    with pytest.raises(InputValueError, match="captions must be one for each of image, text, aud"):
        modgap.report(rows, captions=(None, None))


def test_terms_of_many_modalities_name_every_recall():
    words = terms(("image", "text", "audio"), ("text", "audio"))
    assert words["image_retrieval_by_audio_recall@1"]["label"] == "Image recall@1, audio queries"
    assert "two modalities" not in words["mixed_ndcg@10"]["definition"]
    alone = terms(("image", "text", "audio"), ("text",))
    assert alone["audio_retrieval_recall@1"]["label"] == "Audio recall@1"


@pytest.mark.published
def test_two_models_have_a_verdict_where_a_link_joins_them(clap_beside_clip, clap_joined_to_clip):
    page, found = contents(clap_joined_to_clip, queries="caption", umap=False)
    assert page["verdict"]["verdict"] == "not enough pairs"
    assert found.correction.names == clap_joined_to_clip.names
    own = found.raw.metrics["own_modality_excess@10"].value.value
    [trial] = [one for one in found.trials if one.method == found.recommended]
    assert abs(trial.confirm.metrics["own_modality_excess@10"].value.value) < own / 4
    # Said on the page alone: a warning would be an error here.
    page, found = contents(clap_beside_clip, queries="caption", umap=False)
    assert found is None
    assert "rows look unpaired" in page["missing"]["verdict"]
    assert np.shape(page["measurement"]["gap_matrix"]) == (4, 4)
