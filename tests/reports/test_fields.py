"""What the page's document says of the columns beside the drawn rows."""

from __future__ import annotations

import datetime
import json
from typing import Any

import numpy as np
import pytest

import modgap
from conftest import make_many, make_pairs
from modgap.core.checks import InputValueError
from modgap.io import Embeddings, Modalities
from modgap.reports.fields import MOST_FIELDS, N_COLOURS, fields_document

N = 40


def shown(image: dict[str, Any] | None = None, text: dict[str, Any] | None = None, **more: Any):
    """The fields of a page by name, and the sentence about those left out."""
    X, Y = make_pairs(N)
    sides = (Embeddings.from_array(A, fields=own) for A, own in ((X, image), (Y, text)))
    data = Modalities.of(*sides, **more)
    found, left_out = fields_document(data, {name: np.arange(N)[::-1] for name in data.names})
    json.dumps(found, allow_nan=False)
    return {one["name"]: one for one in found}, left_out


def values(field: dict[str, Any], side: str) -> list[Any]:
    """The values of a side, in the order of the rows."""
    own = field[side][::-1]
    if field["kind"] == "number":
        return own
    return [None if code is None else field["values"][code] for code in own]


def test_values_are_those_of_the_rows_most_frequent_first():
    source = ["b", "a", None, "b"] * 10
    found, left_out = shown({"source": source})
    assert values(found["source"], "x") == source
    assert found["source"]["y"] is None
    assert found["source"]["values"] == ["b", "a"]
    assert found["source"]["counts"] == [20, 10]
    assert found["source"]["n_missing"] == 10 + N
    assert left_out is None


def test_numbers_are_a_scale_and_few_of_them_are_values_in_their_order():
    length = np.where(np.arange(N) == 3, np.nan, np.arange(N) / 8).astype(np.float32)
    found, _ = shown({"length": length, "stars": [5, 4, 4, 4] * 10}, {"length": np.arange(N)})
    scale = found["length"]
    assert scale["kind"] == "number"
    assert values(scale, "x") == [None if i == 3 else i / 8 for i in range(N)]
    assert (scale["least"], scale["most"]) == (0, 39)
    present = np.concatenate([np.delete(np.arange(N) / 8, 3), np.arange(N)])
    np.testing.assert_allclose(scale["range"], np.quantile(present, (0.02, 0.98)), rtol=1e-5)
    assert found["stars"]["kind"] == "category"
    assert found["stars"]["values"] == ["4", "5"]


def test_truth_dates_bytes_and_very_large_numbers_are_words():
    day = [datetime.date(2020, 1, 1 + i % 2) for i in range(N)]
    found, _ = shown(
        {
            "ok": [True, False, None, True] * 10,
            "day": np.array(day, "datetime64[D]"),
            "date": np.array(day, object),
            "large": [2**60 + i % 2 for i in range(N)],
            "bytes": np.array([b"\xff", b"a"] * 20),
            "mixed": np.array([1, "a", True, 2.5] * 10, object),
        }
    )
    assert values(found["ok"], "x")[:4] == ["true", "false", None, "true"]
    assert values(found["day"], "x")[:2] == values(found["date"], "x")[:2]
    assert values(found["day"], "x")[:2] == ["2020-01-01", "2020-01-02"]
    assert values(found["large"], "x")[:2] == [str(2**60), str(2**60 + 1)]
    assert values(found["bytes"], "x")[:2] == ["\N{REPLACEMENT CHARACTER}", "a"]
    assert values(found["mixed"], "x")[:4] == ["1", "a", "true", "2.5"]


def test_texts_that_hardly_repeat_are_not_for_colouring_and_long_ones_are_cut():
    found, _ = shown({"url": [f"https://example.com/{i}/{'x' * 200}" for i in range(N)]})
    assert found["url"]["kind"] == "text"
    assert {len(value) for value in found["url"]["values"]} == {80}


def test_values_beyond_the_colours_are_counted_as_others():
    many = [f"v{i % (N_COLOURS + 5)}" for i in range(N)]
    found, _ = shown({"many": many})
    assert found["many"]["kind"] == "category"
    assert len(found["many"]["counts"]) == N_COLOURS
    assert sum(found["many"]["counts"]) + found["many"]["n_other"] == N
    assert len(found["many"]["values"]) == N_COLOURS + 5


def test_what_is_left_out_is_named_with_the_reason():
    given = {
        "same": ["a"] * N, "none": [None] * N, "long": ["word " * 200] * 20 + ["b"] * 20,
        "lists": np.array([[1], [1, 2]] * 20, object),
    }  # fmt: skip
    kept, left_out = shown(given, {"same": ["a"] * N})
    assert kept == {}
    assert "“same” (they have one value in all rows that are drawn)" in left_out
    assert "“none” (they have no value in the rows that are drawn)" in left_out
    assert "“long” (their texts are long)" in left_out
    assert "“lists” (they hold neither numbers nor texts)" in left_out


def test_columns_to_colour_by_go_before_texts_where_there_are_too_many():
    texts = {f"text {i}": [f"{i} {row}" for row in range(N)] for i in range(MOST_FIELDS)}
    wide = {f"kind {i}": ["a", "b"] * 20 for i in range(MOST_FIELDS - 1)}
    found, left_out = shown({**texts, **wide})
    assert list(found) == [*wide, "text 0"]
    assert "“text 1”, “text 2”" in left_out
    assert "and 3 more (there are too many)" in left_out


def test_large_texts_do_not_make_the_page_heavy():
    rng = np.random.default_rng(0)
    n = 2_000
    letters = [chr(0x4E00 + i) for i in range(1000)]
    given = {f"f{i}": ["".join(rng.choice(letters, 60)) for _ in range(n)] for i in range(3)}
    rows = Embeddings.from_array(np.ones((n, 2)), fields=given)
    data = Modalities.of({"image": rows, "text": rows}, paired=True)
    found, left_out = fields_document(data, {name: np.arange(n) for name in data.names})
    assert len(json.dumps(found, ensure_ascii=False).encode()) < 1_000_000
    assert len(found) == 1
    assert "“f1” and “f2” (the page would be too large)" in left_out


def test_labels_and_sizes_of_groups_come_first():
    X, Y = make_pairs(N)
    x = Embeddings.from_array(X, labels=np.arange(N) // 2, fields={"year": np.arange(N)})
    groups = np.arange(N) // 2, np.arange(N) // 3
    data = Modalities.of(x, Y, groups=groups)
    found, _ = fields_document(data, {name: np.arange(N) for name in data.names})
    assert [one["name"] for one in found] == ["group size", "label", "year"]
    size = found[0]
    sizes = [int(np.sum(groups[0] == g) + np.sum(groups[1] == g)) for g in groups[0]]
    assert [int(size["values"][code]) for code in size["x"]] == sizes
    assert (found[1]["kind"], found[1]["y"]) == ("category", None)


def test_the_page_has_the_fields_of_the_drawn_rows_and_their_ids():
    given = make_many(30)
    years = 1900 + np.arange(30) % 12
    page = modgap.report(given, umap=False, fields={"audio": {"year": years}}).document
    [field] = page["picture"]["fields"]
    assert field["sides"][:2] == [None, None]
    rows = page["picture"]["sides"][2]["rows"]
    assert field["sides"][2] == years[rows].tolist()
    X, Y = make_pairs(30)
    x = Embeddings.from_array(X, ids=list(range(30)), captions=["a"] * 30)
    drawn = modgap.report(x, Y, umap=False).document["picture"]
    assert (drawn["x"]["ids"], drawn["x"]["labelled_by"]) == (list(map(str, range(30))), "captions")
    assert (drawn["y"]["ids"], drawn["y"]["labelled_by"], drawn["fields"]) == (None, None, [])


def test_fields_of_no_modality_are_refused():
    with pytest.raises(InputValueError, match="modality must be one of 'image', 'text'"):
        modgap.report(*make_pairs(12), fields={"video": {"a": np.arange(12)}})
