"""Manifests: rows, dtypes, sizes and checksums of shards; made once, and compared with."""

from __future__ import annotations

import hashlib
import json
import os

import numpy as np
import pytest

from command_line import modgap
from modgap.core.checks import InputValueError
from modgap.io import (
    BadShardsWarning,
    Manifest,
    manifest,
    open_embeddings,
    open_pair,
    write_clip_retrieval,
    write_manifest,
)

X = np.random.default_rng(4).normal(size=(40, 3)).astype(np.float32)


@pytest.fixture
def folder(tmp_path):
    """Four shards of a modality."""
    place = tmp_path / "rows"
    place.mkdir()
    for number in range(4):
        np.save(place / f"{number}.npy", X[10 * number : 10 * number + 10])
    return place


def test_a_manifest_says_what_each_shard_is(folder, tmp_path):
    found = Manifest.of(folder)
    second = found.shards[1]
    data = (folder / "1.npy").read_bytes()
    assert (second.path, second.rows, second.columns, second.dtype) == ("1.npy", 10, 3, "float32")
    assert second.bytes == len(data)
    assert second.checksum == f"sha256:{hashlib.sha256(data).hexdigest()}"
    found.save(tmp_path / "m.json")
    assert Manifest.load(tmp_path / "m.json") == found
    found.check(folder)
    assert repr(found) == f"Manifest(4 shards, {4 * len(data)} bytes)"


def test_a_manifest_lists_the_folders_of_clip_retrieval(tmp_path):
    write_clip_retrieval(tmp_path / "c", X, -X, ids=range(40), shard_rows=30)
    found = Manifest.of(tmp_path / "c")
    assert [(shard.path, shard.rows, shard.columns) for shard in found.shards] == [
        ("img_emb/img_emb_0.npy", 30, 3),
        ("img_emb/img_emb_1.npy", 10, 3),
        ("metadata/metadata_0.parquet", 30, None),
        ("metadata/metadata_1.parquet", 10, None),
        ("text_emb/text_emb_0.npy", 30, 3),
        ("text_emb/text_emb_1.npy", 10, 3),
    ]


def test_a_folder_is_compared_with_its_manifest(folder):
    assert modgap("manifest", folder).out.startswith(f"wrote {folder}/manifest.json: 4 shards of")
    ran = modgap("manifest", folder, "--check")
    assert (ran.status, "all as the manifest says" in ran.out) == (0, True)
    np.testing.assert_array_equal(open_embeddings(folder).rows(), X)
    np.testing.assert_array_equal(open_embeddings(folder / "manifest.json").rows(), X)
    np.save(folder / "1.npy", -X[10:20])  # as long as before
    assert open_embeddings(folder).n_rows == 40
    ran = modgap("manifest", folder, "--check")
    assert (ran.status, "1.npy has another checksum" in ran.err) == (2, True)
    with pytest.warns(BadShardsWarning, match=r"1 of 4 .*10 rows.*1\.npy has another checksum"):
        left = open_embeddings(folder, bad_shards="skip")
    np.testing.assert_array_equal(left.rows(), np.delete(X, np.s_[10:20], axis=0))
    np.save(folder / "1.npy", X[:3])
    with pytest.raises(InputValueError, match=r"1\.npy has 164 bytes, and 248 by its manifest"):
        open_embeddings(folder)
    (folder / "1.npy").unlink()
    with pytest.raises(InputValueError, match=r"not what its manifest says: 1\.npy is missing"):
        open_embeddings(folder)
    assert "1.npy is missing" in modgap("manifest", folder, "--check").err
    with pytest.warns(BadShardsWarning, match=r"1 of 4 .*10 rows.*1\.npy is missing"):
        assert open_embeddings(folder, bad_shards="skip").n_rows == 30


def test_a_shard_that_no_manifest_names_is_refused_or_left_out(folder):
    write_manifest(str(folder), folder / "manifest.json")
    np.save(folder / "4.npy", X)
    with pytest.raises(InputValueError, match=r"4\.npy is not named in it.*modgap manifest"):
        open_embeddings(folder)
    with pytest.warns(BadShardsWarning, match=r"4\.npy is not named in the manifest"):
        assert open_embeddings(folder, bad_shards="skip").n_rows == 40


def test_pairs_stay_pairs_where_the_manifest_misses_a_shard(tmp_path):
    write_clip_retrieval(tmp_path / "c", X, -X, shard_rows=10)
    write_manifest(str(tmp_path / "c"), tmp_path / "c" / "manifest.json")
    (tmp_path / "c" / "text_emb" / "text_emb_2.npy").unlink()
    with pytest.warns(BadShardsWarning, match="1 of 4 shards .*10 rows"):
        left = open_pair(tmp_path / "c", bad_shards="skip")
    np.testing.assert_array_equal(left.X, np.delete(X, np.s_[20:30], axis=0))
    np.testing.assert_array_equal(left.Y, -left.X)


def test_a_run_that_was_stopped_goes_on_where_it_was(folder, monkeypatch):
    looked = []
    real = manifest.checksum

    def until_third(file):
        looked.append(file.path.name)
        if file.path.name == "2.npy" and len(looked) <= 4:
            raise KeyboardInterrupt
        return real(file)

    monkeypatch.setattr(manifest, "checksum", until_third)
    monkeypatch.setattr(manifest, "processors", lambda: 1)
    target = folder / "manifest.json"
    with pytest.raises(KeyboardInterrupt):
        write_manifest(str(folder), target)
    assert not target.exists()
    partial = folder / ".manifest.json.partial"
    partial.write_bytes(partial.read_bytes() + b'{"seen": "3.npy 7", "sha')  # killed as it wrote
    np.save(folder / "1.npy", -X[10:20])
    os.utime(folder / "1.npy", ns=(1, 1))
    looked.clear()
    looked += ["-"] * 4
    write_manifest(str(folder), target)
    assert sorted(looked[4:]) == ["1.npy", "2.npy", "3.npy"]
    assert not partial.exists()
    Manifest.load(target).check(folder)


@pytest.mark.parametrize(
    ("held", "said"),
    [
        ({"schema": "other"}, "is not a manifest that modgap wrote"),
        ({"schema": "modgap/manifest/1"}, "is damaged"),
        ({"schema": "modgap/manifest/1", "shards": [{"path": "a"}]}, "is damaged"),
        ([], "is not a manifest"),
    ],
)
def test_a_damaged_manifest_is_refused(tmp_path, held, said):
    (tmp_path / "m.json").write_text(json.dumps(held))
    with pytest.raises(InputValueError, match=said):
        Manifest.load(tmp_path / "m.json")


def test_another_programs_manifest_is_left_alone(folder):
    (folder / "manifest.json").write_text('{"files": []}')
    assert open_embeddings(folder).n_rows == 40


def test_what_there_is_no_manifest_of_is_one_sentence(folder, tmp_path):
    assert f"Make one: modgap manifest {folder}\n" in modgap("manifest", folder, "--check").err
    (tmp_path / "d.lance").mkdir()
    assert "needs no manifest" in modgap("manifest", tmp_path / "d.lance").err
    assert "must hold shards" in modgap("manifest", tmp_path / "no", "-o", tmp_path / "m").err
    assert "Say with -o" in modgap("manifest", folder / "0.npy").err
    assert "writes nothing to memory://" in modgap("manifest", "memory://rows").err
