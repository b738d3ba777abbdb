"""A lexical list beside vectors: short lists, lists of any engine, weights, and the example."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from command_line import script
from modgap.core.checks import InputError
from modgap.search import Background, Hits, merge

EXAMPLE = Path(__file__).parents[2] / "examples" / "hybrid_search.py"
B = 150


def words(seed, n_queries=40, n_documents=300, scale=1.0):
    """Scores by id of an engine where most documents share no word with a query."""
    rng = np.random.default_rng(seed)
    scores = scale * rng.exponential(size=(n_queries, n_documents))
    shared = rng.random(scores.shape) < rng.uniform(0.02, 0.6, size=(n_queries, 1))
    return [
        {f"caption {place}": line[place] for place in np.flatnonzero(known)}
        for line, known in zip(scores, shared, strict=True)
    ]


def vectors(seed, n_queries=40, n_documents=300, k=60):
    rng = np.random.default_rng(seed)
    scores = np.sort(0.1 * rng.normal(size=(n_queries, n_documents)), axis=1)[:, : -k - 1 : -1]
    return np.argsort(rng.random(scores.shape), axis=1), scores


def background():
    bank = {"bm25": Hits.of_scores(words(1, B), "text").scores, "image": vectors(2, B)[1]}
    return Background.of_scores(bank, {"bm25": 300, "image": 300})


@pytest.fixture(scope="module")
def known():
    return background()


@given(
    st.lists(
        st.dictionaries(st.integers(0, 99), st.floats(-1e6, 1e6), max_size=8),
        min_size=1,
        max_size=5,
    ),
    st.integers(1, 6),
)
def test_scores_by_id_become_hits_best_first(scores, k):
    hits = Hits.of_scores(scores, "text", k=k)
    for line, found in enumerate(scores):
        best = sorted(found.items(), key=lambda one: -one[1])[:k]
        rest = k - len(best)
        assert hits.ids[line].tolist() == [key for key, _ in best] + [None] * rest
        assert hits.scores[line].tolist() == [score for _, score in best] + [-np.inf] * rest
        assert hits.modalities[line].tolist() == ["text"] * len(best) + [""] * rest


def test_each_hit_has_its_modality_its_source_and_one_number(known):
    lists = {"bm25": Hits.of_scores(words(3), "text"), "image": vectors(4)}
    found = merge(lists, 10, known)
    for expected, sources in zip(found.expected_wrong, found.sources, strict=True):
        for name in ("bm25", "image"):
            assert np.all(np.diff(expected[sources == name]) >= 0)
    named = set(zip(found.sources.ravel(), found.modalities.ravel(), strict=True))
    assert named == {("bm25", "text"), ("image", "image")}
    header, lines = found.table()
    assert header == ("query", "rank", "id", "modality", "source", "score", "expected wrong")
    assert len(lines) == 400
    assert all(line[2].startswith("caption") == (line[4] == "bm25") for line in lines)
    # Named by modality, a list needs no source.
    assert merge({"image": vectors(4)}, 10, known).sources is None


def test_a_query_that_shares_no_word_has_the_other_lists_results_alone(known):
    scores = [{}, {"caption 3": 2.0}, *words(5, 3)]
    found = merge({"bm25": Hits.of_scores(scores, "text"), "image": vectors(6, 5)}, 70, known)
    assert set(found.sources[0, :60]) == {"image"}
    assert np.all(found.sources[0, 60:] == "")
    assert found.ids[0, 60:].tolist() == [None] * 10
    assert np.all(np.isposinf(found.expected_wrong[0, 60:]))
    assert found.sources[1].tolist().count("bm25") == 1
    alone = merge({"bm25": Hits.of_scores(scores, "text")}, 10, known)
    assert alone.nothing_found.tolist() == [True, False, False, False, False]


def test_ids_of_arrays_are_left_out_where_the_score_is_missing(known):
    rows = np.tile(np.arange(60), (2, 1))
    scores = np.full((2, 60), -np.inf)
    scores[:, :3] = [3.0, 2.0, 1.0]
    found = merge({"bm25": (rows, scores)}, 5, known)
    assert found.ids.tolist() == [[0, 1, 2, None, None]] * 2


def test_the_scale_of_an_engine_is_nothing():
    bank = {"image": vectors(2, B)[1]}
    answers = []
    for scale in (1.0, 1000.0):
        bank["bm25"] = Hits.of_scores(words(1, B, scale=scale), "text").scores
        known = Background.of_scores(bank, {"bm25": 300, "image": 300})
        lists = {"bm25": Hits.of_scores(words(3, scale=scale), "text"), "image": vectors(4)}
        answers.append(merge(lists, 10, known))
    assert answers[0].ids.tolist() == answers[1].ids.tolist()
    np.testing.assert_allclose(answers[0].expected_wrong, answers[1].expected_wrong, rtol=1e-4)


@pytest.mark.parametrize("weights", [None, {"bm25": 1, "image": 1}, {"bm25": 10, "image": 1}])
def test_without_any_match_there_are_as_many_results_as_are_expected(known, weights):
    lists = {"bm25": Hits.of_scores(words(7, 2000), "text"), "image": vectors(8, 2000)}
    found = merge(lists, 60, known, weights=weights)
    for asked in (1.0, 5.0):
        got = np.sum(found.expected_wrong <= asked, axis=1).mean()
        assert got == pytest.approx(asked, rel=0.25)
    share = np.mean(found.sources[found.expected_wrong <= 5.0] == "bm25")
    wanted = 10 / 11 if weights and weights["bm25"] == 10 else 0.5
    assert share == pytest.approx(wanted, abs=0.06)


def test_short_lists_hold_what_is_expected_deep_down_too():
    """Some bank queries found more than is kept of them, and some fewer."""
    bank = Hits.of_scores(words(11, B), "text").scores
    assert 0.1 < np.mean(np.isneginf(bank[:, -1])) < 0.9
    known = Background.of_scores({"bm25": bank}, {"bm25": 300})
    asked = Hits.of_scores(words(17, 2000), "text", k=300).scores
    expected = known.expected_wrong_of_scores(asked, "bm25")
    for limit in (1.0, 5.0, 20.0, 50.0):
        assert np.sum(expected <= limit, axis=1).mean() == pytest.approx(limit, rel=0.2)


def test_weights_are_shares_and_equal_ones_change_nothing(known):
    lists = {"bm25": Hits.of_scores(words(3), "text"), "image": vectors(4)}
    plain = merge(lists, 10, known)
    equal = merge(lists, 10, known, weights={"bm25": 7, "image": 7})
    np.testing.assert_array_equal(plain.expected_wrong, equal.expected_wrong)
    assert plain.ids.tolist() == equal.ids.tolist()
    one, other = (merge(lists, 10, known, weights={"bm25": w, "image": 3 * w}) for w in (1, 0.2))
    np.testing.assert_allclose(one.expected_wrong, other.expected_wrong)
    assert one.least == pytest.approx(4 * known.least)
    with pytest.raises(InputError, match=r"at_most must be at least 0\.13 "):
        merge(lists, 10, known, weights={"bm25": 1, "image": 3}, at_most=0.1)
    cut = merge(lists, 60, known, weights={"bm25": 1, "image": 3}, at_most=1)
    shown = cut.expected_wrong[:, 1:]
    assert np.all(shown[np.isfinite(cut.scores[:, 1:])] <= 1)


@pytest.mark.parametrize(
    ("lists", "weights", "message"),
    [
        ({"image": vectors(4)}, {"text": 1.0}, "weights must name every list, image is missing"),
        ({"image": vectors(4)}, {"image": 0.0}, "weight of image must be above 0, got 0"),
        ({"image": vectors(4)}, {"image": np.nan}, "weight of image must be finite"),
        (
            {
                "all": Hits(
                    np.zeros((1, 2)),
                    np.array([[2.0, 1.0]]),
                    np.array([["image", "text"]], dtype=object),
                )
            },
            None,
            "documents of one modality, all has image and text",
        ),
    ],
)
def test_lists_and_weights_that_say_nothing_are_refused(lists, weights, message):
    with pytest.raises(InputError, match=message):
        merge(lists, 10, weights=weights)


def test_scores_by_id_that_are_no_numbers_are_refused():
    with pytest.raises(InputError, match="scores of query 1 must hold finite numbers"):
        Hits.of_scores([{"a": 1.0}, {"a": np.nan}], "text")


def test_the_example_puts_words_and_vectors_into_one_list():
    pytest.importorskip("bm25s", reason="bm25s is not installed")
    ran = script(EXAMPLE)
    assert ran.err == ""
    lines = ran.out.splitlines()
    assert next(line for line in lines if "expected wrong" in line).split()[:4] == [
        "rank", "id", "modality", "source",
    ]  # fmt: skip
    rows = [line.split() for line in lines if line[:1].isdigit()]
    assert {(row[1], row[3], row[4]) for row in rows} == {
        ("photo", "image", "vectors"),
        ("caption", "text", "bm25"),
    }


def test_the_example_finds_what_its_queries_describe_in_both_lists(capsys):
    pytest.importorskip("bm25s", reason="bm25s is not installed")
    example = runpy.run_path(str(EXAMPLE))
    X, Y, captions = example["digits"]()
    hits = example["main"](X, Y, captions)
    assert "one expected wrong result" in capsys.readouterr().out
    right = [f"photo {i}" for i in range(200, 600)] + [f"caption {i}" for i in range(600, 1000)]
    found = np.any(hits.ids == np.array(right)[:, None], axis=1)
    assert found[:400].mean() > 0.8
    assert found[400:].mean() > 0.9
    # Its own list alone finds hardly more of the photos.
    order = np.argsort(-(Y[200:600, 2] @ X[200:600].T), axis=1)[:, :10]
    alone = np.mean(np.any(order == np.arange(400)[:, None], axis=1))
    assert found[:400].mean() > alone - 0.1
