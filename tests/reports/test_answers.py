from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from conftest import make_many, make_pairs
from modgap.corrections import Calibrate
from modgap.diagnosis import diagnose
from modgap.evaluation.metric_names import NDCG, OWN_EXCESS
from modgap.io import Embeddings, Modalities
from modgap.reports import answers as module
from modgap.reports.answers import STORED, make_answers
from modgap.reports.rows import RowPictures
from reference_search import order, unit

N = 480


def diagnosed(data, metric="cosine", **options):
    found = diagnose(data, metric=metric, correctors=(Calibrate("keep"),), **options)
    return found, make_answers(data, found, metric, RowPictures(data))


@pytest.fixture(scope="module")
def pairs():
    """Pairs with captions and ids, what was found, and the stored answers."""
    X, Y = make_pairs(N, 16, seed=2)
    captions = [f"words {i}" for i in range(N)]
    data = Modalities.of(X, Embeddings.from_array(Y, captions=captions))
    return (data, *diagnosed(data))


def independent_index(query, seed=0):
    """Rows that are in the index when a text row asks, by its own reading of the definitions.

    The last quarter of the shuffled pairs confirms; one half of it is there as images, and in a
    second index the other half: a query asks the one that has its image.
    """
    held = np.sort(np.random.default_rng(seed).permutation(N)[3 * N // 4 :])
    drawn = held[np.random.default_rng(seed).permutation(len(held))]
    half = len(drawn) // 2
    images, texts = drawn[:half], drawn[half:]
    if query not in images:
        images, texts = texts, images
    assert query in images
    return [(0, row) for row in sorted(images)] + [(1, row) for row in sorted(texts)]


@pytest.mark.parametrize("side", ["raw", "corrected"])
def test_stored_results_are_those_of_a_search_of_ones_own(pairs, side):
    data, found, made = pairs
    rows = [unit(one.rows()) for one in data.sides.values()]
    documents, queries, metric = rows, rows[1], "cosine"
    if side == "corrected":
        fix = found.corrections[found.recommended]
        documents, queries = [fix.x(rows[0]), fix.y(rows[1])], fix.y(rows[1], "query")
        metric = fix.metric
    items = made.document["items"]
    for stored in made.document["queries"]:
        asked = items[stored["item"]]
        assert data.names[asked["modality"]] == "text"
        assert asked["label"] == f"words {asked['row']}"
        index = independent_index(asked["row"])
        best = order(queries[asked["row"]], [documents[kind][row] for kind, row in index], metric)
        expected = [index[place] for place in best]
        hits = [items[hit["item"]] for hit in stored[side]]
        assert [(hit["modality"], hit["row"]) for hit in hits] == expected[:10]
        assert stored[f"{side}_place"] == 1 + expected.index((0, asked["row"]))
        right = [hit["match"] for hit in stored[side]]
        assert right == [one == (0, asked["row"]) for one in expected[:10]]


def test_queries_are_a_seeded_sample_and_the_typical_one_has_the_median_gain(pairs):
    data, found, made = pairs
    document = made.document
    asked = [document["items"][one["item"]]["row"] for one in document["queries"]]
    assert len(set(asked)) == len(asked) == STORED
    again = make_answers(data, found, "cosine", RowPictures(data)).document
    assert again == document

    def gain(one):
        ndcg = [1 / np.log2(1 + one[f"{side}_place"]) if one[f"{side}_place"] <= 10 else 0.0
                for side in ("raw", "corrected")]  # fmt: skip
        return ndcg[1] - ndcg[0]

    gains = [gain(one) for one in document["queries"]]
    typical = gain(document["queries"][document["typical"]])
    assert typical == pytest.approx(np.quantile(gains, 0.5, method="inverted_cdf"))
    assert f"{STORED} of {N // 4} searches" in document["about"]


def test_the_numbers_of_the_first_ten_are_those_of_the_metrics(pairs):
    _, found, made = pairs
    [trial] = found.trials
    for seen, scores in ((made.before, found.raw), (made.after, trial.confirm)):
        assert seen.n_queries == seen.n_documents == N // 4
        # One match a query: its place tells NDCG, and wrong results the share.
        wrong = 10 - seen.found
        fair = 10 * seen.own_share - wrong / 2
        assert fair / wrong == pytest.approx(scores.metrics[OWN_EXCESS].value.value)
    assert made.after.found_first <= trial.confirm.metrics[NDCG].value.value <= made.after.found


def test_without_pairs_every_held_out_row_is_in_the_index_and_nothing_is_right():
    X, Y = make_pairs(200, 16)
    data = Modalities.of(X, Y, paired=False)
    found, made = diagnosed(data)
    assert made.before.median_place is made.after.median_place is None
    assert made.before.n_documents == 200
    own = found.raw.metrics[OWN_EXCESS].value.value
    assert made.before.own_share == pytest.approx(own + 0.5)
    for stored in made.document["queries"]:
        assert stored["raw_place"] is None
        for hit in stored["raw"] + stored["corrected"]:
            assert hit["match"] is None
            assert hit["item"] != stored["item"]


def test_three_modalities_that_all_ask_share_the_stored_queries():
    data = make_many(160)
    found = diagnose(data, queries=data.names, correctors=(Calibrate("keep", form="blocks"),))
    made = make_answers(data, found, "cosine", RowPictures(data))
    items = made.document["items"]
    asking = [items[one["item"]]["modality"] for one in made.document["queries"]]
    assert [asking.count(place) for place in range(3)] == [STORED // 3] * 3
    assert made.before.n_queries == 2 * 3 * 40  # each row asks for each of the others
    for stored in made.document["queries"]:
        asked = items[stored["item"]]
        for hit in stored["raw"]:
            own = items[hit["item"]]
            assert hit["match"] == (own["row"] == asked["row"])
            assert not hit["match"] or own["modality"] != asked["modality"]


def test_queries_apart_have_their_own_words_and_look_for_another_modality():
    X, Y = make_pairs(240, 16)
    data = Modalities.of(X, Y).with_queries({"text": Y[::2]}, {"text": np.arange(0, 240, 2)})
    asked = replace(
        data.asking["text"],
        columns=Embeddings.from_array(Y[::2], captions=[f"asked {i}" for i in range(120)]).columns,
    )
    data = replace(data, asking={"text": asked})
    _, made = diagnosed(data)
    items = made.document["items"]
    for stored in made.document["queries"]:
        one = items[stored["item"]]
        assert one["label"] == f"asked {one['row']}"
        right = [items[hit["item"]] for hit in stored["corrected"] if hit["match"]]
        assert all(hit["modality"] == 0 and hit["row"] == 2 * one["row"] for hit in right)


def test_pictures_stop_at_their_budget_and_the_first_screen_comes_first(pairs, monkeypatch):
    data, found, _ = pairs
    picture = b"\x89PNG\r\n\x1a\n" + b"x" * 1000
    data = replace(data, thumbnails={"image": lambda row: picture})
    monkeypatch.setattr(module, "_THUMBNAIL_BYTES", 20_000)
    document = make_answers(data, found, "cosine", RowPictures(data)).document
    shown = [one for one in document["items"] if one["thumbnail"]]
    assert 10 < len(shown) <= 15
    typical = document["queries"][document["typical"]]
    for hit in typical["raw"] + typical["corrected"]:
        one = document["items"][hit["item"]]
        assert (one["thumbnail"] is not None) == (one["modality"] == 0)


def test_no_diagnosis_has_no_answers(pairs):
    made = make_answers(pairs[0], None, "cosine", RowPictures(pairs[0]))
    assert (made.before, made.after, made.document) == (None, None, None)
