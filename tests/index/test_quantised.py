"""Quantised documents: scores against float ones, sizes, searching modalities, bad input."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import make_pairs
from modgap import Embeddings, Modalities
from modgap.corrections import Calibrate, Center, NotFitted, OwnQueriesWarning
from modgap.index import QuantisedIndex
from modgap.search import search

faiss = pytest.importorskip("faiss", reason="faiss is not installed")

KINDS = ("int8", "4bit", "1bit", "pq", "rabitq")


def unit_rows(n: int = 100, d: int = 16, seed: int = 0) -> dict[str, np.ndarray]:
    X, Y = make_pairs(n, d, seed)
    return {
        "image": X / np.linalg.norm(X, axis=1, keepdims=True),
        "text": Y / np.linalg.norm(Y, axis=1, keepdims=True),
    }


def all_scores(index: QuantisedIndex, queries: np.ndarray, name: str) -> np.ndarray:
    """Estimated scores of every document of a modality, in the order of its rows."""
    hits = index.search(queries, index.count(name), name)
    scores = np.empty_like(hits.scores)
    np.put_along_axis(scores, hits.ids, hits.scores, axis=1)
    return scores


@pytest.mark.parametrize("rotate", ["none", "random", "learned"])
@pytest.mark.parametrize("offset", [0.0, 100.0])
def test_int8_scores_are_the_float_ones_to_the_step_however_far_the_means_are(rotate, offset):
    rows = unit_rows()
    rows = {"image": rows["image"] + offset, "text": rows["text"] - offset}
    index = QuantisedIndex("int8", rotate=rotate).fit(rows)
    queries = rows["text"][:20]
    # Half a step of each coordinate, at most 2/256 wide, times the query without its mean's
    # directions; and half precision of the coordinates along those.
    rest = queries - queries @ index.directions_ @ index.directions_.T
    along = np.abs(queries @ index.directions_).max()
    bound = np.linalg.norm(rest, axis=1).max() * 4 * (2 / 256) + along * 2.0**-10 * 8
    for name in rows:
        off = np.abs(all_scores(index, queries, name) - queries @ rows[name].T).max()
        assert off < bound
        assert off < 3e-3 * max(1.0, np.abs(queries @ rows[name].T).max())


def test_the_mean_term_is_added_back_exactly():
    # Documents that sit on their mean have nothing to quantise: their scores are q · μ alone.
    rng = np.random.default_rng(0)
    means = rng.normal(size=(2, 16)) * 5
    rows = {name: np.tile(mean, (70, 1)) for name, mean in zip(("a", "b"), means, strict=True)}
    queries = rng.normal(size=(5, 16))
    for kind in KINDS:
        index = QuantisedIndex(kind).fit(rows)
        for name in rows:
            np.testing.assert_allclose(
                all_scores(index, queries, name), queries @ rows[name].T, rtol=1e-5, atol=1e-5
            )


def test_a_one_bit_score_is_faiss_own_rabitq_estimate():
    rows = unit_rows()
    one_bit, rabitq = (QuantisedIndex(kind).fit(rows) for kind in ("1bit", "rabitq"))
    ours, theirs = (all_scores(i, rows["image"][:10], "text") for i in (one_bit, rabitq))
    np.testing.assert_allclose(ours, theirs, atol=2e-3)  # lengths in half precision
    pooled = rabitq.search(rows["image"][:10], 100, "text", pool=100)
    scanned = rabitq.search(rows["image"][:10], 100, "text")
    np.testing.assert_allclose(pooled.scores, scanned.scores, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_without_centring_it_is_the_plain_faiss_index(kind):
    rows = unit_rows()
    index = QuantisedIndex(kind, centre=False, rotate="none").fit(rows)
    hits = index.search(rows["image"][:7], 5, "text")
    scores, ids = index.faiss_index("text").search(rows["image"][:7].astype(np.float32), 5)
    np.testing.assert_array_equal(hits.ids, ids)
    np.testing.assert_allclose(hits.scores, scores, rtol=1e-6)
    if kind == "1bit":
        signs = np.where(rows["text"] > 0, 1.0, -1.0)
        np.testing.assert_allclose(
            all_scores(index, rows["image"], "text"), rows["image"] @ signs.T, atol=1e-5
        )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("exact", [0, 3])
def test_the_size_is_what_is_stored(kind, exact):
    rows = unit_rows(n=70, d=16)
    index = QuantisedIndex(kind, exact=exact).fit(rows)
    codes = {name: index.faiss_index(name).codes.size() for name in rows}
    assert codes == {name: 70 * index.faiss_index(name).sa_code_size() for name in rows}
    bare = {"int8": 16, "4bit": 8, "1bit": 2, "pq": 2, "rabitq": 10}[kind]
    assert codes["text"] == 70 * bare
    length = 2 if kind in ("1bit", "pq") else 0
    assert index.bytes_per_vector == bare + 2 * (2 + exact) + length
    segment = index.segments_["text"]
    kept = segment.exact.nbytes + (0 if segment.lengths is None else segment.lengths.nbytes)
    assert index.bytes_per_vector * 70 == codes["text"] + kept


@pytest.mark.parametrize("kind", KINDS)
def test_searching_both_modalities_merges_the_two_searches(kind):
    rows = unit_rows()
    index = QuantisedIndex(kind).fit(rows)
    queries = rows["text"][:6]
    both = index.search(queries, 200)
    for name in rows:
        alone = index.search(queries, 100, name)
        for line in range(len(queries)):
            of_name = both.modalities[line] == name
            np.testing.assert_array_equal(both.ids[line, of_name], alone.ids[line])
    assert (np.diff(both.scores, axis=1) <= 0).all()
    assert (index.names, index.count(), index.count("text")) == (("image", "text"), 200, 100)


def test_a_pool_of_all_documents_is_the_whole_search():
    rows = unit_rows()
    for kind in KINDS:
        index = QuantisedIndex(kind, exact=2).fit(rows)
        scanned = index.search(rows["image"], 10, "text")
        pooled = index.search(rows["image"], 10, "text", pool=100)
        np.testing.assert_allclose(pooled.scores, scanned.scores, atol=1e-5)


def test_a_search_in_blocks_is_the_search_in_one(monkeypatch):
    rows = unit_rows()
    whole = QuantisedIndex("1bit").fit(rows).search(rows["image"], 10, "text")
    for module in ("index", "segment"):
        monkeypatch.setattr(f"modgap.index.quantised.{module}.BLOCK_ROWS", 7)
    blocks = QuantisedIndex("1bit").fit(rows).search(rows["image"], 10, "text")
    np.testing.assert_array_equal(blocks.ids, whole.ids)
    np.testing.assert_allclose(blocks.scores, whole.scores, atol=1e-6)


@given(seed=st.integers(0, 1000), size=st.sampled_from([1e-3, 1.0, 1e3]))
def test_rankings_do_not_depend_on_the_scale_of_the_rows(seed, size):
    rows = unit_rows(n=70, d=8, seed=seed)
    plain = QuantisedIndex("1bit").fit(rows)
    scaled = QuantisedIndex("1bit").fit({name: v * size for name, v in rows.items()})
    a, b = (index.search(rows["image"][:5], 5, "text") for index in (plain, scaled))
    np.testing.assert_allclose(b.scores / size, a.scores, rtol=1e-3, atol=3e-3)


@given(seed=st.integers(0, 1000))
def test_a_documents_own_direction_is_estimated_without_bias(seed):
    # The length is chosen so that the estimate of r · r is exact, r being what was quantised.
    rows = unit_rows(n=70, d=8, seed=seed)
    index = QuantisedIndex("1bit").fit(rows)
    for name, v in rows.items():
        np.testing.assert_allclose(
            np.diag(all_scores(index, v, name)), np.sum(v * v, axis=1), atol=6e-3
        )


def test_more_bits_and_more_exact_directions_give_nearer_scores():
    rows = unit_rows(n=200, d=32)
    queries = rows["image"][:50]
    truth = queries @ rows["text"].T

    def error(kind: str, **options: int) -> float:
        index = QuantisedIndex(kind, **options).fit(rows)
        return float(np.abs(all_scores(index, queries, "text") - truth).mean())

    assert error("int8") < error("4bit") < error("1bit")
    assert error("1bit", exact=16) < error("1bit", exact=4) < error("1bit")


def test_other_modalities_may_only_ask():
    rows = unit_rows()
    index = QuantisedIndex("4bit").fit({"text": rows["text"]}, train=rows)
    assert index.names == ("text",)
    assert index.directions_.shape == (16, 2)
    assert index.search(rows["image"], 3).ids.shape == (100, 3)


def test_torch_and_half_precision_rows_are_taken():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    rows = unit_rows()
    tensors = {name: torch.from_numpy(v.astype(np.float32)) for name, v in rows.items()}
    ours = QuantisedIndex("int8").fit(rows).search(rows["image"], 3)
    theirs = QuantisedIndex("int8").fit(tensors).search(tensors["image"], 3)
    np.testing.assert_allclose(theirs.scores, ours.scores, atol=1e-5)
    half = {name: v.astype(np.float16) for name, v in rows.items()}
    assert QuantisedIndex("int8").fit(half).search(half["image"], 3).ids.shape == (100, 3)


# --- Rows that a correction maps ------------------------------------------------------------------


def in_error(index: QuantisedIndex, queries: np.ndarray, exact: np.ndarray) -> float:
    return float(np.abs(all_scores(index, queries, "image") - exact).max())


@pytest.mark.parametrize("kind", KINDS)
def test_hubness_is_kept_beside_the_codes_in_half_precision(kind):
    rows = unit_rows()
    plain, hubs = (
        Calibrate(hubs=h).fit(rows["image"], rows["text"]).correction_ for h in (0.0, 0.5)
    )
    before = QuantisedIndex(kind).fit(rows, correction=plain)
    after = QuantisedIndex(kind).fit(rows, correction=hubs)
    assert after.bytes_per_vector == before.bytes_per_vector + 2
    np.testing.assert_array_equal(*(
        faiss.vector_to_array(index.faiss_index("image").codes) for index in (before, after)
    ))  # fmt: skip
    column = hubs.apply(rows["image"], "image", keys=np.arange(100))[:, -1]
    queries = rows["text"][:20]
    added = all_scores(after, queries, "image") - all_scores(before, queries, "image")
    rounding = 2.0**-11 * np.abs(column - column.mean()).max()
    np.testing.assert_allclose(added, np.tile(column, (20, 1)), atol=1.01 * rounding)


@pytest.mark.parametrize("name", ["clip", "unsplash"])
def test_int8_finds_as_much_of_exact_search_with_hubs_as_without(request, name):
    X, Y = request.getfixturevalue(f"published_{name}")
    same = []
    for hubs in (0.0, 0.5):
        correction = Calibrate(hubs=hubs).fit(X, Y).correction_
        index = QuantisedIndex("int8").fit({"image": X, "text": Y}, correction=correction)
        documents = correction.apply(X, "image", keys=np.arange(len(X)))
        best, _ = search(correction.apply(Y, "text", "query"), documents, 1, "inner_product")
        same.append(float(np.mean(index.search(Y, 1, "image").ids == best)))
    assert same[1] >= same[0] - 0.004  # two queries of 500
    assert same[1] >= 0.99


def test_keys_of_documents_leave_their_own_queries_out():
    rows = unit_rows()
    groups = np.arange(100) // 2
    sides = {n: Embeddings.from_array(one, groups=groups) for n, one in rows.items()}
    data = Modalities.of(sides, groups={"image": groups, "text": groups})
    correction = Calibrate(hubs=0.5).fit(data).correction_
    index = QuantisedIndex("int8").fit(sides, correction=correction)
    queries = rows["text"][:10]
    exact = correction.apply(queries, "text", "query") @ correction.apply(
        rows["image"], "image", keys=data.keys_of("image")
    ).T  # fmt: skip
    assert in_error(index, queries, exact) < 0.05
    with pytest.warns(OwnQueriesWarning):
        other = QuantisedIndex("int8").fit(rows, correction=correction)
    assert in_error(other, queries, exact) > 0.05


def test_the_mean_of_queries_leaves_the_quantised_part_of_a_corrected_index():
    rows = unit_rows(200, 32)
    correction = Calibrate().fit(rows["image"], rows["text"]).correction_
    index = QuantisedIndex("1bit").fit(rows, correction=correction)
    assert index.directions_.shape == (32, 1)  # documents have no mean any more
    mean = rows["text"].mean(axis=0)
    assert abs(index.directions_[:, 0] @ mean) > 0.999 * np.linalg.norm(mean)
    mixed = Calibrate("mixed").fit(rows["image"], rows["text"]).correction_
    hits = QuantisedIndex("int8").fit(rows, correction=mixed).search(3 * rows["text"], 1)
    assert hits.ids.shape == (200, 1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda r, c: QuantisedIndex().fit(r, correction=Center().fit(*r.values()).correction_),
         "Quantised scores are inner products, and this correction ranks by cosine"),
        (lambda r, c: QuantisedIndex().fit(r, correction=c.without_bank()), "bank of queries was"),
        (lambda r, c: QuantisedIndex().fit({"sound": r["text"]}, correction=c), "modality must be"),
        (lambda r, c: QuantisedIndex().fit(r, correction=c).search(r["text"], 1, modality="image"),
         "serves text queries, not image queries"),
        (lambda r, c: QuantisedIndex().fit(r, correction=c).search(r["text"][:, :8], 1),
         "for rows of 16 columns, got 8"),
    ],
)  # fmt: skip
def test_corrections_that_cannot_be_used_are_refused(call, message):
    rows = unit_rows()
    correction = Calibrate(hubs=0.5).fit(rows["image"], rows["text"]).correction_
    with pytest.raises(ValueError, match=message):
        call(rows, correction)


ROWS = unit_rows()
TEXT = ROWS["text"]
FITTED = QuantisedIndex().fit(ROWS)
BAD = np.where(np.arange(100)[:, None] == 4, np.nan, TEXT)
FEWER = {name: rows[:63] for name, rows in ROWS.items()}
NARROW = {name: rows[:, :8] for name, rows in ROWS.items()}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: QuantisedIndex("int4").fit(ROWS), "bits must be one of 'int8', '4bit'"),
        (lambda: QuantisedIndex(rotate="opq").fit(ROWS), "rotate must be one of"),
        (lambda: QuantisedIndex(centre=False, exact=2).fit(ROWS), "it needs centre=True"),
        (lambda: QuantisedIndex(exact=14).fit(ROWS), "leave nothing to quantise of 16 columns"),
        (lambda: QuantisedIndex("pq", subspaces=5).fit(ROWS), "into equal pieces, got 5"),
        (lambda: QuantisedIndex("pq").fit(FEWER), "at least 64 rows of each modality, got 63"),
        (
            lambda: QuantisedIndex(rotate="learned").fit({"text": TEXT[:15]}),
            "at least as many rows as columns, 16, got 15",
        ),
        (lambda: QuantisedIndex().fit([TEXT]), "rows of each modality by its name"),
        (lambda: QuantisedIndex().fit({}), "rows of each modality by its name"),
        (lambda: QuantisedIndex().fit({"text": BAD}), "has 1 row with NaN or infinity"),
        (
            lambda: QuantisedIndex().fit({**ROWS, "text": TEXT[:, :8]}),
            "same number of columns, got {'image': 16, 'text': 8}",
        ),
        (
            lambda: QuantisedIndex().fit(ROWS, train={"text": TEXT}),
            "documents must be one of 'text', got 'image'",
        ),
        (
            lambda: QuantisedIndex().fit(ROWS, train=NARROW),
            "train must have the 16 columns of the documents, got 8",
        ),
        (lambda: FITTED.search(TEXT[:, :8], 1), "holds rows of 16 columns, but queries has 8"),
        (
            lambda: FITTED.search(TEXT, 1, "txt"),
            "only must be one of 'image', 'text', got 'txt'. Did you mean 'text'",
        ),
        (lambda: FITTED.search(TEXT, 201), "k must be between 1 and 200"),
        (lambda: FITTED.search(TEXT, 101, "text"), "between 1 and 100"),
        (lambda: FITTED.search(TEXT, 5, pool=4), "pool must be at least 5"),
        (lambda: FITTED.search(BAD, 1), "queries has 1 row with NaN"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(call, message):
    with pytest.raises((ValueError, TypeError)) as caught:
        call()
    assert message in str(caught.value)


def test_an_index_that_was_not_fitted_says_so():
    with pytest.raises(NotFitted, match=r"Call fit\(documents\) first"):
        QuantisedIndex().search(np.ones((1, 4)), 1)


def test_the_example_of_the_page_runs():
    page = (Path(__file__).parents[2] / "docs" / "guides" / "search" / "quantised.md").read_text(
        encoding="utf-8"
    )
    blocks = re.findall(r"^```python\n(.*?)^```", page, flags=re.DOTALL | re.MULTILINE)
    code, corrected, lifting = blocks
    found: dict[str, Any] = {}
    exec(compile(code, "quantised.md", "exec"), found)
    assert found["hits"].ids.shape == (3, 5)
    assert set(found["hits"].modalities.ravel()) == {"image"}
    assert found["index"].bytes_per_vector == 14
    exec(compile(corrected, "quantised.md", "exec"), found)
    assert found["corrected"].bytes_per_vector == 68
    assert found["hits"].ids.shape == (3, 5)
    exec(compile(lifting, "quantised.md", "exec"), found)
    products = found["queries"] @ found["lifted"].T
    np.testing.assert_allclose(products, found["queries"][:, :-1] @ found["documents"].T)
    assert np.ptp(np.linalg.norm(found["lifted"], axis=1)) < 1e-4


def test_without_faiss_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(ImportError, match=r"pip install 'modgap\[faiss\]'"):
        QuantisedIndex().fit(unit_rows())
