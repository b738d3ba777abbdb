"""Lance datasets: a part for each fragment, of the version that was opened."""

from __future__ import annotations

import pickle
import shutil

import numpy as np
import pyarrow as pa
import pytest

from modgap.core.checks import InputValueError
from modgap.io import BadShardsWarning, open_embeddings, open_pair

lance = pytest.importorskip("lance", reason="pylance is not installed")

DIM = 6
X = np.random.default_rng(8).normal(size=(90, DIM)).astype(np.float32)


def table(X, Y):
    sides = {
        name: pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), rows.shape[1])
        for name, rows in {"image": X, "text": Y}.items()
    }
    return pa.table({"id": [f"row {i}" for i in range(len(X))], **sides})


@pytest.fixture
def dataset(tmp_path):
    path = tmp_path / "rows.lance"
    lance.write_dataset(table(X, -X), path, max_rows_per_file=40)
    return path


def test_rows_batches_and_parts(dataset):
    data = open_pair(dataset)
    np.testing.assert_array_equal(data.X, X)
    np.testing.assert_array_equal(np.concatenate(list(data.y.batches(37))), -X)
    np.testing.assert_array_equal(data.x.take([89, 2, 2, 41]), X[[89, 2, 2, 41]])
    assert data.pairing == "row by row, the ids agree"
    parts = data.x.matrix.shards()
    assert [part.shape[0] for part in parts] == [40, 40, 10]
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(parts[1])).rows(), X[40:80])


def test_who_writes_meanwhile_disturbs_nobody(dataset):
    opened = open_embeddings(dataset, column="image")
    lance.dataset(dataset).delete("id = 'row 3'")
    np.testing.assert_array_equal(opened.rows(), X)
    now = open_embeddings(dataset, column="image")
    np.testing.assert_array_equal(now.rows(), np.delete(X, 3, axis=0))
    np.testing.assert_array_equal(now.take([3, 0]), X[[4, 0]])
    assert now.ids[3] == "row 4"


def test_a_dataset_without_the_ending_and_a_folder_of_several(dataset, tmp_path):
    shutil.copytree(dataset, tmp_path / "plain" / "rows")
    assert open_pair(tmp_path / "plain" / "rows").x.n_rows == 90
    with pytest.raises(InputValueError, match=r"Lance datasets 'rows\.lance'\. Give the path"):
        open_pair(tmp_path)


def test_a_fragment_that_is_damaged_is_named_or_left_out(dataset):
    second = lance.dataset(dataset).get_fragments()[1].data_files()[0].path
    path = dataset / "data" / second
    path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(InputValueError, match=r"fragment 1 of .*rows\.lance"):
        open_pair(dataset).X.sum()
    with pytest.warns(BadShardsWarning, match="1 of 3 shards .*fragment 1"):
        left = open_pair(dataset, bad_shards="skip")
    np.testing.assert_array_equal(left.X, np.delete(X, np.s_[40:80], axis=0))


def test_what_is_no_dataset_is_one_sentence(tmp_path):
    (tmp_path / "no.lance").mkdir()
    with pytest.raises(InputValueError, match=r"no\.lance cannot be read as a Lance dataset"):
        open_pair(tmp_path / "no.lance")
    with pytest.raises(InputValueError, match=r"There is no file or folder .*none\.lance"):
        open_pair(tmp_path / "none.lance")
    ragged = pa.table({"v": pa.array([[1.0, 2.0], [1.0]], pa.list_(pa.float32()))})
    lance.write_dataset(ragged, tmp_path / "ragged.lance")
    with pytest.raises(InputValueError, match="must have the same length"):
        open_embeddings(tmp_path / "ragged.lance").rows()
