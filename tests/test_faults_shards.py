"""Commands on shards, killed in every phase, on a full disk, and with shards that change.

The next run finishes with what an uninterrupted one writes, or says in one sentence why not.
Nothing is half-written.
"""

from __future__ import annotations

import itertools
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from command_line import everything_in, modgap, refuse, succeed
from fault_worker import Worker
from modgap.core.steady_file import SteadyFile
from modgap.io import write_clip_retrieval
from modgap.io._file_matrices import FileMatrix

N, DIM, SHARD = 90, 6, 20
KILL, TERM = signal.SIGKILL, signal.SIGTERM

# A call at which the process ends, in the thread that makes it.
Point = tuple[str, int]
OPENING: Point = ("modgap.core.steady_file:SteadyFile:open", 4)
MOMENTS: Point = ("modgap.moments.modality:Gather:of", 4)
SAMPLE: Point = ("modgap.io._file_matrices:FileMatrix:take", 3)
READING: Point = ("modgap.core.steady_file:SteadyFile:read_into", 4)
FLUSH, RENAME, RENAMED = ("os:fsync", 1), ("os:replace", 1), ("os:replace+", 1)
TRYING: Point = ("modgap.evaluation.evaluator:Evaluator:resampled", 3)
JUDGING: Point = ("modgap.evaluation.evaluator:Evaluator:evaluate", 1)
INDEX = "index build out.faiss c.safetensors image=rows/img_emb text=rows/text_emb"

# Each command, and where it is killed: opening, moments, sample, evaluating, writing, finishing.
COMMANDS: dict[str, tuple[str, list[Point]]] = {
    "measure": (
        "measure rows --partial kept --save-moments out.npz --json",
        [OPENING, MOMENTS, ("os:fsync", 3), ("os:replace", 4), ("os:replace+", 4),
         ("modgap.measures.summary:_Run:_side_rows", 2),
         ("modgap.measures.summary:orthogonality_of", 1), ("os:replace", 1)],
    ),
    "fit": (
        "fit rows --partial kept -o out.safetensors",
        [OPENING, MOMENTS, ("os:replace+", 5), ("modgap.corrections.correction:Correction:save", 1),
         FLUSH, RENAME, RENAMED],
    ),
    "diagnose": (
        "diagnose rows --unpaired --partial kept -o out",
        [OPENING, SAMPLE, MOMENTS, ("os:replace", 8), TRYING, FLUSH, RENAMED, ("os:replace", 4)],
    ),
    "fix": (
        "fix rows --unpaired --partial kept -o out",
        [OPENING, SAMPLE, MOMENTS, ("os:replace", 8), TRYING, ("os:fsync", 4),
         ("modgap.core.files:_settle_folder+", 1), ("os:replace+", 2)],
    ),
    "apply to a file": (
        "apply c.safetensors rows --modality image -o out.npy",
        [OPENING, SAMPLE, READING, FLUSH, RENAME, RENAMED],
    ),
    "apply to a folder": (
        "apply c.safetensors rows --modality image -o out",
        [OPENING, SAMPLE, READING, ("os:fsync", 5), ("os:replace", 4), ("os:replace+", 2),
         ("modgap.engines.corrected_folder:_Folder:finish", 1),
         ("modgap.engines.corrected_folder:_Folder:_tidy", 1)],
    ),
    "evaluate": (
        "evaluate rows --correction c.safetensors --all-documents --json",
        [OPENING, SAMPLE, JUDGING, ("modgap.moments.modality:Gather:of", 1)],
    ),
    "index build": (
        f"{INDEX} --replace", [OPENING, SAMPLE, READING, FLUSH, RENAME, RENAMED, ("os:replace", 2)]
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def worker():
    pytest.importorskip("faiss")
    made = Worker(
        "modgap.cli", "modgap.cli.show", "modgap.diagnosis", "modgap.reports", "modgap.index",
        "modgap.engines.sharded_retrieval", "faiss", "pyarrow.parquet",
        "rich.progress", "safetensors.numpy", "sklearn.linear_model", "sklearn.metrics",
        "threadpoolctl",
    )  # fmt: skip
    yield made
    made.close()


@pytest.fixture
def shards(tmp_path, rng, monkeypatch):
    """A folder of five shards of each modality, in half precision, and a fitted correction."""
    Z = rng.normal(size=(N, DIM))
    X, Y = ((Z + 0.1 * rng.normal(size=Z.shape) + one).astype("float16") for one in (1, -1))
    write_clip_retrieval(tmp_path / "rows", X, Y, shard_rows=SHARD)
    monkeypatch.chdir(tmp_path)
    assert modgap("fit", "rows", "-o", "c.safetensors").status == 0
    return tmp_path


def written(folder: Path) -> dict[str, bytes]:
    """What has its name: neither what is being written nor what is kept for the next run."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        begun = any(part.startswith(".modgap-") or part.endswith(".partial") for part in name.parts)
        if path.is_file() and not begun and name.parts[0].startswith("out"):
            found[str(name)] = path.read_bytes()
    return found


def clear(folder: Path) -> None:
    for path in [*folder.glob("out*"), folder / "kept"]:
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


@pytest.mark.xdist_group("faults")
@pytest.mark.parametrize("command", COMMANDS)
def test_killed_in_any_phase_a_command_writes_what_it_would_have_written(worker, shards, command):
    words, points = COMMANDS[command]
    status, said = worker(shards, words, keep="out.txt")
    assert status == 0, said
    whole = written(shards)
    clear(shards)
    before = everything_in(shards)
    for point, number in zip(points, itertools.cycle((KILL, TERM)), strict=False):
        status, said = worker(shards, words, point, number)
        # 143: it was writing, and removed its temporary files on the way out.
        assert status in (-number, 143 if number == TERM else None), (point, status, said)
        for name, held in written(shards).items():
            assert held == whole[name], (point, name)
    status, said = worker(shards, words, keep="out.txt")
    assert status == 0, said
    assert written(shards) == whole
    left = {name for name in everything_in(shards) - before if not name.startswith("kept")}
    assert all(name.startswith("out") and ".modgap-" not in name for name in left), left
    assert not list(shards.glob("*.partial"))


READS = {"rows": (SteadyFile, "read_into"), "sample": (FileMatrix, "take")}
CHANGING = {
    "measure": "measure rows --partial kept --save-moments out.npz",
    "fit": "fit rows --partial kept -o out.safetensors",
    "diagnose": "diagnose rows --unpaired --partial kept -o out",
    "fix": "fix rows --unpaired --partial kept -o out",
    "apply to a file": "apply c.safetensors rows --modality image -o out.npy",
    "apply to a folder": "apply c.safetensors rows --modality image -o out",
    "evaluate": "evaluate rows --correction c.safetensors",
    "index build": INDEX,
}


def vanishes(shard: Path) -> None:
    shard.unlink()


def is_written_to(shard: Path) -> None:
    """Other numbers, as many of them."""
    np.save(shard, np.load(shard) + np.float16(1))


def is_replaced(shard: Path) -> None:
    np.save(shard.with_name("new.npy"), np.load(shard) + np.float16(1))
    shard.with_name("new.npy").replace(shard)


CHANGES = (vanishes, is_written_to, is_replaced)


@pytest.mark.parametrize(
    ("command", "when", "change"),
    [(command, "rows", change) for command in CHANGING for change in CHANGES]
    + [(command, "sample", vanishes) for command in CHANGING if command not in ("measure", "fit")],
)
def test_a_shard_that_changes_after_it_was_opened_is_named_in_one_sentence(
    shards, command, when, change, monkeypatch
):
    """Before the first row of a pass is read: all shards are opened by then, and none is read."""
    shard = shards / "rows" / "img_emb" / "img_emb_3.npy"
    reader, method = READS[when]
    original, reads = getattr(reader, method), 0

    def reading(self: SteadyFile | FileMatrix, *given: Any) -> Any:
        nonlocal reads
        file = self if isinstance(self, SteadyFile) else self.file
        if file.path.suffix == ".npy":
            reads += 1
        if reads == 1:
            change(shard)
            reads += 1
        return original(self, *given)

    monkeypatch.setattr(reader, method, reading)
    ran = modgap(*CHANGING[command].split())
    assert ran.status == 2, ran.err
    assert "img_emb_3.npy" in ran.err.splitlines()[-1]
    assert "Traceback" not in ran.err
    assert not written(shards)
    assert not [name for name in everything_in(shards) if ".modgap-" in name]


def test_moments_that_were_kept_of_a_shard_are_not_used_once_it_is_another(shards, worker):
    words = "measure rows --partial kept --save-moments out.npz"
    assert worker(shards, words, ("os:replace", 4))[0] == -KILL
    is_replaced(shards / "rows" / "img_emb" / "img_emb_1.npy")
    succeed(*words.split())
    resumed = (shards / "out.npz").read_bytes()
    clear(shards)
    assert modgap(*words.split()).status == 0
    assert (shards / "out.npz").read_bytes() == resumed


def test_a_shard_that_is_gone_when_a_run_goes_on_is_named(shards, worker):
    words = "measure rows --partial kept"
    assert worker(shards, words, ("os:replace", 4))[0] == -KILL
    (shards / "rows" / "img_emb" / "img_emb_1.npy").unlink()
    said = refuse(*words.split())
    assert "Shard 1 of img_emb is missing" in said.splitlines()[-1]


@pytest.fixture
def disk(tmp_path):
    """A file system of 64 kibibytes."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(place)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("only root can make a file system to fill")
    yield place
    subprocess.run(["umount", str(place)], check=True)


@pytest.mark.parametrize(
    ("words", "filler"),
    [
        ("measure rows --partial disk/kept --json", 40_000),
        ("fit rows --partial disk/kept -o out.safetensors", 40_000),
        ("apply c.safetensors rows --modality image -o disk/out", 48_000),
    ],
    ids=["measure", "fit", "apply"],
)
def test_a_full_disk_is_one_sentence_and_the_next_run_goes_on(shards, disk, words, filler):
    whole = succeed(*words.replace("disk/", "elsewhere-").split())
    shutil.rmtree(shards / "elsewhere-kept", ignore_errors=True)
    (disk / "filler").write_bytes(bytes(filler))
    held = set(written(shards)) - {"out.safetensors"}
    (shards / "out.safetensors").unlink(missing_ok=True)
    ran = modgap(*words.split())
    assert ran.status == 2
    assert "cannot be written: No space left on device. Free some room" in ran.err.splitlines()[-1]
    assert not [name for name in everything_in(disk) if ".modgap-" in name]
    assert set(written(shards)) == held
    assert not (disk / "out").exists()
    done = {path: path.stat().st_mtime_ns for path in disk.rglob("*.safetensors")}
    (disk / "filler").unlink()
    ran = succeed(*words.split())
    assert ran.out == whole.out
    assert all(path.stat().st_mtime_ns == time for path, time in done.items())
