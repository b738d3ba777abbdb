"""Columns that a file has beside its rows: whose they are, when they are read, what is left out."""

from __future__ import annotations

import datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import safetensors.numpy

from modgap.core.checks import InputTypeError, InputValueError
from modgap.io import Embeddings, open_embeddings, open_modalities, open_pair

N = 12
YEARS = 1990 + np.arange(N)
SOURCES = [f"source {i % 3}" for i in range(N)]


def rows(n=N, seed=0):
    return np.random.default_rng(seed).normal(size=(n, 4)).astype(np.float32)


def vectors(n=N, seed=0):
    return pa.FixedSizeListArray.from_arrays(pa.array(rows(n, seed).ravel()), 4)


def save_clip_retrieval(path):
    for folder, seed in (("img_emb", 0), ("text_emb", 1)):
        (path / folder).mkdir(parents=True)
        np.save(path / folder / f"{folder}_0.npy", rows(seed=seed))
    (path / "metadata").mkdir()
    table = {"image_path": list(map(str, range(N))), "caption": SOURCES, "year": YEARS}
    pq.write_table(pa.table({**table, "source": SOURCES}), path / "metadata" / "metadata_0.parquet")


def test_numbers_of_a_safetensors_file_are_fields(tmp_path):
    held = {"v": rows(), "year": YEARS, "ok": YEARS % 2 == 0}
    safetensors.numpy.save_file(held, tmp_path / "a.safetensors")
    got = open_embeddings(tmp_path / "a.safetensors").fields
    assert {name: got[name].load().tolist() for name in got} == {
        "year": YEARS.tolist(),
        "ok": (YEARS % 2 == 0).tolist(),
    }


def test_metadata_of_a_clip_retrieval_folder_are_fields_of_both(tmp_path):
    save_clip_retrieval(tmp_path / "rows")
    for side in open_pair(tmp_path / "rows").sides.values():
        assert set(side.fields) == {"year", "source"}
        assert side.fields["year"].load().tolist() == YEARS.tolist()


def test_texts_of_their_own_have_fields_of_their_own(tmp_path):
    save_clip_retrieval(tmp_path / "rows")
    (tmp_path / "rows" / "text_metadata").mkdir()
    table = {"image_path": list(map(str, range(N))), "caption": SOURCES, "words": YEARS}
    pq.write_table(pa.table(table), tmp_path / "rows" / "text_metadata" / "0.parquet")
    found = open_pair(tmp_path / "rows")
    assert set(found.x.fields) == {"year", "source"}
    assert set(found.y.fields) == {"words"}


def test_a_column_that_names_a_modality_is_a_field_of_it_alone(tmp_path):
    columns = {
        "image": vectors(), "text": vectors(seed=1), "year": YEARS, "image_width": YEARS,
        "text_language": SOURCES, "text_year": YEARS, "x_min": YEARS, "y_min": YEARS,
        "y_labels": YEARS,
    }  # fmt: skip
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    both = {"year", "x_min", "y_min"}
    found = open_pair(tmp_path / "a.parquet")
    assert set(found.x.fields) == {*both, "width"}
    # "year" is taken, so "text_year" keeps its whole name.
    assert set(found.y.fields) == {*both, "language", "text_year"}
    assert found.y.labels.tolist() == YEARS.tolist()
    path = tmp_path / "a.parquet"
    assert set(open_modalities({"text": path, "image": path}).sides["image"].fields) >= {"width"}


def test_nulls_dates_and_odd_names_are_kept_and_what_is_no_plain_value_is_not(tmp_path):
    day = datetime.date(2020, 1, 2)
    columns = {
        "v": vectors(3), "n": [1, None, 3], "t": ["a", None, ""], "b": [True, None, False],
        "day": [day, None, day], "": [1, 2, 3], "__proto__": [1, 2, 3], "a b\n<c>": [1, 2, 3],
        "blob": [b"\xff", b"", None], "tags": [["a"], ["b"], []], "struct": [{"a": 1}] * 3,
    }  # fmt: skip
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    got = open_embeddings(tmp_path / "a.parquet", column="v").fields
    assert list(got) == ["n", "t", "b", "day", "", "__proto__", "a b\n<c>"]
    assert got["n"].load().tolist() == [1, None, 3]
    assert got["t"].load().tolist() == ["a", None, ""]
    assert got["b"].load().tolist() == [True, None, False]
    assert got["day"].load().tolist() == [day, None, day]


def test_columns_of_another_length_are_no_fields(tmp_path):
    np.savez(tmp_path / "a.npz", image=rows(), text=rows(8), of_image=YEARS, of_text=YEARS[:8])
    found = open_pair(tmp_path / "a.npz", paired=False)
    assert list(found.x.fields) == ["of_image"]
    assert list(found.y.fields) == ["of_text"]


def test_nothing_is_read_before_it_is_asked_for(tmp_path):
    np.savez(tmp_path / "a.npz", v=rows(), pickled=np.array([{}] * N, object), year=YEARS)
    found = open_embeddings(tmp_path / "a.npz").subset(np.array([3, 1]))
    assert found.fields["year"].load().tolist() == [1993, 1991]
    with pytest.raises(InputTypeError, match="Python objects"):
        found.fields["pickled"].load()


def test_fields_follow_their_rows():
    data = Embeddings.from_array(rows(), fields={"year": YEARS, "source": SOURCES})
    some = data.subset(np.array([5, 2, 7])).subset(np.array([2, 0]))
    assert some.fields["year"].load().tolist() == [1997, 1995]
    assert some.with_rows_loaded().with_words_loaded().fields["source"].load().tolist() == [
        "source 1",
        "source 2",
    ]
    assert list(data.with_fields({"more": SOURCES}).fields) == ["year", "source", "more"]


@pytest.mark.parametrize(
    ("values", "error", "said"),
    [
        (YEARS[:3], InputValueError, "field 'f' of array must have one entry per row: 12 rows"),
        (rows(), InputTypeError, "a text for every row, got float32 of shape"),
        (YEARS * 1j, InputTypeError, "got complex128"),
        ([[1], [1, 2]], InputTypeError, "one value per row, got lists"),
    ],
)
def test_fields_that_are_no_columns_are_refused(values, error, said):
    with pytest.raises(error, match=said):
        Embeddings.from_array(rows(), fields={"f": values})
