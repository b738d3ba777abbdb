"""Files that change while they are read: one sentence that names them, never a kill."""

from __future__ import annotations

import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import safetensors.numpy

from modgap.core.steady_file import ChangedFileError, SteadyFile
from modgap.core.tensor_file import read_tensors, write_tensors
from modgap.io import open_embeddings, open_pair
from modgap.io.group_labels import read_labels

torch = pytest.importorskip("torch")

# Larger than a page and than what readers hold ahead: a map of it would be read from the file.
X = np.random.default_rng(0).normal(size=(40_000, 16)).astype(np.float32)
BATCH = 1_000


def save_shards(path):
    np.save(path.with_name("img_emb_0.npy"), X[:10])
    np.save(path, X)


def save_parquet(path):
    table = pa.table({"v": pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), 16)})
    pq.write_table(table, path, row_group_size=10_000)


SAVERS = {
    "a.npy": lambda path: np.save(path, X),
    "fortran.npy": lambda path: np.save(path, np.asfortranarray(X)),
    "swapped.npy": lambda path: np.save(path, X.astype(">f4")),
    "a.npz": lambda path: np.savez(path, v=X),
    "compressed.npz": lambda path: np.savez_compressed(path, v=X),
    "a.safetensors": lambda path: safetensors.numpy.save_file({"v": X}, path),
    "a.pt": lambda path: torch.save(torch.from_numpy(X), path),
    "half.pt": lambda path: torch.save(torch.from_numpy(X).bfloat16(), path),
    "a.parquet": save_parquet,
    "clip/img_emb/img_emb_1.npy": save_shards,
}


def saved(tmp_path, name):
    """The file, and what is opened: itself or its folder."""
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    SAVERS[name](path)
    return path, tmp_path / "clip" if name.startswith("clip") else path


@pytest.mark.parametrize("name", SAVERS)
@pytest.mark.parametrize("how", ["batches", "rows", "take"])
def test_a_file_that_shrinks_is_one_sentence(tmp_path, name, how):
    path, given = saved(tmp_path, name)
    opened = open_embeddings(given)
    batches = opened.batches(BATCH)
    first = next(batches)
    os.truncate(path, 5_000)
    first.sum()  # what was given out is a copy
    go_on = {
        "batches": lambda: list(batches),
        "rows": opened.rows,
        "take": lambda: opened.take([opened.n_rows - 1, 30, 2]),
    }
    with pytest.raises(ChangedFileError, match=r"changed while it was read.*5,000 now.*Start"):
        go_on[how]()
    with pytest.raises(ChangedFileError, match=path.name):
        opened.moments("image")


def test_both_sides_of_a_stacked_file_are_watched(tmp_path):
    for name, stacked in (("c.npy", np.stack([X, -X])), ("f.npy", np.asfortranarray([X, -X]))):
        np.save(tmp_path / name, stacked)
        pair = open_pair(tmp_path / name)
        np.testing.assert_array_equal(pair.y.rows(), -X)
        np.testing.assert_array_equal(pair.x.take([5, 5, 39_999, 0]), X[[5, 5, 39_999, 0]])
        os.truncate(tmp_path / name, 5_000)
        for side in (pair.x, pair.y):
            with pytest.raises(ChangedFileError, match="5,000 now"):
                side.take([39_999])


def test_a_file_that_is_replaced_written_to_or_removed(tmp_path):
    path = tmp_path / "a.npy"
    np.save(path, X)
    opened, state = open_embeddings(path), SteadyFile(path)
    state.check()
    np.save(tmp_path / "b.npy", -X)
    os.replace(tmp_path / "b.npy", path)
    with pytest.raises(ChangedFileError, match=r"a\.npy changed .* another file took its place"):
        opened.take([0])
    opened = open_embeddings(path)
    with path.open("r+b") as file:
        file.seek(1_000)
        file.write(b"1234")
    os.utime(path, ns=(1, 1))
    with pytest.raises(ChangedFileError, match="it was written to"):
        next(opened.batches())
    opened = open_embeddings(path)
    path.unlink()
    with pytest.raises(ChangedFileError, match="was removed or renamed"):
        opened.rows()


def test_rows_that_were_read_whole_outlive_their_file(tmp_path):
    for name in SAVERS:
        path, given = saved(tmp_path, name)
        opened = open_embeddings(given)
        whole = opened.rows()
        os.truncate(path, 100)
        assert np.isfinite(whole).all()


def test_labels_and_columns_outlive_their_file(tmp_path):
    np.save(tmp_path / "labels.npy", np.arange(40_000))
    torch.save({"v": torch.from_numpy(X), "ids": torch.arange(40_000)}, tmp_path / "a.pt")
    labels = read_labels(tmp_path / "labels.npy")
    ids = open_embeddings(tmp_path / "a.pt").ids
    for name in ("labels.npy", "a.pt"):
        os.truncate(tmp_path / name, 100)
    assert labels[-1] == ids[-1] == 39_999


def test_modgaps_own_files_are_read_without_a_map(tmp_path):
    path = tmp_path / "own.safetensors"
    write_tensors(path, "thing", {"a": X, "none": np.empty((0, 3)), "one": np.array(7)}, {})
    _, tensors = read_tensors(path, "thing")
    os.truncate(path, 100)
    np.testing.assert_array_equal(tensors["a"], X)
    assert tensors["none"].shape == (0, 3)
    assert tensors["one"] == 7
