"""One writer at a time, and nothing of it left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from command_line import everything_in
from modgap.core import locks
from modgap.core.locks import acquire, release, sole_writer_of

BUSY = r"Another process is writing to .*Wait until it is done"


def test_a_path_is_held_by_one_at_a_time(tmp_path):
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


def test_the_lock_is_one_hidden_file_beside_the_path_and_gone_when_free(tmp_path):
    (tmp_path / "folder").mkdir()
    with sole_writer_of(tmp_path / "folder"), sole_writer_of(tmp_path / "b.npy"):
        assert everything_in(tmp_path) == {"folder", ".folder.lock", ".b.npy.lock"}
    assert everything_in(tmp_path) == {"folder"}


def test_folders_on_the_way_are_made_and_stay_only_where_something_was_written(tmp_path):
    with sole_writer_of(tmp_path / "new" / "newer" / "a"):
        assert everything_in(tmp_path) == {"new", "new/newer", "new/newer/.a.lock"}
    assert everything_in(tmp_path) == set()
    with sole_writer_of(tmp_path / "new" / "newer" / "a"):
        (tmp_path / "new" / "b").touch()
    assert everything_in(tmp_path) == {"new", "new/b"}


def test_a_folder_with_nothing_beside_it_is_locked_inside(tmp_path, monkeypatch):
    folder = tmp_path / "folder"
    folder.mkdir()
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != tmp_path)
    with sole_writer_of(folder):
        assert everything_in(tmp_path) == {"folder", "folder/.lock"}
        with pytest.raises(ValueError, match=BUSY), sole_writer_of(folder):
            pass
    assert everything_in(tmp_path) == {"folder"}


def test_a_place_that_cannot_be_locked_is_refused(tmp_path):
    (tmp_path / "file").touch()
    with (
        pytest.raises(ValueError, match=r"a cannot be locked for writing: .*file cannot be used"),
        sole_writer_of(tmp_path / "file" / "a"),
    ):
        pass


@pytest.mark.parametrize("number", locks.NO_LOCKS)
def test_a_file_system_without_locks_is_written_without_one(tmp_path, monkeypatch, number):
    def refuse(opened, kind):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("fcntl.flock", refuse)
    with sole_writer_of(tmp_path / "a"), sole_writer_of(tmp_path / "a"):
        (tmp_path / "a").touch()


def test_a_lock_is_not_followed_through_a_link(tmp_path):
    lock = tmp_path / ".a.lock"
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


def test_two_names_of_one_file_give_one_lock(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder")
    with sole_writer_of(tmp_path / "folder" / "file"):
        for other in ("folder/file", "link/file", "folder/../link/./file"):
            with pytest.raises(ValueError, match=BUSY), sole_writer_of(other):
                pass
    assert everything_in(tmp_path) == {"folder", "link"}


def test_a_lock_that_is_removed_while_it_is_opened_holds_nobody_out(tmp_path, monkeypatch):
    """Else two would hold it: one the file that is gone, one the file that took its name."""
    import fcntl

    path = tmp_path / "lock"
    first = acquire(path)
    assert first is not None
    take = fcntl.flock

    def late(opened, kind):
        monkeypatch.undo()
        release(first)  # after the second has opened the file, before it has locked it
        take(opened, kind)

    monkeypatch.setattr("fcntl.flock", late)
    assert acquire(path) is None
    third = acquire(path)
    assert third is not None
    assert acquire(path) is None
    release(third)
    assert list(tmp_path.iterdir()) == []


HOLD = """
import os, sys, time
from modgap.core.locks import sole_writer_of
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
def holder(tmp_path):
    """A process that holds a path, and a worker of it that lives on."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path / "a")], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    worker = int(process.stdout.readline())
    yield process, worker
    os.kill(worker, signal.SIGKILL)
    process.stdout.close()


def test_a_killed_process_holds_nothing_even_where_its_workers_live_on(tmp_path, holder):
    with pytest.raises(ValueError, match=BUSY), sole_writer_of(tmp_path / "a"):
        pass
    holder[0].kill()
    holder[0].wait()
    with sole_writer_of(tmp_path / "a"):
        pass
    assert everything_in(tmp_path) == set()
