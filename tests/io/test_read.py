"""Files of every kind, written by the libraries that own the formats, read back equal."""

from __future__ import annotations

import gc
import time
from io import BytesIO

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import safetensors.numpy
from hypothesis import given
from hypothesis import strategies as st

from modgap.core.threads import ahead
from modgap.io import open_embeddings, open_pair
from modgap.io.formats.npy import read_header

torch = pytest.importorskip("torch")

N, D = 23, 5


def rows(n=N, d=D, dtype="float32", seed=0):
    return np.random.default_rng(seed).normal(size=(n, d)).astype(dtype)


def fixed_lists(X):
    return pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), X.shape[1])


def large_lists(X):
    return pa.array(list(X), pa.large_list(pa.from_numpy_dtype(X.dtype)))


def save_pandas(path, X):
    pd.DataFrame({"embedding": list(X)}).to_parquet(path)


def save_shards(path, X):
    path.mkdir()
    for number, part in enumerate(np.array_split(X, 11)):
        pq.write_table(pa.table({"v": fixed_lists(part)}), path / f"part-{number}.parquet")


def save_npy_shards(path, X):
    path.mkdir()
    for number, part in enumerate(np.array_split(X, 11)):
        np.save(path / f"img_emb_{number}.npy", part)


def save_parquet(make, **options):
    return lambda path, X: pq.write_table(pa.table({"v": make(X)}), path, **options)


WRITERS = {
    "npy": ("a.npy", np.save),
    "npy, Fortran order": ("a.npy", lambda path, X: np.save(path, np.asfortranarray(X))),
    "npy, big-endian": (
        "a.npy",
        lambda path, X: np.save(path, X.astype(X.dtype.newbyteorder(">"))),
    ),
    "npz": ("a.npz", lambda path, X: np.savez(path, v=X, scale=100.0)),
    "npz, compressed": ("a.npz", lambda path, X: np.savez_compressed(path, v=X)),
    "npz, compressed, Fortran": (
        "a.npz",
        lambda path, X: np.savez_compressed(path, v=np.asfortranarray(X)),
    ),
    "safetensors": ("a.safetensors", lambda path, X: safetensors.numpy.save_file({"v": X}, path)),
    "torch": ("a.pt", lambda path, X: torch.save(torch.from_numpy(X), path)),
    "torch, dict": ("a.pth", lambda path, X: torch.save({"v": torch.from_numpy(X)}, path)),
    "torch, before 1.6": (
        "a.pt",
        lambda path, X: torch.save(torch.from_numpy(X), path, _use_new_zipfile_serialization=False),
    ),
    "torch, transposed, with grad": (
        "a.pt",
        lambda path, X: torch.save(torch.from_numpy(X.T.copy()).T.requires_grad_(), path),
    ),
    "parquet, fixed": ("a.parquet", save_parquet(fixed_lists)),
    "parquet, lists": ("a.parquet", save_parquet(lambda X: pa.array(list(X)))),
    "parquet, large lists": ("a.parquet", save_parquet(large_lists)),
    "parquet, row groups": ("a.parquet", save_parquet(fixed_lists, row_group_size=4)),
    "parquet, pandas": ("a.parquet", save_pandas),
    "parquet, shards": ("shards", save_shards),
    "npy, shards": ("img_emb", save_npy_shards),
}
FORMATS = pytest.mark.parametrize(("name", "write"), WRITERS.values(), ids=WRITERS)


@FORMATS
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_each_format_reads_back_what_its_library_wrote(tmp_path, name, write, dtype):
    X = rows(dtype=dtype)
    write(tmp_path / name, X)
    got = open_embeddings(tmp_path / name)
    assert (got.shape, got.n_rows, got.dim) == (X.shape, N, D)
    assert got.dtype == X.dtype
    assert got.source == str(tmp_path / name)
    assert got.rows().dtype == X.dtype
    np.testing.assert_array_equal(got.rows(), X)
    batches = list(got.batches(4))
    np.testing.assert_array_equal(np.concatenate(batches), X)
    assert {b.dtype for b in batches} == {X.dtype}
    for indices in (np.array([3], np.uint8), []):
        np.testing.assert_array_equal(got.take(indices), X[np.array(indices, dtype=int)])
    assert (got.ids, got.captions, got.labels, got.groups) == (None, None, None, None)


@pytest.fixture(scope="module")
def one_of_each(tmp_path_factory):
    opened = []
    for case, (name, write) in WRITERS.items():
        path = tmp_path_factory.mktemp(case.replace(", ", "-").replace(" ", "-")) / name
        write(path, rows())
        opened.append(open_embeddings(path))
    return opened


@given(size=st.integers(1, N + 3), indices=st.lists(st.integers(0, N - 1)))
def test_batches_and_rows_taken_are_the_whole(one_of_each, size, indices):
    X = rows()
    for opened in one_of_each:
        batches = list(opened.batches(size))
        assert [len(b) for b in batches[:-1]] == [size] * (len(batches) - 1)
        np.testing.assert_array_equal(np.concatenate(batches), X)
        np.testing.assert_array_equal(opened.take(indices), X[np.array(indices, dtype=int)])


def test_whole_rows_are_read_once_while_they_are_held_and_cannot_be_written_to(tmp_path):
    np.save(tmp_path / "a.npy", rows())
    np.savez(tmp_path / "a.npz", rows())
    safetensors.numpy.save_file({"v": rows()}, tmp_path / "a.safetensors")
    torch.save(torch.from_numpy(rows()), tmp_path / "a.pt")
    for name in ("a.npy", "a.npz", "a.safetensors", "a.pt"):
        got = open_embeddings(tmp_path / name)
        whole = got.rows()
        assert got.rows() is whole
        assert not whole.flags.writeable


def test_a_file_larger_than_memory_can_be_opened_and_sampled(tmp_path):
    n = 2**26  # 64 GiB
    with (tmp_path / "big.npy").open("wb") as file:
        header = {"descr": "<f2", "fortran_order": False, "shape": (n, 512)}
        np.lib.format.write_array_header_1_0(file, header)
        file.truncate(file.tell() + n * 1024)
    big = open_embeddings(tmp_path / "big.npy")
    assert big.shape == (n, 512)
    assert not big.take([0, n - 1]).any()
    assert next(big.batches()).shape == (8192, 512)


@pytest.mark.parametrize("name", ["a.pt", "a.safetensors"])
def test_bfloat16_is_read_as_float32(tmp_path, name):
    import safetensors.torch

    tensor = torch.from_numpy(rows()).bfloat16()
    if name == "a.pt":
        torch.save(tensor, tmp_path / name)
    else:
        safetensors.torch.save_file({"v": tensor}, tmp_path / name)
    got = open_embeddings(tmp_path / name)
    assert got.dtype == np.float32
    expected = tensor.float().numpy()
    np.testing.assert_array_equal(got.rows(), expected)
    np.testing.assert_array_equal(np.concatenate(list(got.batches(4))), expected)
    np.testing.assert_array_equal(got.take([4, 2]), expected[[4, 2]])


def test_the_column_can_be_chosen(tmp_path):
    X, Y = rows(), rows(seed=1)
    np.savez(tmp_path / "a.npz", image=X, other=Y, counts=np.ones((N, 2), int))
    np.testing.assert_array_equal(open_embeddings(tmp_path / "a.npz", column="other").rows(), Y)
    np.save(tmp_path / "stack.npy", np.stack([X, Y]))
    np.testing.assert_array_equal(open_embeddings(tmp_path / "stack.npy", column="1").rows(), Y)


def test_integers_beside_the_rows_are_not_taken_for_them(tmp_path):
    np.savez(tmp_path / "a.npz", tokens=np.ones((N, 7), int), features=rows())
    np.testing.assert_array_equal(open_embeddings(tmp_path / "a.npz").rows(), rows())


IDS = [f"id {i}" for i in range(N)]
CAPTIONS = [f"a caption, {'long ' * i}" for i in range(N)]
LABELS = np.arange(N) % 3
YEARS = 1990 + np.arange(N)
SOURCES = [f"source {i % 3}" for i in range(N)]
GROUPS = np.arange(N) // 2


def save_columns_npz(path):
    np.savez(
        path,
        v=rows(),
        ids=IDS,
        captions=np.array(CAPTIONS, "S"),
        labels=LABELS,
        groups=GROUPS,
        year=YEARS,
        source=np.array(SOURCES, "S"),
    )


def save_columns_torch(path):
    labels = torch.from_numpy(LABELS)
    columns = {"ids": IDS, "texts": CAPTIONS, "labels": labels, "groups": GROUPS.tolist()}
    fields = {"year": torch.tensor(YEARS), "source": SOURCES}
    torch.save({"v": torch.from_numpy(rows()), **columns, **fields}, path)


def columns_table():
    captions, source = (pa.array(one).dictionary_encode() for one in (CAPTIONS, SOURCES))
    columns = {"id": IDS, "caption": captions, "label": LABELS, "group": GROUPS}
    return pa.table({"v": fixed_lists(rows()), **columns, "year": YEARS, "source": source})


def save_columns_parquet(path):
    pq.write_table(columns_table(), path, row_group_size=6)


def save_columns_shards(path):
    path.mkdir()
    for part in (slice(0, 7), slice(7, N)):
        pq.write_table(columns_table()[part], path / f"{part.start}.parquet")


def save_columns_pandas(path):
    columns = {"id": IDS, "text": CAPTIONS, "label": LABELS, "group": GROUPS}
    columns |= {"year": YEARS, "source": SOURCES}
    pd.DataFrame({"v": list(rows()), **columns}, index=np.arange(N) * 2).to_parquet(path)


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("a.npz", save_columns_npz),
        ("a.pt", save_columns_torch),
        ("a.parquet", save_columns_parquet),
        ("b.parquet", save_columns_pandas),
        ("shards", save_columns_shards),
    ],
)
def test_ids_captions_labels_groups_and_fields_come_with_the_rows(tmp_path, name, write):
    write(tmp_path / name)
    got = open_embeddings(tmp_path / name)
    assert list(got.ids) == IDS
    assert list(got.captions) == CAPTIONS
    np.testing.assert_array_equal(got.labels, LABELS)
    np.testing.assert_array_equal(got.groups, GROUPS)
    assert got.labels.dtype.kind == "i"
    assert {*got.fields} - {"__index_level_0__"} == {"year", "source"}
    assert got.fields["year"].load().tolist() == YEARS.tolist()
    assert got.fields["source"].load().tolist() == SOURCES
    some = np.array([9, 0, 9, 4])
    assert got.fields["source"].take(some).tolist() == [SOURCES[i] for i in some]


def test_a_column_called_text_is_a_caption_only_if_it_holds_strings(tmp_path):
    np.savez(tmp_path / "a.npz", v=rows(), text=LABELS)
    assert open_embeddings(tmp_path / "a.npz").captions is None


def test_rows_without_a_caption_keep_none(tmp_path):
    table = pa.table(
        {"v": fixed_lists(rows(3)), "caption": ["a", None, "c"], "label": [1, None, 3]}
    )
    pq.write_table(table, tmp_path / "a.parquet")
    got = open_embeddings(tmp_path / "a.parquet")
    assert list(got.captions) == ["a", None, "c"]
    assert list(got.labels) == [1, None, 3]


def save_clip_retrieval(folder, X, Y, n_shards=11):
    for part in ("img_emb", "text_emb", "metadata"):
        (folder / part).mkdir(parents=True)
    for i, index in enumerate(np.array_split(np.arange(len(X)), n_shards)):
        np.save(folder / "img_emb" / f"img_emb_{i}.npy", X[index])
        np.save(folder / "text_emb" / f"text_emb_{i}.npy", Y[index])
        frame = pd.DataFrame(
            {"image_path": np.array(IDS)[index], "caption": np.array(CAPTIONS)[index]}
        )
        frame.to_parquet(folder / "metadata" / f"metadata_{i}.parquet")


def test_clip_retrieval_folder_is_read_in_the_order_of_its_numbers(tmp_path):
    X, Y = rows(dtype="float16"), rows(dtype="float16", seed=1)
    save_clip_retrieval(tmp_path / "out", X, Y)
    pair = open_pair(tmp_path / "out")
    np.testing.assert_array_equal(pair.x.rows(), X)
    np.testing.assert_array_equal(pair.y.rows(), Y)
    np.testing.assert_array_equal(np.concatenate(list(pair.y.batches(5))), Y)
    assert list(pair.x.ids) == IDS
    assert list(pair.y.captions) == CAPTIONS
    assert pair.paired
    assert pair.group_codes is None
    np.testing.assert_array_equal(open_embeddings(tmp_path / "out", column="text_emb").rows(), Y)


def test_headers_are_read_in_threads_while_garbage_is_collected(tmp_path):
    """Python 3.11 takes two parsers that run in turns for one that lost count."""
    np.save(tmp_path / "x.npy", rows())
    written = (tmp_path / "x.npy").read_bytes()

    def read(_):
        return {read_header(BytesIO(written))[0] for _ in range(200)}

    def let_others_run(phase, info):
        time.sleep(0)

    before = gc.get_threshold()
    try:
        gc.set_threshold(20, 10**6, 10**6)  # of the youngest alone
        gc.callbacks.append(let_others_run)
        assert [*ahead(read, range(6), workers=6)] == [{(N, D)}] * 6
    finally:
        gc.callbacks.remove(let_others_run)
        gc.set_threshold(*before)
