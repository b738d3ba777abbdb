"""Datasets of many files: read ahead, in order, in bounded memory; bad ones named or left out."""

from __future__ import annotations

import os
import pickle
import threading
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from command_line import make_files, modgap
from modgap.core.checks import InputValueError
from modgap.io import (
    BadShardsWarning,
    _matrices,
    open_embeddings,
    open_modalities,
    open_pair,
    write_clip_retrieval,
)

DIM = 4
X = np.random.default_rng(5).normal(size=(60, DIM)).astype(np.float32)


def save_npy(path, rows):
    np.save(path, rows)


def save_npz(path, rows):
    np.savez_compressed(path, v=rows)


def save_parquet(path, rows):
    lists = pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), rows.shape[1])
    pq.write_table(pa.table({"v": lists}), path, row_group_size=7)


SAVERS = {
    "npy": save_npy, "npz": save_npz, "parquet": save_parquet
}  # fmt: skip


@pytest.fixture
def ahead(monkeypatch):
    """Small data is read ahead too."""
    monkeypatch.setattr(_matrices, "_ALONE_BYTES", -1)


def no_reader_is_left():
    return not any(one.name.startswith("ahead") for one in threading.enumerate())


@given(
    cuts=st.lists(st.integers(0, len(X)), max_size=6),
    kind=st.sampled_from(sorted(SAVERS)),
    half=st.booleans(),
    size=st.integers(1, 70),
    indices=st.lists(st.integers(0, len(X) - 1), max_size=30),
)
def test_any_cut_into_shards_gives_the_same_rows(tmp_path_factory, cuts, kind, half, size, indices):
    folder = tmp_path_factory.mktemp("cut")
    rows = X.astype(np.float16).astype(np.float32)
    edges = [0, *sorted(cuts), len(X)]
    for number, (start, stop) in enumerate(pairwise(edges)):
        dtype = np.float16 if half and number == 0 else np.float32
        SAVERS[kind](folder / f"part_{number}.{kind}", rows[start:stop].astype(dtype))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(_matrices, "_ALONE_BYTES", -1)
        opened = open_embeddings(folder)
        batches = list(opened.batches(size))
        assert [len(batch) for batch in batches[:-1]] == [size] * (len(batches) - 1)
        np.testing.assert_array_equal(np.concatenate(batches), rows)
        np.testing.assert_array_equal(opened.rows(), rows)
        np.testing.assert_array_equal(opened.take(indices), rows[indices])
        parts = [part.rows() for part in opened.matrix.shards()]
        np.testing.assert_array_equal(np.concatenate(parts), rows)
    assert no_reader_is_left()


def test_every_shard_is_a_part_that_can_be_sent_elsewhere(tmp_path):
    for kind, save in SAVERS.items():
        (tmp_path / kind).mkdir()
        for number in range(3):
            save(tmp_path / kind / f"{number}.{kind}", X[20 * number : 20 * number + 20])
        parts = open_embeddings(tmp_path / kind).matrix.shards()
        assert [part.shape for part in parts] == [(20, DIM)] * 3
        sent = pickle.loads(pickle.dumps(parts[2]))
        np.testing.assert_array_equal(sent.rows(), X[40:])
        assert len(open_embeddings(tmp_path / kind / f"0.{kind}").matrix.shards()) == 1


@pytest.mark.usefixtures("ahead")
def test_a_shard_that_vanishes_or_changes_half_way_is_named(tmp_path):
    for number in range(3):
        np.save(tmp_path / f"{number}.npy", X)
    opened = open_embeddings(tmp_path)
    np.save(tmp_path / "1.npy", X[:50])
    with pytest.raises(InputValueError, match=r"1\.npy changed while it was read"):
        list(opened.batches(10))
    opened = open_embeddings(tmp_path)
    os.unlink(tmp_path / "2.npy")
    for read in (lambda: list(opened.batches(10)), opened.rows, lambda: opened.take([169])):
        with pytest.raises(InputValueError, match=r"2\.npy was removed or renamed"):
            read()
    opened.take([0, 59])  # reads only the first shard
    assert no_reader_is_left()


def datacomp(folder):
    """Four shards of 15 pairs with tables beside them."""
    folder.mkdir()
    for number in range(4):
        rows = X[15 * number : 15 * number + 15]
        np.savez_compressed(folder / f"{number:08}.npz", l14_img=rows, l14_txt=-rows)
        table = pa.table({"uid": [f"{number}-{row}" for row in range(15)]})
        pq.write_table(table, folder / f"{number:08}.parquet")


def without_shard(number):
    return np.delete(X, np.s_[15 * number : 15 * number + 15], axis=0)


def damage(path, start=300):
    """Bytes in the middle of a file are others."""
    data = bytearray(path.read_bytes())
    data[start : start + 40] = bytes(40)
    path.write_bytes(data)


def damage_npz(folder):
    damage(folder / "00000002.npz")


def cut_npz(folder):
    os.truncate(folder / "00000002.npz", 100)


def lose_table(folder):
    (folder / "00000002.parquet").unlink()


def short_table(folder):
    pq.write_table(pa.table({"uid": ["a"]}), folder / "00000002.parquet")


def one_side(folder):
    np.savez(folder / "00000002.npz", l14_img=X[30:45])


def other_width(folder):
    np.savez(folder / "00000002.npz", l14_img=X[30:45, :2], l14_txt=-X[30:45, :2])


@pytest.mark.parametrize(
    "spoil", [damage_npz, cut_npz, lose_table, short_table, one_side, other_width]
)
def test_a_bad_shard_of_datacomp_is_named_or_left_out_whole(tmp_path, spoil):
    folder = tmp_path / "dc"
    datacomp(folder)
    spoil(folder)
    with pytest.raises(InputValueError, match="00000002"):
        open_pair(folder).X.sum()
    with pytest.warns(BadShardsWarning, match="1 of 4 shards of .*dc are left out"):
        left = open_pair(folder, bad_shards="skip")
    np.testing.assert_array_equal(left.X, without_shard(2))
    np.testing.assert_array_equal(left.Y, -without_shard(2))
    assert left.x.ids[30] == "3-0"


def clip_retrieval(folder):
    ids = [f"photo {row}" for row in range(len(X))]
    write_clip_retrieval(folder, X, -X, ids=ids, shard_rows=15)


CLIP_FAULTS = {
    "cut": ("img_emb_2", lambda d: os.truncate(d / "img_emb" / "img_emb_2.npy", 200)),
    "no header": ("text_emb_2", lambda d: (d / "text_emb/text_emb_2.npy").write_bytes(b"oh")),
    "empty": ("text_emb_2", lambda d: (d / "text_emb/text_emb_2.npy").write_bytes(b"")),
    "one side missing": ("Shard 2", lambda d: (d / "text_emb/text_emb_2.npy").unlink()),
    "fewer rows": ("Shard 2", lambda d: np.save(d / "text_emb/text_emb_2.npy", X[:3])),
    "other width": ("img_emb_2", lambda d: np.save(d / "img_emb/img_emb_2.npy", X[:15, :2])),
    "table": ("metadata_2", lambda d: (d / "metadata/metadata_2.parquet").write_bytes(b"PAR1")),
    "table missing": ("Shard 2", lambda d: (d / "metadata/metadata_2.parquet").unlink()),
}


@pytest.mark.parametrize("fault", CLIP_FAULTS)
def test_a_bad_shard_of_clip_retrieval_leaves_all_sides(tmp_path, fault):
    folder, (name, spoil) = tmp_path / "clip", CLIP_FAULTS[fault]
    clip_retrieval(folder)
    spoil(folder)
    with pytest.raises(InputValueError, match=name):
        open_pair(folder)
    with pytest.warns(BadShardsWarning, match="1 of 4 shards.*left out: 15 rows are missing"):
        left = open_pair(folder, bad_shards="skip")
    np.testing.assert_array_equal(left.X, without_shard(2))
    np.testing.assert_array_equal(left.Y, -without_shard(2))
    assert left.pairing == "row by row, the ids agree"


def two_folders(tmp_path):
    for side, rows in {"image": X, "text": -X}.items():
        (tmp_path / side).mkdir()
        for number in range(4):
            np.save(tmp_path / side / f"{side}_{number}.npy", rows[15 * number : 15 * number + 15])
    return tmp_path / "image", tmp_path / "text"


def test_shards_of_two_folders_are_left_out_together(tmp_path):
    image, text = two_folders(tmp_path)
    (image / "image_0.npy").write_bytes(b"no")
    (text / "text_2.npy").write_bytes(b"no")
    with pytest.warns(BadShardsWarning, match="2 of 4 shards.*30 rows are missing"):
        left = open_pair(image, text, bad_shards="skip")
    kept = np.concatenate([X[15:30], X[45:]])
    np.testing.assert_array_equal(left.X, kept)
    np.testing.assert_array_equal(left.Y, -kept)
    with pytest.warns(BadShardsWarning):
        named = open_modalities({"image": image, "text": text}, bad_shards="skip")
    np.testing.assert_array_equal(named.sides["text"].rows(), -kept)


def test_shards_that_are_cut_in_other_ways_cannot_go_together(tmp_path):
    image, text = two_folders(tmp_path)
    (image / "image_0.npy").write_bytes(b"no")
    os.rename(text / "text_3.npy", text / "text_9.npy")
    with pytest.raises(InputValueError, match="do not say which rows belong to them"):
        open_pair(image, text, bad_shards="skip")


def test_damaged_parquet_and_ragged_rows_are_bad_shards(tmp_path):
    for number in range(4):
        save_parquet(tmp_path / f"{number}.parquet", X[15 * number : 15 * number + 15])
    ragged = pa.table({"v": pa.array([[1.0] * DIM, [1.0]], pa.list_(pa.float32()))})
    pq.write_table(ragged, tmp_path / "1.parquet")
    damage(tmp_path / "3.parquet", 20)
    with pytest.raises(InputValueError, match=r"1\.parquet|3\.parquet"):
        open_embeddings(tmp_path).rows()
    with pytest.warns(BadShardsWarning, match="2 of 4 shards"):
        left = open_embeddings(tmp_path, bad_shards="skip")
    np.testing.assert_array_equal(left.rows(), np.concatenate([X[:15], X[30:45]]))


def test_empty_shards_are_no_bad_shards(tmp_path):
    np.save(tmp_path / "0.npy", np.empty((0, 9), np.float32))
    np.save(tmp_path / "1.npy", X)
    np.save(tmp_path / "2.npy", np.empty(0))
    for bad_shards in ("refuse", "skip"):
        opened = open_embeddings(tmp_path, bad_shards=bad_shards)
        np.testing.assert_array_equal(opened.rows(), X)


def test_where_all_shards_are_bad_one_is_named(tmp_path):
    for number in range(2):
        (tmp_path / f"{number}.npy").write_bytes(b"no")
    with pytest.raises(InputValueError, match=r"No shard of .* can be used: .*0\.npy"):
        open_embeddings(tmp_path, bad_shards="skip")
    with pytest.raises(InputValueError, match="bad_shards must be"):
        open_embeddings(tmp_path, bad_shards="drop")


@pytest.mark.filterwarnings("default::modgap.io.BadShardsWarning")
def test_bad_shards_are_skipped_at_the_command_line(tmp_path):
    A, B = make_files(tmp_path, 60)
    write_clip_retrieval(tmp_path / "clip", A, B, shard_rows=20)
    os.truncate(tmp_path / "clip" / "text_emb" / "text_emb_1.npy", 300)
    ran = modgap("measure", tmp_path / "clip")
    assert ran.status == 2
    assert "text_emb_1.npy is cut short" in ran.err
    ran = modgap("measure", tmp_path / "clip", "--skip-bad-shards")
    assert ran.status == 0
    assert "modgap: warning: 1 of 3 shards" in ran.err
    assert "20 rows are missing" in ran.err
    assert [line.split()[1:] for line in ran.out.splitlines() if line.startswith("rows")] == [
        ["40", "40"]
    ]
