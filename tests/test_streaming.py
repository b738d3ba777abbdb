"""Rows that do not fit memory: in shards, in bounded memory, on from where a run was stopped."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from command_line import everything_in, modgap
from fault_worker import Worker
from modgap import Correction, diagnose, open_embeddings, open_pair
from modgap._files import WriteError
from modgap.corrections import apply_to_folder
from modgap.evaluation import evaluate_correction
from modgap.io import Embeddings, write_clip_retrieval, write_embeddings
from modgap.moments import Moments

N, DIM, SHARD = 70, 6, 16
CORRECTION = Correction.identity(DIM)


@pytest.fixture
def shards(tmp_path: Path, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A clip-retrieval folder of five shards on each side, and a correction that was fitted."""
    Z = rng.normal(size=(N, DIM))
    noise = rng.normal(size=(2, N, DIM))
    X, Y = (Z + 0.3 * noise[0] + 1).astype("float16"), (Z + 0.3 * noise[1] - 1).astype("float16")
    names = [f"{i}.jpg" for i in range(N)]
    write_clip_retrieval(tmp_path / "rows", X, Y, ids=names, captions=names, shard_rows=SHARD)
    monkeypatch.chdir(tmp_path)
    assert modgap("fit", "rows", "-o", "c.safetensors").status == 0
    return tmp_path


def images(folder: str) -> Embeddings:
    return open_embeddings(folder, column="img_emb", modality="image")


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


APPLY = "apply c.safetensors rows --modality image -o out"


def test_a_folder_of_shards_is_corrected_into_a_folder_of_shards(shards: Path) -> None:
    ran = modgap(*APPLY.split(), "--dtype", "float32")
    assert ran.status == 0
    assert f"wrote out: {N} rows of {DIM} columns" in ran.err
    rows = images("rows")
    fixed = Correction.load("c.safetensors")
    found = images("out")
    assert found.dtype == np.float32
    assert (found.rows() == fixed.apply(rows.rows(), "image")).all()
    assert found.captions.tolist() == rows.captions.tolist()
    assert [len(part.rows()) for part in found.matrix.parts()] == [16, 16, 16, 16, 6]
    assert modgap(*APPLY.replace("image", "text").split()).status == 0
    both = open_pair("out")
    assert both.pairing == open_pair("rows").pairing
    assert (fixed.apply(open_pair("rows").Y, "text").astype("float16") == both.Y).all()
    assert not list(shards.glob("*.partial"))
    again = modgap(*APPLY.split())
    assert again.status == 2
    assert "img_emb exists already. Choose a new folder" in again.err


def test_shards_without_a_layout_keep_their_names_and_their_columns(
    tmp_path: Path, rng: np.random.Generator
) -> None:
    X = rng.normal(size=(9, DIM)).astype("float32")
    for name, rows in {"a": X[:4], "b": X[4:]}.items():
        (tmp_path / "plain").mkdir(exist_ok=True)
        np.save(tmp_path / "plain" / f"{name}.npy", rows)
        write_embeddings(
            tmp_path / "named" / f"{name}.parquet", rows, ids=list(map(str, rows[:, 0]))
        )
    for kind, suffix in {"plain": ".npy", "named": ".parquet"}.items():
        source, out = open_embeddings(tmp_path / kind), tmp_path / f"{kind}-out"
        assert apply_to_folder(CORRECTION, source, "image", out) == 0
        assert everything_in(out) == {f"a{suffix}", f"b{suffix}"}
        found = open_embeddings(out)
        assert (found.rows() == X).all()
        assert (found.ids is None) == (kind == "plain")
        if found.ids is not None:
            assert found.ids.tolist() == source.ids.tolist()


CODE_APPLY = """
from modgap import Correction, open_embeddings
from modgap.corrections import apply_to_folder
rows = open_embeddings("rows", column="img_emb", modality="image")
apply_to_folder(Correction.load("c.safetensors"), rows, "image", "out")
"""
KILLED_APPLY = {
    "reading": ("modgap._changes:SteadyFile:read_into", 5),
    "before a shard is flushed": ("os:fsync", 4),
    "before it has its name": ("os:replace", 3),
    "after it has its name": ("os:replace+", 3),
    "before the folder has its name": ("modgap.corrections.folder:_Work:finish", 1),
    "before it is tidied": ("modgap.corrections.folder:_Work:_tidy", 1),
}


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    made = Worker(
        "modgap.corrections", "modgap.io.opening", "pyarrow.parquet", "safetensors.numpy",
        "threadpoolctl",
    )  # fmt: skip
    yield made
    made.close()


@pytest.mark.parametrize("phase", KILLED_APPLY)
def test_a_killed_apply_goes_on_and_writes_the_same_bytes(
    shards: Path, phase: str, worker: Worker
) -> None:
    fixed = Correction.load("c.safetensors")
    source = images("rows")
    apply_to_folder(fixed, source, "image", "whole")
    assert worker(shards, "", KILLED_APPLY[phase], code=CODE_APPLY)[0] == -signal.SIGKILL
    if phase != "before it is tidied":
        assert not Path("out").exists()
    done = apply_to_folder(fixed, images("rows"), "image", "out")
    assert done == {"before it has its name": 1, "after it has its name": 2}.get(
        phase, 5 if "folder" in phase or "tidied" in phase else done
    )
    assert contents(shards / "out") == contents(shards / "whole")
    assert everything_in(shards) >= {"out", "whole"}
    assert not list(shards.glob("*.partial"))


def test_what_changed_since_an_apply_was_stopped_is_corrected_again_or_said(shards: Path) -> None:
    class Stop(Exception):
        pass

    def stop(_: str, done: int, __: int) -> None:
        if done > 3 * SHARD:
            raise Stop

    fixed = Correction.load("c.safetensors")
    rows = images("rows")
    with pytest.raises(Stop):
        apply_to_folder(fixed, rows, "image", "out", progress=stop)
    with pytest.raises(ValueError, match=r"out.partial was begun with another correction"):
        apply_to_folder(fixed, rows, "image", "out", dtype="float64")
    shard = Path("rows/img_emb/img_emb_1.npy")
    changed = np.load(shard) + np.float16(1)
    np.save(shard, changed)
    with pytest.raises(ValueError, match=r"img_emb_1.npy changed while it was read"):
        rows.rows()
    rows = images("rows")
    assert apply_to_folder(fixed, rows, "image", "out") == 2
    found = images("out").rows()
    assert (found == fixed.apply(rows.rows(), "image").astype("float16")).all()
    (shards / "rows/img_emb/img_emb_4.npy").unlink()
    with pytest.raises(ValueError, match=r"img_emb_4.npy was removed or renamed"):
        apply_to_folder(fixed, rows, "image", "other")
    assert not Path("other").exists()


def test_a_full_disk_stops_an_apply_that_goes_on_once_there_is_room(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("only root can make a file system to fill")
    try:
        X = np.random.default_rng(0).normal(size=(12_000, DIM)).astype("float32")
        (tmp_path / "rows").mkdir()
        for number, part in enumerate(np.split(X, 6)):
            np.save(tmp_path / "rows" / f"{number}.npy", part)
        (disk / "filler").write_bytes(bytes(900_000))
        rows = open_embeddings(tmp_path / "rows")
        with pytest.raises(WriteError, match=r"2.npy cannot be written: No space left on device"):
            apply_to_folder(CORRECTION, rows, "image", disk / "out")
        assert not (disk / "out").exists()
        (disk / "filler").unlink()
        assert apply_to_folder(CORRECTION, rows, "image", disk / "out") == 2
        assert (open_embeddings(disk / "out").rows() == X).all()
    finally:
        subprocess.run(["umount", str(disk)], check=True)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The files that rows are read from, one entry for each block."""
    from modgap._changes import SteadyFile

    heard: list[str] = []
    original = SteadyFile.read_into

    def reading(self: SteadyFile, *given: object) -> None:
        heard.append(self.path.name)
        original(self, *given)

    monkeypatch.setattr(SteadyFile, "read_into", reading)
    return heard


def test_moments_of_shards_are_kept_and_found_again(shards: Path, read: list[str]) -> None:
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


@pytest.mark.parametrize(
    "point",
    [
        ("modgap._changes:SteadyFile:read_into", 4),
        ("modgap.moments.modality:_Gather:of", 3),
        ("os:fsync", 3),
        ("os:replace", 3),
        ("os:replace+", 3),
    ],
    ids=["reading", "gathering", "writing", "before its name", "after its name"],
)
def test_a_killed_measurement_goes_on_with_the_same_bits(
    shards: Path, point: tuple[str, int], read: list[str], worker: Worker
) -> None:
    whole = open_pair("rows").with_partial("whole").side_moments()
    code = "import modgap; modgap.open_pair('rows').with_partial('kept').side_moments()"
    assert worker(shards, "", point, code=code)[0] == -signal.SIGKILL
    for path in Path("kept").glob("*.safetensors"):
        Moments.load(path)
    read.clear()
    found = open_pair("rows").with_partial("kept").side_moments()
    assert len([name for name in read if name.endswith(".npy")]) < 10
    for name, one in found.items():
        assert (one.given.scatter == whole[name].given.scatter).all()
        assert (one.unit.scatter == whole[name].unit.scatter).all()
    assert contents(shards / "kept").keys() == contents(shards / "whole").keys()


def test_commands_take_a_folder_of_kept_moments(shards: Path, read: list[str]) -> None:
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


def of_rows(read: list[str]) -> Counter[str]:
    """How often each shard was read through."""
    return Counter(name for name in read if name.endswith(".npy"))


def test_diagnose_and_fix_read_shards_once_for_their_moments_and_never_with_kept_ones(
    shards: Path, read: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("modgap.diagnosis.run._MEASURE_SAMPLE", 20)  # rows, not all of them

    def run(words: str) -> set[int]:
        read.clear()
        assert modgap(*words.split()).status == 0
        return {*of_rows(read).values()}

    assert run("diagnose rows") == {1}
    assert run("diagnose rows --partial kept") == {1}
    assert run("diagnose rows --partial kept --queries both") == set()
    assert run("fix rows --partial kept -o fixed") == {1}  # the documents that are written
    np.save("rows/text_emb/text_emb_2.npy", np.load("rows/text_emb/text_emb_2.npy") * 2)
    read.clear()
    assert modgap("diagnose", "rows", "--partial", "kept").status == 0
    assert of_rows(read) == {"text_emb_2.npy": 1}


def test_rows_of_shards_give_the_numbers_of_rows_in_memory(shards: Path) -> None:
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
from modgap._files import WriteError
from modgap.corrections import apply_to_folder

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
def test_many_shards_take_no_more_memory_than_few(tmp_path: Path) -> None:
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
