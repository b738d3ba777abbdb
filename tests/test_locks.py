"""One writer at a time, and nothing of it left behind."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from command_line import everything_in
from modgap import _locks
from modgap._locks import acquire, release, sole_writer_of

BUSY = r"Another process is writing to .*Wait until it is done"


@pytest.fixture
def temporaries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for temporary files of our own."""
    folder = tmp_path / "temporaries"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture
def locks(temporaries: Path) -> Path:
    """The folder that locks are in."""
    return temporaries / f"modgap-{os.getuid()}"


def test_a_path_is_held_by_one_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "not there yet"
    another = tmp_path / "another"
    with (
        sole_writer_of(path),
        sole_writer_of(another),
        pytest.raises(ValueError, match=BUSY),
        sole_writer_of(path),
    ):
        pass
    with sole_writer_of(path):
        pass
    assert list(tmp_path.iterdir()) == []


def test_locks_are_in_a_private_folder_and_gone_when_free(tmp_path: Path, locks: Path) -> None:
    with sole_writer_of(tmp_path / "a"), sole_writer_of(tmp_path / "b"):
        assert stat.S_IMODE(locks.stat().st_mode) == 0o700
        assert len(everything_in(locks)) == 2
    assert everything_in(locks.parent) == {locks.name}


@pytest.mark.parametrize("kind", ["a link", "open to others", "another user's", "a file"])
def test_a_folder_that_is_not_private_is_refused(
    tmp_path: Path, locks: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    if kind == "a link":
        locks.symlink_to(elsewhere)
    elif kind == "a file":
        locks.touch()
    else:
        locks.mkdir(mode=0o700)
    if kind == "open to others":
        locks.chmod(0o770)
    if kind == "another user's":
        locks.rename(locks.with_name("modgap-4321"))
        monkeypatch.setattr(os, "getuid", lambda: 4321)
    said = r"Locks are kept in .*modgap-\d+, which must be a folder of your own .*TMPDIR"
    with pytest.raises(ValueError, match=said), sole_writer_of(tmp_path / "a"):
        pass
    assert everything_in(elsewhere) == set()


def test_a_lock_is_not_followed_through_a_link(tmp_path: Path, locks: Path) -> None:
    with sole_writer_of(tmp_path / "a"):
        (lock,) = locks.iterdir()
    precious = tmp_path / "precious"
    precious.write_text("kept")
    lock.symlink_to(precious)
    with (
        pytest.raises(ValueError, match=r"a cannot be locked for writing: .* cannot be used"),
        sole_writer_of(tmp_path / "a"),
    ):
        pass
    assert precious.read_text() == "kept"
    lock.unlink()
    lock.symlink_to(tmp_path / "not there")
    with pytest.raises(ValueError, match="cannot be locked"), sole_writer_of(tmp_path / "a"):
        pass
    assert not (tmp_path / "not there").exists()


def test_two_names_of_one_file_give_one_lock(
    tmp_path: Path, temporaries: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder")
    file = tmp_path / "folder" / "file"
    with sole_writer_of(file):
        for other in ("folder/file", "link/file", "folder/../link/./file"):
            with pytest.raises(ValueError, match=BUSY), sole_writer_of(other):
                pass
    file.touch()
    (tmp_path / "hard").hardlink_to(file)
    with sole_writer_of(file), pytest.raises(ValueError, match=BUSY), sole_writer_of("hard"):
        pass
    assert list(temporaries.glob("*/*")) == []


def test_a_lock_that_is_removed_while_it_is_opened_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else two would hold it: one the file that is gone, one the file that took its name."""
    path = tmp_path / "lock"
    first = acquire(path)
    assert first is not None
    take = _locks._lock

    def late(opened: int) -> None:
        monkeypatch.undo()
        release(first, path)  # after the second has opened the file, before it has locked it
        take(opened)

    monkeypatch.setattr(_locks, "_lock", late)
    second = acquire(path)
    assert second is not None
    assert os.path.samestat(os.fstat(second), path.stat())
    assert acquire(path) is None
    release(second, path)
    assert list(tmp_path.iterdir()) == []


HOLD = """
import os, sys, time
from modgap._locks import sole_writer_of
with sole_writer_of(sys.argv[1]):
    read, write = os.pipe()
    child = os.fork()
    if child:
        os.read(read, 1)  # the worker runs
        print(child, flush=True)
    else:
        os.write(write, b"1")
    time.sleep(60)
"""


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A process that holds a path, and a worker of it that lives on."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path / "a")], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    worker = int(process.stdout.readline())
    yield process, worker
    os.kill(worker, signal.SIGKILL)
    process.stdout.close()


def test_a_killed_process_holds_nothing_even_where_its_workers_live_on(
    tmp_path: Path, holder: tuple[subprocess.Popen[str], int]
) -> None:
    with pytest.raises(ValueError, match=BUSY), sole_writer_of(tmp_path / "a"):
        pass
    holder[0].kill()
    holder[0].wait()
    with sole_writer_of(tmp_path / "a"):
        pass
