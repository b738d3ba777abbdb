"""Folders of rows: DataComp's `.npz` shards, and datasets of Hugging Face saved to disk."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import modgap
from modgap.core.checks import InputValueError
from modgap.io import open_embeddings, open_pair

N, DIM = 9, 4
RNG = np.random.default_rng(3)
MODELS = {"b32": DIM, "l14": 2 * DIM}
ROWS = {
    f"{model}_{side}": RNG.normal(size=(N, dim)).astype(np.float16)
    for model, dim in MODELS.items()
    for side in ("img", "txt")
}
UIDS = [f"uid{i}" for i in range(N)]


def datacomp(folder, models=("b32", "l14"), table=True):
    """A folder as DataComp publishes: shards of uneven length, the tenth after the ninth."""
    folder.mkdir(exist_ok=True)
    for name, part in {"part_9": slice(0, 5), "part_10": slice(5, N)}.items():
        arrays = {key: rows[part] for key, rows in ROWS.items() if key[:3] in models}
        np.savez_compressed(folder / f"{name}.npz", **arrays)
        if table:
            columns = {"uid": UIDS[part], "text": [f"caption {uid}" for uid in UIDS[part]]}
            pd.DataFrame(columns).to_parquet(folder / f"{name}.parquet")
    return folder


def test_shards_are_read_in_order_with_the_tables_beside_them(tmp_path):
    data = modgap.Modalities.of(datacomp(tmp_path / "one", ("l14",)))
    assert np.array_equal(data.X, ROWS["l14_img"])
    assert np.array_equal(data.Y, ROWS["l14_txt"])
    assert data.x.dtype == np.float16
    assert data.x.ids.tolist() == UIDS
    assert data.y.captions[7] == "caption uid7"
    assert data.pairing == "row by row, the ids agree"
    assert np.array_equal(data.x.take([8, 2]), ROWS["l14_img"][[8, 2]])
    named = modgap.Embeddings.of(tmp_path / "one", "text")
    assert np.array_equal(named.rows(), ROWS["l14_txt"])


def test_one_of_several_models_is_chosen_by_name(tmp_path):
    folder = datacomp(tmp_path / "both")
    with pytest.raises(
        InputValueError,
        match=r"rows of several models: b32, l14\. .*x_column='l14_img', y_column='l14_txt'"
        r".*--x-column l14_img --y-column l14_txt",
    ):
        modgap.measure(folder)
    chosen = open_pair(folder, x_column="b32_img", y_column="b32_txt")
    assert np.array_equal(chosen.Y, ROWS["b32_txt"])
    assert np.array_equal(open_embeddings(folder, column="l14_img").rows(), ROWS["l14_img"])


def test_shards_without_tables_have_no_ids(tmp_path):
    data = modgap.Modalities.of(datacomp(tmp_path / "bare", ("b32",), table=False))
    assert data.x.ids is None
    assert np.array_equal(data.X, ROWS["b32_img"])


def test_shards_that_contradict_each_other_are_refused(tmp_path):
    folder = datacomp(tmp_path / "short")
    pd.DataFrame({"uid": UIDS[:3]}).to_parquet(folder / "part_9.parquet")
    with pytest.raises(InputValueError, match=r"part_9\.npz and part_9\.parquet must have"):
        modgap.measure(folder)
    (folder / "part_9.parquet").unlink()
    with pytest.raises(InputValueError, match=r"part_9\.npz has no table part_9\.parquet"):
        modgap.measure(folder)


def test_parquet_shards_beside_an_unrelated_npz_are_read_as_before(tmp_path):
    frame = pd.DataFrame({"image": list(ROWS["b32_img"]), "text": list(ROWS["b32_txt"])})
    frame.to_parquet(tmp_path / "rows.parquet")
    np.savez(tmp_path / "statistics.npz", mean=np.zeros(3))
    assert np.array_equal(open_pair(tmp_path).X, ROWS["b32_img"])


@pytest.fixture
def dataset():
    datasets = pytest.importorskip("datasets", reason="datasets is not installed")
    datasets.disable_progress_bars()
    columns = {"image": list(ROWS["b32_img"]), "text": list(ROWS["b32_txt"])}
    rows = {name: [row.astype(float).tolist() for row in held] for name, held in columns.items()}
    return datasets.Dataset.from_dict({"id": UIDS, **rows})


def test_a_dataset_saved_to_disk_is_read(dataset, tmp_path):
    dataset.save_to_disk(tmp_path / "saved", num_shards=2)
    data = modgap.Modalities.of(tmp_path / "saved")
    assert np.array_equal(data.X, ROWS["b32_img"])
    assert data.x.ids.tolist() == UIDS
    assert np.array_equal(data.y.take([8, 0]), ROWS["b32_txt"][[8, 0]])


def test_a_saved_dataset_of_several_splits_asks_which(dataset, tmp_path):
    import datasets

    splits = datasets.DatasetDict({"train": dataset, "test": dataset.select([0, 1])})
    splits.save_to_disk(tmp_path / "splits")
    with pytest.raises(InputValueError, match=r"the splits 'train', 'test'\. .*splits/train"):
        modgap.measure(tmp_path / "splits")
    assert open_pair(tmp_path / "splits" / "test").x.n_rows == 2
    datasets.DatasetDict({"train": dataset}).save_to_disk(tmp_path / "one")
    assert open_pair(tmp_path / "one").x.n_rows == N


def test_a_damaged_or_empty_saved_dataset_is_refused(dataset, tmp_path):
    dataset.select([]).save_to_disk(tmp_path / "empty")
    with pytest.raises(InputValueError, match="at least one row, got none"):
        modgap.measure(tmp_path / "empty")
    dataset.save_to_disk(tmp_path / "saved")
    (file,) = (tmp_path / "saved").glob("*.arrow")
    opened = open_pair(tmp_path / "saved")
    file.write_bytes(file.read_bytes()[:300])
    with pytest.raises(InputValueError, match="changed while it was read"):
        opened.x.rows()
    with pytest.raises(InputValueError, match="cannot be read as an Arrow stream"):
        modgap.measure(tmp_path / "saved")
