"""Rows that stand several times on one side, and the groups that they join."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import modgap
from conftest import load_published, load_published_tensors
from modgap import Embeddings, Modalities
from modgap.io import duplicates
from modgap.io.duplicates import first_copies


def _first(rows):
    found = first_copies(Embeddings.of(rows, "rows"))
    return None if found is None else found.tolist()


def _slow_first(rows):
    """For every row the first that it is a copy of: all cosines, in float64, one by one."""
    unit = np.asarray(rows, np.float64)
    unit = unit / np.linalg.norm(unit, axis=1, keepdims=True)
    first = []
    for i, row in enumerate(unit):
        near = (j for j in range(i) if first[j] == j and 1 - row @ unit[j] <= 1e-6)
        first.append(next(near, i))
    return first


@st.composite
def _planted(draw):
    """Rows of which some stand several times, as they are, a little moved, longer or in float16."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n, dim = draw(st.integers(5, 40)), draw(st.sampled_from([8, 33, 256]))
    rows = (rng.normal(size=(n, dim)) + draw(st.sampled_from([0, 1, 3]))).astype(np.float32)
    which = rng.permutation(
        np.concatenate([np.arange(n), rng.integers(0, n, draw(st.integers(0, 60)))])
    )
    made = rows[which]
    how = draw(st.sampled_from(["equal", "near", "longer", "float16", "rounded"]))
    if how == "near":  # within half of the tolerance of each other
        noise = rng.normal(size=made.shape)
        noise *= 3e-4 / np.linalg.norm(noise, axis=1, keepdims=True)
        made = made + noise * np.linalg.norm(made, axis=1, keepdims=True)
    if how == "longer":
        made = made * rng.uniform(0.1, 9, size=(len(made), 1))
    if how == "float16":
        made = made.astype(np.float16)
    if how == "rounded":  # some of the copies went through float16
        made = np.where(rng.random((len(made), 1)) < 0.5, made.astype(np.float16), made)
    return made, which


@given(_planted())
@settings(deadline=None, max_examples=60)
def test_planted_copies_are_found_and_no_others(planted):
    rows, which = planted
    first = np.unique(which, return_index=True)[1][np.unique(which, return_inverse=True)[1]]
    found = _first(rows)
    assert first.tolist() == (found or list(range(len(rows)))) == _slow_first(rows)


def test_near_copies_of_near_copies_are_not_chained():
    angles = np.array([*np.arange(6) * 1.2e-3, 1])  # neighbours are copies, others are not
    rows = np.stack([np.cos(angles), np.sin(angles), 0 * angles, 0 * angles], axis=1)
    assert _first(rows) == _slow_first(rows) == [0, 0, 2, 2, 4, 4, 6]


def test_what_is_merely_alike_stays_apart(rng):
    rows = rng.normal(size=(50, 64))
    alike = rows + 0.01 * rng.normal(size=rows.shape)  # cosines of .9999
    assert _first(np.concatenate([rows, alike])) is None


@pytest.mark.parametrize("dim", [1, 2, 3, 64])
def test_rows_that_are_all_equal_or_nearly_have_no_copies(rng, dim):
    one = rng.normal(size=(1, dim))
    assert _first(np.repeat(one, 300, axis=0)) is None
    assert _first(one * (1 + 1e-5 * rng.normal(size=(300, dim)))) is None


def test_rows_without_a_direction_have_no_copies(rng):
    rows = np.repeat(rng.normal(size=(6, 16)), 2, axis=0).astype(np.float32)
    rows[[0, 1]], rows[[2, 3]], rows[[4, 5]] = 0, np.nan, np.inf
    assert _first(rows) == [0, 1, 2, 3, 4, 5, 6, 6, 8, 8, 10, 10]


def test_many_near_copies_that_lie_across_cells_are_one(rng):
    rows = rng.normal(size=(20, 512))
    many = np.repeat(rows, 100, axis=0)
    many *= 1 + 2e-4 * rng.normal(size=many.shape)
    assert _first(many) == np.repeat(np.arange(20) * 100, 100).tolist()


def test_modalities_of_very_many_rows_are_not_looked_at(rng, monkeypatch):
    monkeypatch.setattr(duplicates, "MAX_ROWS", 10)
    X = np.repeat(rng.normal(size=(6, 8)), 2, axis=0)
    assert _grouped(X, X[::-1]).duplicates is None
    assert _grouped(X[:10], X[:10]).duplicates is not None


def test_files_and_tensors_give_what_arrays_give(rng, tmp_path):
    torch = pytest.importorskip("torch")
    rows = rng.normal(size=(40, 24)).astype(np.float32)[rng.integers(0, 40, 100)]
    np.save(tmp_path / "rows.npy", rows)
    modgap.write_embeddings(tmp_path / "rows.parquet", rows)
    wanted = _first(rows)
    assert wanted is not None
    assert wanted == _first(torch.as_tensor(rows))
    for name in ("rows.npy", "rows.parquet"):
        found = first_copies(modgap.open_embeddings(tmp_path / name))
        assert found is not None
        assert found.tolist() == wanted


def _grouped(X, Y, **given):
    return Modalities.of(X, Y, **given).with_duplicates_grouped()


def test_photos_given_once_for_each_caption_are_one_group_each(rng):
    X, Y = np.repeat(rng.normal(size=(10, 16)), 5, axis=0), rng.normal(size=(50, 16))
    data = _grouped(X, Y)
    assert [codes.tolist() for codes in data.groups] == [
        np.repeat(np.arange(0, 50, 5), 5).tolist()
    ] * 2
    assert data.n_groups == 10
    assert data.duplicates == (
        "10 image rows occur 5 times each. With copies in one group, 50 pairs form 10 groups, the "
        "largest with 5 image and 5 text rows."
    )


def test_copies_on_either_side_join_groups(rng):
    X, Y = rng.normal(size=(6, 16)), rng.normal(size=(6, 16))
    X[1], Y[2] = X[0], Y[1]  # 0, 1 and 2 hang together
    data = _grouped(X, Y)
    assert data.groups[0].tolist() == data.groups[1].tolist() == [0, 0, 0, 3, 4, 5]
    assert (
        "6 image rows are 5 distinct rows, one of them 2 times and 6 text rows" in data.duplicates
    )


def test_rows_paired_by_id_or_group_are_joined_too(rng):
    X, Y = rng.normal(size=(4, 16)), rng.normal(size=(4, 16))
    Y[3] = Y[0]
    ids = ["a", "b", "c", "d"]
    by_id = _grouped(
        *(Embeddings.from_array(rows, ids=ids[::step]) for rows, step in ((X, 1), (Y, -1)))
    )
    by_group = _grouped(X, Y, groups=(ids, ids[::-1]))
    for data in (by_id, by_group):
        image, text = data.groups
        assert image[0] == image[3] == text[0] == text[3]
        assert data.n_groups == 3
        assert "4 groups form 3 groups" in data.duplicates
        # The keys by which documents find their own queries are those of the first group.
        assert data.keys_of("image")[3] == data.keys_of("text")[0] == data.keys_of("image")[0]


def test_copies_that_are_in_one_group_already_change_nothing(rng):
    X, Y = np.repeat(rng.normal(size=(5, 8)), 2, axis=0), rng.normal(size=(10, 8))
    groups = np.repeat(np.arange(5), 2)
    data = _grouped(X, Y, groups=(groups, groups))
    assert data.duplicates == ""
    assert np.array_equal(data.groups[0], groups)


def test_rows_without_copies_and_rows_that_are_not_paired_stay_as_they_are(rng):
    X, Y = rng.normal(size=(9, 8)), rng.normal(size=(9, 8))
    assert _grouped(X, Y).row_by_row
    assert _grouped(X, Y).duplicates == ""
    X[1] = X[0]
    unpaired = Modalities.of(X, Y, paired=False)
    assert unpaired.with_duplicates_grouped() is unpaired


def test_few_class_names_make_as_many_groups(rng):
    labels = rng.permutation(np.repeat(np.arange(12), 40))
    data = _grouped(rng.normal(size=(480, 32)), rng.normal(size=(12, 32))[labels])
    assert data.n_groups == 12
    for group in np.unique(data.groups[0]):
        assert len(np.unique(labels[data.groups[0] == group])) == 1


def test_queries_of_their_own_join_the_groups_of_their_copies(rng):
    data = Modalities.of(rng.normal(size=(5, 8)), rng.normal(size=(5, 8)))
    asked = rng.normal(size=(3, 8))[[0, 1, 0]]
    data = data.with_queries({"text": asked}, {"text": [2, 3, 4]}).with_duplicates_grouped()
    assert data.query_groups("text").tolist() == [2, 3, 2]
    assert data.groups[0].tolist() == [0, 1, 2, 3, 2]


def test_three_modalities_are_joined_across_all(rng):
    rows = {name: rng.normal(size=(6, 8)) for name in ("image", "text", "audio")}
    rows["audio"][5] = rows["audio"][0]
    data = Modalities.of(rows).with_duplicates_grouped()
    assert all(codes.tolist() == [0, 1, 2, 3, 4, 0] for codes in data.groups)


def test_equal_report_sentences_are_one():
    X, Y = load_published("features_convirt.npy")
    data = _grouped(X, Y)
    assert data.n_groups == 443
    assert "500 text rows are 443 distinct rows, one of them 10 times" in data.duplicates


def test_class_texts_that_are_merely_alike_stay_apart():
    texts = load_published_tensors("imagenet-clip-b32")["class_text"]
    first = first_copies(Embeddings.of(texts, "text"))
    again = np.flatnonzero(first != np.arange(1_000))
    assert len(again) == 3  # two classes of one name: crane, maillot, sunglasses
    assert np.array_equal(texts[again], texts[first[again]])
