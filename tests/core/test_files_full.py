"""A disk or a quota that is full is one sentence from every writer, and what was there stays."""

from __future__ import annotations

import errno
import resource
import subprocess
from pathlib import Path

import numpy as np
import pytest

from command_line import everything_in, modgap
from index_services import make_store
from modgap import Correction
from modgap.core.checks import InputError
from modgap.core.files import WriteError, atomic_folder, atomic_path, errno_of, write_text
from modgap.core.tensor_file import write_tensors
from modgap.index import FaissIndex
from modgap.io import write_clip_retrieval, write_embeddings

DIM = 32
CORRECTION = Correction.identity(DIM)
_PAGE = 4096


def rows(n):
    return np.random.default_rng(n).normal(size=(n, DIM)).astype("float32")


def write_faiss(path, n):
    with FaissIndex(path, CORRECTION).open(create=True, replace=True) as index:
        index.write(rows(n), "image")


def export_faiss(path, n):
    index = FaissIndex(path.parent / "never.faiss", CORRECTION).open(create=True)
    try:
        index.write(rows(n), "image")
        index.export(path, "image")
    finally:
        index.close()


def write_batches(path, n):
    every = rows(n)
    write_embeddings(path, (every[start : start + 10] for start in range(0, n, 10)))


WRITERS = {
    **{
        f"rows{suffix}": lambda path, n: write_embeddings(path, rows(n))
        for suffix in (".npy", ".npz", ".safetensors", ".pt", ".parquet")
    },
    "batches.npy": write_batches,
    "page.html": lambda path, n: write_text(path, "x" * 4 * DIM * n),
    "tensors.safetensors": lambda path, n: write_tensors(path, "test", {"a": rows(n)}, {}),
    "index.faiss": write_faiss,
    "export.faiss": export_faiss,
}


@pytest.fixture
def disk(tmp_path):
    """A file system of one mebibyte."""
    place = tmp_path / "disk"
    place.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)], capture_output=True
    )
    if made.returncode:
        pytest.skip("only root can make a file system to fill")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def leave_room(disk, wanted):
    """Fill a disk until so many bytes are free."""
    import shutil

    (disk / "filler").write_bytes(bytes(shutil.disk_usage(disk).free - wanted))


@pytest.mark.parametrize("name", WRITERS)
# Much too large; and so small that a library's buffer takes all of it, and fails on closing.
@pytest.mark.parametrize(("n", "room"), [(4_000, 30 * _PAGE), (40, _PAGE)])
def test_a_full_disk_is_one_sentence_and_the_old_file_stays(disk, name, n, room):
    path = disk / name
    WRITERS[name](path, 10)
    before = path.read_bytes()
    leave_room(disk, room)
    held = everything_in(disk)
    with pytest.raises(WriteError) as caught:
        WRITERS[name](path, n)
    assert caught.value.errno == errno.ENOSPC
    assert str(caught.value) == (
        f"{path} cannot be written: No space left on device. Free some room and run it again."
    )
    assert path.read_bytes() == before
    assert everything_in(disk) == held


def test_a_folder_of_shards_meets_a_full_disk(disk):
    with pytest.raises(WriteError, match=r"disk/shards cannot be written: No space left"):
        write_clip_retrieval(disk / "shards", rows(9_000), shard_rows=1_000)
    leave_room(disk, _PAGE)
    held = everything_in(disk)
    with pytest.raises(WriteError, match=r"disk/shards cannot be written: No space left"):
        write_clip_retrieval(disk / "shards", rows(40), shard_rows=9)
    with (
        pytest.raises(WriteError, match=r"disk/folder cannot be written: No space left"),
        atomic_folder(disk / "folder") as temporary,
    ):
        write_text(temporary / "file", "x" * 9_000)  # its own name would say nothing
    assert everything_in(disk) == held


@pytest.mark.parametrize("kind", ["lance", "qdrant", "duckdb", "sqlite", "chroma"])
def test_a_store_in_a_folder_meets_a_full_disk_in_the_same_words(disk, kind):
    store = make_store(kind, disk)
    leave_room(disk, 50 * _PAGE)
    with (
        pytest.raises(WriteError, match=r"cannot be written: No space left on device\. Free some"),
        store.open(CORRECTION, create=True) as index,
    ):
        index.write(rows(9_000), "image")


def test_a_full_disk_at_the_command_line(disk, tmp_path):
    np.save(tmp_path / "image.npy", rows(20_000))
    CORRECTION.save(tmp_path / "c.safetensors")
    leave_room(disk, _PAGE)
    for words in (
        f"apply {tmp_path}/c.safetensors {tmp_path}/image.npy --modality image -o {disk}/out.npy",
        f"index build {disk}/out.faiss {tmp_path}/c.safetensors image={tmp_path}/image.npy",
        f"fit {tmp_path}/image.npy {tmp_path}/image.npy --method procrustes -o {disk}/c.safetensors"
    ):  # fmt: skip
        ran = modgap(*words.split())
        assert (ran.status, ran.out) == (2, "")
        target = next(word for word in words.split() if word.startswith(str(disk)))
        assert ran.err.splitlines()[-1] == (
            f"modgap: {target} cannot be written: No space left on device. Free some room and run "
            "it again."
        )
        assert everything_in(disk) == {"filler"}


@pytest.mark.parametrize("name", WRITERS)
def test_a_file_that_may_not_grow_is_one_sentence(tmp_path, name):
    """As a quota, which needs no file system of its own to be tried: a limit of the process."""
    WRITERS[name](tmp_path / name, 10)
    held = everything_in(tmp_path)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    try:
        with pytest.raises(WriteError, match=r" cannot be written: File too large\.$"):
            WRITERS[name](tmp_path / name, 4_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert everything_in(tmp_path) == held


def test_a_writer_that_does_not_say_why_it_failed_is_explained_by_the_disk(disk):
    leave_room(disk, 0)
    with pytest.raises(WriteError, match="No space left"), atomic_path(disk / "file"):
        raise RuntimeError("unexpected pos 576 vs 534")


@pytest.mark.parametrize(
    ("error", "number"),
    [
        (OSError(errno.EDQUOT, "Disk quota exceeded"), errno.EDQUOT),
        (RuntimeError("lance error: LanceError(IO): … (os error 122), …"), errno.EDQUOT),
        (RuntimeError("write error in a.faiss: 1 != 2 (No space left on device)"), errno.ENOSPC),
        (RuntimeError("database or disk is full"), errno.ENOSPC),
        (RuntimeError("Disk quota exceeded"), errno.EDQUOT),
        (ValueError("[Errno 28] Error writing bytes to file."), errno.ENOSPC),
    ],
)
def test_a_full_disk_is_known_in_any_words(tmp_path, error, number):
    assert errno_of(error) == number
    with pytest.raises(WriteError) as caught, atomic_path(tmp_path / "file"):
        raise error
    assert caught.value.errno == number
    assert isinstance(caught.value, InputError)
    assert caught.value.__cause__ is error


@pytest.mark.parametrize(
    "error",
    [
        FileNotFoundError(errno.ENOENT, "No such file or directory", "/input/rows.npy"),
        OSError(errno.EIO, "Input/output error"),
        ValueError("rows are wrong"),
        RuntimeError("no such thing"),
    ],
)
def test_what_is_wrong_with_an_input_is_not_said_of_the_output(tmp_path, error):
    with pytest.raises(type(error)) as caught, atomic_path(tmp_path / "file"):
        raise error
    assert caught.value is error


def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path, monkeypatch):
    def refused(self, *_, **__):
        raise PermissionError(errno.EACCES, "Permission denied", str(self))

    monkeypatch.setattr(Path, "mkdir", refused)
    with pytest.raises(WriteError, match=r"file cannot be written: Permission denied\.$"):
        write_text(tmp_path / "file", "text")
