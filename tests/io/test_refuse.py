"""Files that cannot be used are refused in one clear sentence, and never run code."""

from __future__ import annotations

import pickle
import sys
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import safetensors.numpy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from modgap.core.checks import InputError, InputTypeError, InputValueError, MissingExtraError
from modgap.io import Embeddings, open_embeddings, open_pair

torch = pytest.importorskip("torch")

X = np.random.default_rng(0).normal(size=(200, 8)).astype(np.float32)

SAVERS = {
    "a.npy": lambda path: np.save(path, X),
    "a.npz": lambda path: np.savez(path, v=X),
    "compressed.npz": lambda path: np.savez_compressed(path, v=X),
    "a.safetensors": lambda path: safetensors.numpy.save_file({"v": X}, path),
    "a.pt": lambda path: torch.save(torch.from_numpy(X), path),
    "legacy.pt": lambda path: torch.save(
        torch.from_numpy(X), path, _use_new_zipfile_serialization=False
    ),
    "a.parquet": lambda path: pq.write_table(pa.table({"v": list(X)}), path),
}


@cache
def _saved(name):
    """The file once: torch's old format holds an address of memory, so two may differ in length."""
    with TemporaryDirectory() as folder:
        SAVERS[name](Path(folder) / name)
        return (Path(folder) / name).read_bytes()


def read_all(path):
    opened = open_embeddings(path)
    opened.rows()
    opened.take([0, opened.n_rows - 1])
    list(opened.batches(50))


def refusal(path):
    try:
        read_all(path)
    except InputError as error:
        return error
    return None


@pytest.mark.parametrize("name", SAVERS)
@pytest.mark.parametrize("kept", [0.02, 0.5, 0.99])
def test_files_cut_short(tmp_path, name, kept):
    SAVERS[name](tmp_path / name)
    data = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(data[: int(len(data) * kept)])
    with pytest.raises(InputValueError, match=rf"{name}.*(cut short|no torch file)"):
        read_all(tmp_path / name)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize(
    "read",
    [
        lambda opened: opened.rows(),
        lambda opened: opened.take([0, 1]),
        lambda opened: list(opened.batches(7)),
        lambda opened: pickle.loads(pickle.dumps(opened.matrix)).rows(),
    ],
)
def test_a_damaged_number_of_an_npz_file_is_refused(tmp_path, save, order, read):
    path = tmp_path / "a.npz"
    save(path, v=np.asarray(X, order=order))
    read(open_embeddings(path))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x10
    path.write_bytes(data)
    with pytest.raises(InputValueError, match=r"a\.npz"):
        read(open_embeddings(path))


@pytest.mark.parametrize("name", SAVERS)
def test_empty_files(tmp_path, name):
    (tmp_path / name).touch()
    with pytest.raises(InputValueError, match=rf"{name} is empty \(0 bytes\)"):
        open_embeddings(tmp_path / name)


@pytest.mark.parametrize("name", SAVERS)
def test_files_of_another_kind(tmp_path, name):
    (tmp_path / name).write_text("version https://git-lfs.github.com/spec/v1\n" * 9)
    with pytest.raises(InputValueError, match=rf"{name}.*(of another kind|no torch file)"):
        open_embeddings(tmp_path / name)


@pytest.mark.parametrize("name", SAVERS)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_damaged_file_is_read_or_refused_never_a_crash(tmp_path, name, data):
    path = tmp_path / name
    damaged = bytearray(_saved(name))
    # The first and the last bytes hold the headers and footers, where damage does most.
    near_an_end = st.integers(0, 300) | st.integers(len(damaged) - 300, len(damaged) - 1)
    for place in data.draw(st.lists(near_an_end, min_size=1, max_size=4)):
        damaged[place] = data.draw(st.integers(0, 255))
    path.write_bytes(damaged)
    assert refusal(path) is None or name in str(refusal(path))


class Bomb:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def test_pickles_never_run(tmp_path):
    trace = tmp_path / "trace"
    torch.save({"v": Bomb(trace)}, tmp_path / "bomb.pt")
    (tmp_path / "raw.pt").write_bytes(pickle.dumps(Bomb(trace)))
    (tmp_path / "raw.npy").write_bytes(pickle.dumps(Bomb(trace)))
    np.save(tmp_path / "bomb.npy", np.array([[Bomb(trace)]], object))
    np.savez(tmp_path / "bomb.npz", v=np.array([[Bomb(trace)]], object))
    for name in ("bomb.pt", "raw.pt", "raw.npy", "bomb.npy", "bomb.npz"):
        with pytest.raises(InputError, match=name):
            read_all(tmp_path / name)
    assert not trace.exists()
    pickle.loads((tmp_path / "raw.pt").read_bytes())
    assert trace.exists()  # it would have


def test_python_objects_are_named_as_such(tmp_path):
    np.save(tmp_path / "a.npy", np.array([[1.0, "a"]], object))
    with pytest.raises(InputTypeError, match=r"got Python objects.*pickle and never loaded"):
        open_embeddings(tmp_path / "a.npy")
    torch.save({"v": X}, tmp_path / "a.pt")  # a NumPy array inside
    with pytest.raises(InputValueError, match="must hold only tensors, strings and numbers"):
        open_embeddings(tmp_path / "a.pt")
    np.savez(tmp_path / "a.npz", v=X, captions=np.array(["a"] * 200, object))
    opened = open_embeddings(tmp_path / "a.npz")
    np.testing.assert_array_equal(opened.rows(), X)
    with pytest.raises(InputTypeError, match=r"'captions' of .*a.npz holds Python objects"):
        _ = opened.captions


def test_paths_that_lead_nowhere(tmp_path):
    with pytest.raises(InputValueError, match=r"There is no file or folder '.*missing.npy'"):
        open_embeddings(tmp_path / "missing.npy")
    (tmp_path / "a.csv").write_text("1,2")
    with pytest.raises(
        InputValueError,
        match=r"must end in .npy, .npz, .safetensors, .pt, .pth, .parquet, .*'.csv'\. Read it to a "
        r"table and pass that: pandas\.read_csv",
    ):
        open_embeddings(tmp_path / "a.csv")
    with pytest.raises(InputValueError, match=r"folder of .parquet, .npy or .npz shards"):
        open_embeddings(tmp_path)


@pytest.mark.parametrize(
    ("dtype", "text"),
    [
        ("int64", "got int64. Convert the rows to float32"),
        ("bool", "got bool"),
        ("complex64", "got complex64. Take the real part"),
    ],
)
def test_numbers_that_are_no_embeddings(tmp_path, dtype, text):
    rows = X.astype(dtype)
    np.save(tmp_path / "a.npy", rows)
    np.savez(tmp_path / "a.npz", v=rows)
    torch.save(torch.from_numpy(rows), tmp_path / "a.pt")
    names = ["a.npy", "a.npz", "a.pt"]
    if dtype != "complex64":
        safetensors.numpy.save_file({"v": rows}, tmp_path / "a.safetensors")
        pq.write_table(pa.table({"v": list(rows)}), tmp_path / "a.parquet")
        names += ["a.safetensors", "a.parquet"]
    for name in names:
        with pytest.raises(InputTypeError, match=f"{name} must hold .*{text}"):
            open_embeddings(tmp_path / name)


@pytest.mark.skipif(np.dtype(np.longdouble).itemsize == 8, reason="long double is float64 here")
def test_long_doubles(tmp_path):
    np.save(tmp_path / "a.npy", X.astype(np.longdouble))
    with pytest.raises(InputTypeError, match="float16, float32 or float64, got float128"):
        open_embeddings(tmp_path / "a.npy")


@pytest.mark.parametrize("name", ["a.npy", "a.pt"])
@pytest.mark.parametrize(
    ("shape", "text"),
    [
        ((6,), r"must be a matrix with one row per item, got shape \(6,\)"),
        ((3, 2, 4), r"must be a matrix with one row per item, got shape \(3, 2, 4\)"),
        ((2, 3, 4), r"holds two modalities of shape \(3, 4\), where one is expected. Choose one"),
        ((0, 4), "at least one row"),
        ((4, 0), "at least one row and one column"),
    ],
)
def test_shapes_that_are_no_matrix(tmp_path, name, shape, text):
    rows = np.zeros(shape, np.float32)
    np.save(tmp_path / "a.npy", rows)
    torch.save(torch.from_numpy(rows), tmp_path / "a.pt")
    with pytest.raises(InputValueError, match=text):
        open_embeddings(tmp_path / name)


def test_columns_that_are_not_there(tmp_path):
    np.savez(tmp_path / "a.npz", image_features=X, text_features=X, labels=np.arange(200))
    with pytest.raises(
        InputValueError,
        match=r"has no 'image_feature'. Did you mean 'image_features'\? It holds "
        r"'image_features' \(200, 8\) float32, .*'labels' \(200,\) int64",
    ):
        open_embeddings(tmp_path / "a.npz", column="image_feature")
    with pytest.raises(InputValueError, match="more than one matrix: 'image_features', 'text_fea"):
        open_embeddings(tmp_path / "a.npz")
    with pytest.raises(InputValueError, match=r"'labels' of .* must be a matrix"):
        open_embeddings(tmp_path / "a.npz", column="labels")
    pq.write_table(pa.table({"a": [1.0], "b": [2.0]}), tmp_path / "a.parquet")
    with pytest.raises(InputValueError, match=r"must hold a matrix of floats.*It holds 'a'"):
        open_embeddings(tmp_path / "a.parquet")


def test_columns_of_another_length(tmp_path):
    np.savez(tmp_path / "a.npz", v=X, labels=np.arange(7))
    opened = open_embeddings(tmp_path / "a.npz")
    with pytest.raises(
        InputValueError, match=r"labels of .*a.npz must have one entry per row: 200"
    ):
        _ = opened.labels
    with pytest.raises(InputValueError, match="ids of array must have one entry per row"):
        Embeddings.from_array(X, ids=[1])


FLOATS = pa.list_(pa.float32())


@pytest.mark.parametrize(
    ("column", "text"),
    [
        (pa.array([[1, 2], [3, 4], [5]], FLOATS), "same length: row 0 .* has 2, row 2 has 1"),
        (pa.array([[1, 2], [3], [4, 5, 6]], FLOATS), "same length: row 0 .* has 2, row 1 has 1"),
        (pa.array([[1, 2], None, [5, 6]], FLOATS), "row 1 is or holds a null"),
        (pa.array([None, [1, 2], [5, 6]], FLOATS), "row 0 is or holds a null"),
        (pa.array([[1, 2], [3, 4], [5, None]], FLOATS), "row 2 is or holds a null"),
        (pa.array([[1, 2], None], pa.list_(pa.float32(), 2)), "row 1 is or holds a null"),
        (pa.array([[], []], FLOATS), "at least one row and one column"),
    ],
)
@pytest.mark.parametrize("row_group_size", [1, 100])
def test_lists_that_are_no_matrix(tmp_path, column, text, row_group_size):
    pq.write_table(pa.table({"v": column}), tmp_path / "a.parquet", row_group_size=row_group_size)
    with pytest.raises(InputValueError, match=text):
        read_all(tmp_path / "a.parquet")


@pytest.mark.parametrize("ragged", ["x", "y"])
def test_rows_of_several_lengths_are_not_taken_for_another_model(tmp_path, ragged):
    for name in ("x", "y"):
        lengths = [5, 8, 3, 8] if name == ragged else [8] * 4
        lists = pa.array([[1.0] * length for length in lengths], FLOATS)
        pq.write_table(pa.table({"v": lists}), tmp_path / f"{name}.parquet")
    with pytest.raises(
        InputValueError, match=rf"{ragged}\.parquet must have the same length: row 0"
    ):
        open_pair(tmp_path / "x.parquet", tmp_path / "y.parquet")


def test_lists_of_something_else(tmp_path):
    for values, text in (([["a"]], "got object"), ([[[1.0]]], "got object")):
        pq.write_table(pa.table({"v": values}), tmp_path / "a.parquet")
        with pytest.raises(InputTypeError, match=text):
            open_embeddings(tmp_path / "a.parquet")
    pq.write_table(pa.table({"v": pa.array([], FLOATS)}), tmp_path / "none.parquet")
    with pytest.raises(InputValueError, match=r"none.parquet must have at least one row"):
        open_embeddings(tmp_path / "none.parquet")


def test_parquet_shards_that_do_not_fit_together(tmp_path):
    pq.write_table(pa.table({"v": list(X)}), tmp_path / "0.parquet")
    pq.write_table(pa.table({"v": list(X[:, :3])}), tmp_path / "1.parquet")
    with pytest.raises(InputValueError, match=r"same number of columns: 0.parquet .*1.parquet has"):
        open_embeddings(tmp_path)
    pq.write_table(pa.table({"w": list(X)}), tmp_path / "1.parquet")
    with pytest.raises(
        InputValueError, match=r"same arrays and .*0.parquet has 'v' .*1.parquet has 'w'"
    ):
        open_embeddings(tmp_path)
    pq.write_table(pa.table({"v": X[:, 0]}), tmp_path / "1.parquet")
    with pytest.raises(
        InputValueError, match=r"same arrays and .*1.parquet has 'v' \(200,\) float"
    ):
        open_embeddings(tmp_path)


def test_clip_retrieval_folders_that_do_not_fit_together(tmp_path):
    images, texts, metadata = (tmp_path / name for name in ("img_emb", "text_emb", "metadata"))
    images.mkdir()
    with pytest.raises(InputValueError, match=r"img_emb must hold .npy files, got none"):
        open_pair(tmp_path)
    np.save(images / "img_emb_0.npy", X)
    with pytest.raises(InputValueError, match="must hold two modalities, got 'img_emb'"):
        open_pair(tmp_path)
    np.save(images / "img_emb_1.npy", X[:, :3])
    with pytest.raises(InputValueError, match=r"img_emb_0.npy has shape .*img_emb_1.npy has shape"):
        open_pair(tmp_path)
    np.save(images / "img_emb_1.npy", X)
    texts.mkdir()
    np.save(texts / "text_emb_0.npy", X)
    with pytest.raises(InputValueError, match="but img_emb has 400, text_emb has 200"):
        open_pair(tmp_path)
    np.save(texts / "text_emb_1.npy", X)
    metadata.mkdir()
    pq.write_table(pa.table({"caption": ["a"] * 7}), metadata / "metadata_0.parquet")
    with pytest.raises(InputValueError, match="text_emb has 400, metadata has 7"):
        open_pair(tmp_path)


def test_torch_files_of_something_else(tmp_path):
    torch.save("words", tmp_path / "a.pt")
    with pytest.raises(InputTypeError, match=r"must hold a tensor, a dict of tensors.* got str"):
        open_embeddings(tmp_path / "a.pt")
    torch.save(torch.eye(3).to_sparse(), tmp_path / "a.pt")
    with pytest.raises(InputTypeError, match=r"must be a dense tensor, got torch.sparse_coo"):
        open_embeddings(tmp_path / "a.pt")
    torch.save(torch.eye(3).to(torch.float8_e5m2), tmp_path / "a.pt")
    with pytest.raises(InputTypeError, match="float32 or float64, got float8_e5m2"):
        open_embeddings(tmp_path / "a.pt")


def test_safetensors_of_eight_bits(tmp_path):
    import safetensors.torch

    tensors = {"v": torch.eye(3).to(torch.float8_e5m2)}
    safetensors.torch.save_file(tensors, tmp_path / "a.safetensors")
    with pytest.raises(InputTypeError, match="float32 or float64, got F8_E5M2"):
        open_embeddings(tmp_path / "a.safetensors")


def test_torch_files_without_torch(tmp_path, monkeypatch):
    torch.save(torch.eye(3), tmp_path / "a.pt")
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'modgap\[torch\]'"):
        open_embeddings(tmp_path / "a.pt")


def test_rows_that_are_not_there():
    rows = Embeddings.from_array(X)
    with pytest.raises(InputValueError, match="row numbers from 0 to 199, got 200"):
        rows.take([0, 200])
    with pytest.raises(InputValueError, match="row numbers from 0 to 199, got -1"):
        rows.take([-1])
    with pytest.raises(InputTypeError, match="list of row numbers, got bool"):
        rows.take(np.ones(200, bool))
    with pytest.raises(InputValueError, match="size must be at least 1, got 0"):
        rows.batches(0)
