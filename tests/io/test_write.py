"""What modgap writes, read by the libraries that own the formats and by modgap itself."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import safetensors.numpy

from modgap.core.checks import InputTypeError, InputValueError
from modgap.io import (
    Embeddings,
    open_embeddings,
    open_pair,
    write_clip_retrieval,
    write_embeddings,
    write_pair,
)

torch = pytest.importorskip("torch")

N, D = 10, 3
X = np.random.default_rng(0).normal(size=(N, D)).astype(np.float32)
Y = np.random.default_rng(1).normal(size=(N, D)).astype(np.float32)
IDS = [f"id {i}" for i in range(N)]
CAPTIONS = [f"caption {i}" for i in range(N)]
LABELS, GROUPS = np.arange(N) % 3, np.arange(N) // 2
FILES = ["a.npy", "a.npz", "a.safetensors", "a.pt", "a.pth", "a.parquet", "A.NPZ"]


def batches(rows, size=4):
    return (rows[start : start + size] for start in range(0, len(rows), size))


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("dtype", [None, "float16", np.float64])
def test_every_format_is_read_back_equal(tmp_path, name, dtype):
    expected = X if dtype is None else X.astype(dtype)
    sources = (X, batches(X), Embeddings.from_array(X), torch.from_numpy(X), [X[:9], X[9:], X[:0]])
    for rows in sources:
        write_embeddings(tmp_path / name, rows, dtype=dtype)
        got = open_embeddings(tmp_path / name)
        assert got.dtype == expected.dtype
        np.testing.assert_array_equal(got.rows(), expected)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_the_libraries_read_what_is_written(tmp_path):
    for name in FILES:
        write_embeddings(tmp_path / name, batches(X))
    np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), X)
    with np.load(tmp_path / "a.npz") as arrays:
        np.testing.assert_array_equal(arrays["embedding"], X)
    tensors = safetensors.numpy.load_file(tmp_path / "a.safetensors")
    np.testing.assert_array_equal(tensors["embedding"], X)
    np.testing.assert_array_equal(torch.load(tmp_path / "a.pt", weights_only=True).numpy(), X)
    table = pq.read_table(tmp_path / "a.parquet")
    assert table.schema.field("embedding").type == pa.list_(pa.float32(), D)
    np.testing.assert_array_equal(np.stack(pd.read_parquet(tmp_path / "a.parquet").embedding), X)


@pytest.mark.parametrize("name", ["a.npz", "a.pt", "a.parquet"])
def test_columns_are_written_and_read(tmp_path, name):
    columns = {"ids": IDS, "captions": np.array(CAPTIONS, object), "labels": LABELS}
    write_embeddings(tmp_path / name, batches(X), groups=GROUPS, **columns)
    got = open_embeddings(tmp_path / name)
    np.testing.assert_array_equal(got.rows(), X)
    assert list(got.ids) == IDS
    assert list(got.captions) == CAPTIONS
    np.testing.assert_array_equal(got.labels, LABELS)
    np.testing.assert_array_equal(got.groups, GROUPS)


def test_safetensors_keep_numbers_and_refuse_strings(tmp_path):
    write_embeddings(tmp_path / "a.safetensors", X, labels=LABELS, ids=np.arange(N))
    got = open_embeddings(tmp_path / "a.safetensors")
    np.testing.assert_array_equal(got.labels, LABELS)
    np.testing.assert_array_equal(got.ids, np.arange(N))
    with pytest.raises(InputValueError, match="holds only numbers, so 'caption' cannot be kept"):
        write_embeddings(tmp_path / "b.safetensors", X, captions=CAPTIONS)


def test_missing_captions_go_through_parquet(tmp_path):
    captions = np.array([*CAPTIONS[:-1], None], object)
    write_embeddings(tmp_path / "a.parquet", X, captions=captions)
    assert list(open_embeddings(tmp_path / "a.parquet").captions) == [*CAPTIONS[:-1], None]
    with pytest.raises(InputTypeError, match="caption must have an entry for every row"):
        write_embeddings(tmp_path / "a.npz", X, captions=captions)


def test_a_long_stream_is_written_in_several_batches(tmp_path):
    n = 20_001
    rows = np.arange(n * 2, dtype=np.float64).reshape(n, 2)
    for name in ("a.npy", "a.parquet"):
        write_embeddings(tmp_path / name, batches(rows, 777), ids=[None, np.arange(n)]["q" in name])
        np.testing.assert_array_equal(open_embeddings(tmp_path / name).rows(), rows)
    np.testing.assert_array_equal(open_embeddings(tmp_path / "a.parquet").ids, np.arange(n))


@pytest.mark.parametrize("name", FILES)
def test_pairs_are_read_back_equal(tmp_path, name):
    write_pair(tmp_path / name, batches(X), batches(Y, 3), names=("audio", "text"))
    pair = open_pair(tmp_path / name, names=("audio", "text"))
    np.testing.assert_array_equal(pair.x.rows(), X)
    np.testing.assert_array_equal(pair.y.rows(), Y)
    assert pair.paired


def test_a_stacked_file_is_what_numpy_would_stack(tmp_path):
    write_pair(tmp_path / "a.npy", X, batches(Y), dtype="float16")
    np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), np.stack([X, Y]).astype("float16"))


@pytest.mark.parametrize("name", ["a.npz", "a.safetensors", "a.pt", "a.parquet"])
def test_pairs_keep_the_groups_of_both_sides(tmp_path, name):
    write_pair(tmp_path / name, X, Y, groups=(GROUPS, GROUPS[::-1]), labels=LABELS)
    pair = open_pair(tmp_path / name)
    np.testing.assert_array_equal(pair.groups[0], GROUPS)
    np.testing.assert_array_equal(pair.groups[1], GROUPS[::-1])
    np.testing.assert_array_equal(pair.x.labels, LABELS)
    np.testing.assert_array_equal(pair.y.labels, LABELS)


@pytest.mark.parametrize("name", ["a.npz", "a.safetensors", "a.pt"])
def test_sides_of_different_length_fit_into_one_file(tmp_path, name):
    write_pair(tmp_path / name, X[:4], Y, groups=(np.arange(4), LABELS))
    pair = open_pair(tmp_path / name)
    assert (pair.x.shape, pair.y.shape) == ((4, D), (N, D))
    np.testing.assert_array_equal(pair.groups[1], LABELS)


def test_clip_retrieval_folder(tmp_path):
    folder = tmp_path / "out"
    write_clip_retrieval(folder, batches(X), Y, ids=IDS, captions=CAPTIONS, shard_rows=3)
    assert sorted(path.name for path in (folder / "img_emb").iterdir()) == [
        f"img_emb_{i}.npy" for i in range(4)
    ]
    np.testing.assert_array_equal(np.load(folder / "text_emb" / "text_emb_1.npy"), Y[3:6])
    metadata = pd.read_parquet(folder / "metadata" / "metadata_3.parquet")
    assert list(metadata.image_path) == IDS[9:]
    pair = open_pair(folder)
    np.testing.assert_array_equal(pair.x.rows(), X)
    np.testing.assert_array_equal(pair.y.rows(), Y)
    assert list(pair.y.captions) == CAPTIONS
    assert list(pair.x.ids) == IDS


def test_clip_retrieval_folder_of_one_modality_without_metadata(tmp_path):
    write_clip_retrieval(tmp_path / "out", X)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["img_emb"]
    np.testing.assert_array_equal(open_embeddings(tmp_path / "out").rows(), X)


def test_bad_clip_retrieval_folders_are_not_written(tmp_path):
    with pytest.raises(InputValueError, match="as many images as texts, got 10 and 4"):
        write_clip_retrieval(tmp_path / "out", X, Y[:4], shard_rows=3)
    with pytest.raises(InputValueError, match="caption must have one entry per row of img_emb"):
        write_clip_retrieval(tmp_path / "out", X, Y, captions=CAPTIONS[:3])
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    with pytest.raises(InputValueError, match="exists already"):
        write_clip_retrieval(tmp_path / "full", X)


@pytest.mark.parametrize("name", FILES)
def test_values_that_do_not_fit_are_refused_and_nothing_is_written(tmp_path, name):
    big = X.copy()
    big[7, 1] = 1e6
    with pytest.raises(InputValueError, match=r"fit into float16, .*65504.*row 7 holds 1e\+06"):
        write_embeddings(tmp_path / name, batches(big), dtype="float16")
    assert list(tmp_path.iterdir()) == []


def test_infinities_that_were_there_already_are_kept(tmp_path):
    rows = np.array([[np.inf, np.nan, 1.0]])
    write_embeddings(tmp_path / "a.npy", rows, dtype="float32")
    np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), rows)


@pytest.mark.parametrize("name", FILES)
def test_an_interrupted_write_leaves_the_old_file(tmp_path, name):
    def interrupted():
        yield X
        raise KeyboardInterrupt

    write_embeddings(tmp_path / name, X)
    with pytest.raises(KeyboardInterrupt):
        write_embeddings(tmp_path / name, interrupted())
    assert [path.name for path in tmp_path.iterdir()] == [name]
    np.testing.assert_array_equal(open_embeddings(tmp_path / name).rows(), X)


@pytest.mark.parametrize("name", ["a.npz", "a.parquet", "a.pt"])
@pytest.mark.parametrize("ids", [IDS[:9], [*IDS, "more"]])
def test_columns_of_another_length_are_refused(tmp_path, name, ids):
    with pytest.raises(InputValueError, match=f"id must have one entry per row.*got {len(ids)}"):
        write_embeddings(tmp_path / name, batches(X), ids=ids)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("rows", "options", "error", "text"),
    [
        (X.astype(int), {}, InputTypeError, "embedding must hold float16, float32 or float64"),
        (X[0], {}, InputValueError, r"must be a matrix .* got shape \(3,\)"),
        (X[:0], {}, InputValueError, "at least one row"),
        ([], {}, InputValueError, "at least one row, got no batches"),
        ([X, X[:, :2]], {}, InputValueError, "got 3 and from row 10 2"),
        ([X[0]], {}, InputTypeError, r"got a batch of shape \(3,\)"),
        ("rows", {}, InputValueError, "There is no file or folder 'rows'"),
        (7, {}, InputTypeError, "matrix or batches of rows, got int"),
        (X, {"dtype": "int8"}, InputTypeError, "one of float16, float32, float64, got int8"),
        (X, {"dtype": "half-ish"}, InputTypeError, "one of float16, float32, float64"),
        (X, {"ids": IDS}, InputValueError, ".npy file holds only the rows, so 'id' cannot"),
        (X, {"ids": [[1], [2]]}, InputValueError, r"id must have one entry per row, got shape"),
        (X, {"ids": [object()]}, InputTypeError, "id must hold strings or numbers, got object"),
    ],
)
def test_what_cannot_be_written(tmp_path, rows, options, error, text):
    with pytest.raises(error, match=text):
        write_embeddings(tmp_path / "a.npy", rows, **options)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "texts", "groups", "message"),
    [
        ("a.txt", Y, None, r"must end in .npy, .npz.*got '.txt'"),
        ("a.npz", Y[:, :2], None, "image and text must have the same number of columns"),
        ("a.npy", Y[:4], None, "as many rows on both sides, got 10 and 4"),
        ("a.parquet", Y[:4], None, "as many rows of 'image' as of 'text'"),
        ("a.npz", Y, (GROUPS, GROUPS[:3]), "text_group must have one entry per row of text"),
    ],
)
def test_pairs_that_cannot_be_written(tmp_path, name, texts, groups, message):
    with pytest.raises(InputValueError, match=message):
        write_pair(tmp_path / name, X, texts, groups=groups)
    assert list(tmp_path.iterdir()) == []
