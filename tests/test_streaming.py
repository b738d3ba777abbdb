"""Rows that do not fit memory: in shards, in bounded memory, on from where a run was stopped."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from command_line import everything_in, modgap, refuse, succeed
from engine_rows import CLIP_SHAPE, write_clip_folder
from modgap import Correction, diagnose, open_embeddings, open_pair
from modgap.evaluation import evaluate_correction
from modgap.io import Embeddings

N, DIM, SHARD = CLIP_SHAPE


@pytest.fixture
def shards(tmp_path, rng, monkeypatch):
    """A clip-retrieval folder of five shards on each side, and a correction that was fitted."""
    monkeypatch.chdir(tmp_path)
    return write_clip_folder(tmp_path, rng)


@pytest.fixture
def read(monkeypatch):
    """The files that rows are read from in order, one entry for each range of rows."""
    from modgap.io._file_matrices import FileMatrix

    heard: list[str] = []
    original = FileMatrix._range

    def reading(self: FileMatrix, *given: int) -> Iterator[np.ndarray]:
        heard.append(self.file.path.name)
        return original(self, *given)

    monkeypatch.setattr(FileMatrix, "_range", reading)
    return heard


def test_moments_of_shards_are_kept_and_found_again(shards, read):
    data = open_pair("rows")
    whole = data.side_moments()
    read.clear()
    kept = data.with_partial("kept")
    first = kept.side_moments()
    for name, found in first.items():
        assert found.given.scatter == pytest.approx(whole[name].given.scatter, rel=1e-12)
        assert found.unit.mean == pytest.approx(whole[name].unit.mean, rel=1e-12)
    assert len(everything_in(shards / "kept")) == 10
    read.clear()
    again = open_pair("rows").with_partial("kept").side_moments()
    assert not [name for name in read if name.endswith(".npy")]
    np.save("rows/text_emb/text_emb_2.npy", np.ones((SHARD, DIM), "float16"))
    read.clear()
    other = open_pair("rows").with_partial("kept").side_moments()
    assert {name for name in read if name.endswith(".npy")} == {"text_emb_2.npy"}
    assert len(everything_in(shards / "kept")) == 10
    for name in data.names:
        assert (again[name].given.scatter == first[name].given.scatter).all()
        assert (again[name].unit.mean == first[name].unit.mean).all()
    assert other["text"].n == N
    assert abs(other["text"].given.mean - first["text"].given.mean).max() > 0.1


def _write_both(kind: str, X: np.ndarray, Y: np.ndarray) -> str:
    """Two modalities of one shape in one file."""
    if kind == "packed":
        np.savez_compressed("both.npz", image=X, text=Y)
    elif kind == "row groups":
        table = pa.table({"image": X.tolist(), "text": Y.tolist()})
        pq.write_table(table, "both.parquet", row_group_size=20)
        return "both.parquet"
    else:
        np.save("both.npy", np.asfortranarray([X, Y]) if kind == "columns" else np.stack([X, Y]))
        return "both.npy"
    return "both.npz"


@pytest.mark.parametrize("kind", ["packed", "row groups", "columns", "stacked"])
def test_moments_of_two_modalities_in_one_file_are_kept_apart(kind, tmp_path, rng, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X, Y = rng.normal(size=(2, N, DIM)).astype("float32") + 1
    path = _write_both(kind, X, -Y)
    for _ in range(2):
        found = open_pair(path).with_partial("kept").side_moments()
        assert [one.given.mean.mean() > 0 for one in found.values()] == [True, False]
        assert len(everything_in(tmp_path / "kept")) == 2


def test_commands_take_a_folder_of_kept_moments(shards, read):
    plain, kept = (
        modgap("measure", "rows", "--json", *more) for more in ((), ("--partial", "kept"))
    )
    assert kept.status == 0
    assert kept.json["gap_distance"] == pytest.approx(plain.json["gap_distance"], rel=1e-12)
    before = Correction.load("c.safetensors")
    read.clear()
    assert modgap("fit", "rows", "--partial", "kept", "-o", "d.safetensors").status == 0
    assert not [name for name in read if name.startswith(("img_emb", "text_emb"))]
    after = Correction.load("d.safetensors")
    assert after.affine("image").offset == pytest.approx(before.affine("image").offset, rel=1e-9)
    (shards / "file").write_text("")
    refused = modgap("measure", "rows", "--partial", "file")
    assert refused.status == 2
    assert "is a file, where a folder is to be written" in refused.err
    for words in (("measure", "--device", "cpu"), ("measure", "--partial", "kept"),
                  ("fit", "--partial", "kept")):  # fmt: skip
        refused = modgap(words[0], "rows", *words[1:], "--engine", "ray")
        assert refused.status == 2
        assert f"{words[1]} cannot be given with --engine ray" in refused.err


def of_rows(read: list[str]) -> Counter[str]:
    """How often each shard was read through."""
    return Counter(name for name in read if name.endswith(".npy"))


def test_diagnose_and_fix_read_shards_once_for_their_moments_and_never_with_kept_ones(
    shards, read, monkeypatch
):
    monkeypatch.setattr("modgap.diagnosis.run.MEASURE_SAMPLE", 20)  # rows, not all of them

    def run(words: str) -> set[int]:
        read.clear()
        assert modgap(*words.split()).status == 0
        return {*of_rows(read).values()}

    apart = "--no-group-duplicates"  # which looks at every row
    assert run("diagnose rows") == {2}
    assert run(f"diagnose rows {apart}") == {1}
    assert run(f"diagnose rows --partial kept {apart}") == {1}
    assert run(f"diagnose rows --partial kept --queries both {apart}") == set()
    assert run("diagnose rows --partial kept --queries both") == {1}
    # For the distributions on the page, and for the documents that are written.
    assert run(f"fix rows --partial kept -o fixed {apart}") == {2}
    np.save("rows/text_emb/text_emb_2.npy", np.load("rows/text_emb/text_emb_2.npy") * 2)
    read.clear()
    assert modgap("diagnose", "rows", "--partial", "kept", apart).status == 0
    assert of_rows(read) == {"text_emb_2.npy": 1}


def test_rows_of_shards_give_the_numbers_of_rows_in_memory(shards):
    data = open_pair("rows")
    X, Y = data.X.astype("float32"), data.Y.astype("float32")
    on_disk, held = diagnose(data), diagnose(X, Y)
    assert on_disk.sentence == held.sentence
    assert on_disk.to_dict()["raw"] == equal(held.to_dict()["raw"])
    assert on_disk.to_dict()["trials"] == equal(held.to_dict()["trials"])
    assert on_disk.correction is not None
    assert held.correction is not None
    for name in data.names:
        found, expected = (one.correction.affine(name) for one in (on_disk, held))
        assert found.offset == pytest.approx(expected.offset, abs=1e-6)
    found, expected = (
        evaluate_correction(*rows, correction=on_disk.correction).to_dict()
        for rows in ((open_pair("rows"),), (X, Y))
    )
    assert found["corrected"] == equal(expected["corrected"])
    assert found["fitted_on_these_rows"]


def equal(value: Any) -> Any:
    """The same words, and the same numbers to 1e-6."""
    if isinstance(value, dict):
        return Same({key: equal(one) for key, one in value.items()})
    if isinstance(value, (list, tuple)):
        return Same([equal(one) for one in value])
    return pytest.approx(value, abs=1e-6, nan_ok=True) if isinstance(value, float) else value


class Same:
    """Compares what pytest.approx does not: values inside of values."""

    def __init__(self, inside: Any) -> None:
        self.inside = inside

    def __eq__(self, other: object) -> bool:
        if isinstance(self.inside, dict):
            same = isinstance(other, dict) and other.keys() == self.inside.keys()
            return same and all(other[key] == one for key, one in self.inside.items())
        same = isinstance(other, (list, tuple)) and len(other) == len(self.inside)
        return same and all(a == b for a, b in zip(other, self.inside, strict=True))

    def __repr__(self) -> str:
        return repr(self.inside)


BOUNDED = """
import resource, sys
import numpy as np
import modgap.cli, modgap.measures, modgap.corrections
from modgap import Correction, open_embeddings
from modgap.core.files import WriteError
from modgap.engines import apply_to_folder

rows = open_embeddings("rows")
rows.take(np.arange(10))
apply_to_folder(Correction.load("c.safetensors"), open_embeddings("few"), "image", "few-out")
open_embeddings("few").moments("image")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
rows.moments("image")
apply_to_folder(Correction.load("c.safetensors"), rows, "image", "out")
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="memory is told in other units elsewhere")
def test_many_shards_take_no_more_memory_than_few(tmp_path):
    """80 MB in half precision, corrected, with less than 50 MB more than 8 MB of them take."""
    rng = np.random.default_rng(0)
    shard = rng.normal(size=(20_000, 100)).astype("float16")
    for folder, n in (("few", 2), ("rows", 20)):
        (tmp_path / folder).mkdir()
        for number in range(n):
            np.save(tmp_path / folder / f"{number}.npy", shard)
    from modgap import Calibrate

    Calibrate().fit(Embeddings.from_array(shard), Embeddings.from_array(-shard)).correction_.save(
        tmp_path / "c.safetensors"
    )
    ran = subprocess.run(
        [sys.executable, "-c", BOUNDED], cwd=tmp_path, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    assert float(ran.stdout) < 50


def test_an_evaluation_among_all_documents_says_how_many(shards):
    ran = succeed("evaluate", "rows", "--correction", "c.safetensors", "--all-documents")
    rows = open_pair("rows")
    sizes = " and ".join(f"{side.n_rows:,} {name}" for name, side in rows.sides.items())
    for way in ("as it is", "corrected"):
        assert f"Among all documents ({sizes} rows), {way}" in ran.out


def test_the_next_commands_of_a_fit_on_shards_write_shards(shards):
    images = open_embeddings("rows", column="img_emb").rows()
    texts = open_embeddings("rows", column="text_emb").rows()
    for name, side in (("images", images), ("texts", texts)):
        Path(name).mkdir()
        np.save(f"{name}/0.npy", side)
    ran = modgap("fit", "images", "texts", "-o", "d.safetensors")
    assert "modgap apply d.safetensors images --modality image -o image-documents\n" in ran.err


def test_saved_moments_are_no_rows(shards):
    assert modgap("measure", "rows", "--save-moments", "m.safetensors").status == 0
    said = refuse("measure", "m.safetensors")
    assert "m.safetensors holds no rows" in said
    assert modgap("drift", "m.safetensors", "rows").status == 0
