"""Files appear whole or not at all."""

from __future__ import annotations

import errno
import os
import socket
import stat
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from command_line import everything_in
from modgap.core.checks import InputValueError
from modgap.core.files import (
    WriteError,
    atomic_folder,
    atomic_path,
    sweep,
    write_text,
)
from modgap.core.tensor_file import read_tensors, write_tensors


@pytest.fixture(params=[0o022, 0o077, 0o002], ids=oct)
def umask(request):
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def fail_in(block, error):
    """Write something half-way, then fail."""
    with block as temporary:
        half = temporary / "0.npy" if temporary.is_dir() else temporary
        half.write_bytes(b"half")
        raise error


def test_a_file_takes_its_name_when_the_block_ends(tmp_path):
    target = tmp_path / "new" / "rows.bin"
    with atomic_path(target) as temporary:
        temporary.write_bytes(b"whole")
        assert not target.exists()
    with atomic_path(target) as temporary:
        temporary.write_bytes(b"new")
        assert target.read_bytes() == b"whole"
    assert target.read_bytes() == b"new"
    assert list(target.parent.iterdir()) == [target]


def test_the_temporary_file_is_beside_the_target_and_keeps_its_suffix(tmp_path):
    # Beside it, because a rename is one step only within a file system.
    with atomic_path(tmp_path / "rows.parquet") as temporary:
        assert temporary.suffix == ".parquet"
        assert temporary.parent.parent == tmp_path
        assert temporary.parent.name.startswith(".")
        assert stat.S_IMODE(temporary.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_an_error_leaves_the_old_file_and_nothing_else(tmp_path, error):
    target = tmp_path / "rows.bin"
    target.write_bytes(b"old")
    with pytest.raises(error):
        fail_in(atomic_path(target), error)
    assert target.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("step", ["os.open", "fcntl.flock", "os.fstat", "os.chmod", "os.fsync"])
def test_an_interruption_at_any_step_leaves_no_folder_of_work(tmp_path, monkeypatch, step):
    def interrupted(*_, **__):
        monkeypatch.undo()
        raise KeyboardInterrupt

    monkeypatch.setattr(step, interrupted)
    with pytest.raises(KeyboardInterrupt), atomic_path(tmp_path / "x.npy"):
        pass
    assert everything_in(tmp_path) == set()


def make(kind, path):
    """Something at a path that is no file."""
    if kind == "a folder":
        path.mkdir()
    elif kind == "a pipe":
        os.mkfifo(path)
    elif kind == "a socket":
        socket.socket(socket.AF_UNIX).bind(os.path.relpath(path))  # long paths do not fit
    else:
        path.symlink_to("/dev/null")


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
@pytest.mark.parametrize("kind", ["a folder", "a pipe", "a socket", "a device"])
def test_what_is_no_file_is_refused_before_anything_is_written(tmp_path, kind, monkeypatch):
    monkeypatch.chdir(tmp_path)
    target = tmp_path / "target"
    make(kind, target)
    before = target.lstat()
    said = f"target is {kind}, where a file is to be written. Choose another place.$"
    with pytest.raises(InputValueError, match=said), atomic_path(target):
        pytest.fail("it was let in")
    # One that comes while the file is being written.
    with pytest.raises(InputValueError, match=said), atomic_path(tmp_path / "late" / "target"):
        make(kind, tmp_path / "late" / "target")
    assert os.path.samestat(before, target.lstat())
    assert everything_in(tmp_path) == {"target", "late", "late/target"}
    for folder in (atomic_folder, partial(atomic_folder, replace=True)):
        if kind != "a folder":
            with pytest.raises(InputValueError, match="where a folder is to be"), folder(target):
                pytest.fail("it was let in")


def test_a_device_is_not_replaced_even_by_root():
    with pytest.raises(InputValueError, match="/dev/null is a device, where a file is to be"):
        write_text("/dev/null", "text")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_a_link_stays_one_and_what_it_points_at_is_replaced(tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "first").symlink_to("second")
    (tmp_path / "second").symlink_to(tmp_path / "there" / "file")
    for text in ("new", "replaced"):  # a link may point at what is not there yet
        write_text(tmp_path / "first", text)
        assert (tmp_path / "first").readlink() == Path("second")
        assert not (tmp_path / "there" / "file").is_symlink()
        assert (tmp_path / "there" / "file").read_text() == text
    (tmp_path / "folder").symlink_to("there")
    with atomic_folder(tmp_path / "folder", replace=True) as temporary:
        (temporary / "only").touch()
    assert everything_in(tmp_path) == {"first", "second", "there", "folder", "there/only"}
    assert (tmp_path / "folder").is_symlink()


def test_a_link_that_leads_nowhere_is_refused(tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(WriteError, match="loop cannot be written: Too many levels of symbolic"):
        write_text(tmp_path / "loop", "text")


def test_a_link_that_another_user_made_is_not_followed(tmp_path, monkeypatch):
    (tmp_path / "precious").write_text("old")
    (tmp_path / "link").symlink_to("precious")
    if os.geteuid() == 0:
        os.lchown(tmp_path / "link", 4321, 4321)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 4321)
    with pytest.raises(InputValueError, match="link is a link that another user made"):
        write_text(tmp_path / "link", "new")
    assert (tmp_path / "precious").read_text() == "old"


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664])
def test_an_existing_file_keeps_its_permissions(tmp_path, mode, umask):
    target = tmp_path / "file"
    target.write_text("old")
    target.chmod(mode)
    write_text(target, "new")
    assert stat.S_IMODE(target.stat().st_mode) == mode
    folder = tmp_path / "folder"
    folder.mkdir()
    folder.chmod(mode | 0o100)
    with atomic_folder(folder, replace=True):
        pass
    assert stat.S_IMODE(folder.stat().st_mode) == mode | 0o100


@pytest.mark.parametrize("mode", [0o400, 0o444, 0o555])
def test_a_file_without_write_permission_is_not_replaced(tmp_path, mode):
    target = tmp_path / "file"
    target.write_text("old")
    target.chmod(mode)
    with pytest.raises(WriteError, match="file cannot be written: Permission denied"):
        write_text(target, "new")
    assert target.read_text() == "old"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_an_existing_file_keeps_its_owner(tmp_path):
    target = tmp_path / "file"
    target.write_text("old")
    os.chown(target, 4321, 4322)
    write_text(target, "new")
    assert (target.stat().st_uid, target.stat().st_gid) == (4321, 4322)


def test_a_file_gets_the_permissions_any_other_would(tmp_path, umask):
    write_text(tmp_path / "ours.txt", "ours")
    (tmp_path / "plain.txt").write_text("plain")
    ours, plain = (stat.S_IMODE((tmp_path / f"{n}.txt").stat().st_mode) for n in ("ours", "plain"))
    assert ours == plain == 0o666 & ~umask


def test_a_writer_that_makes_private_files_does_not_change_the_permissions(tmp_path, umask):
    with atomic_path(tmp_path / "file") as temporary:
        temporary.unlink()
        os.close(os.open(temporary, os.O_CREAT | os.O_WRONLY, 0o600))
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o666 & ~umask


def test_the_umask_is_never_touched(tmp_path, monkeypatch):
    # It belongs to the process: another thread would write its files with ours.
    monkeypatch.setattr(os, "umask", lambda _: pytest.fail("the umask was changed"))
    write_text(tmp_path / "file.txt", "text")
    for block in (atomic_folder, partial(atomic_folder, replace=True)):
        with block(tmp_path / "folder"):
            pass


def test_text_is_written_as_utf_8(tmp_path):
    write_text(tmp_path / "file.md", "τ → σ\n")
    assert (tmp_path / "file.md").read_bytes() == "τ → σ\n".encode()


def test_a_folder_takes_its_name_when_the_block_ends(tmp_path, umask):
    target = tmp_path / "new" / "shards"
    with atomic_folder(target) as temporary:
        (temporary / "0.npy").write_bytes(b"whole")
        assert not target.exists()
        assert temporary.parent.parent == target.parent
    assert (target / "0.npy").read_bytes() == b"whole"
    assert list(target.parent.iterdir()) == [target]
    assert stat.S_IMODE(target.stat().st_mode) == 0o777 & ~umask


def test_a_folder_replaces_an_empty_one(tmp_path):
    target = tmp_path / "shards"
    target.mkdir()
    with atomic_folder(target) as temporary:
        (temporary / "0.npy").write_bytes(b"whole")
    assert [path.name for path in target.iterdir()] == ["0.npy"]


def test_a_folder_never_replaces_one_that_holds_something(tmp_path):
    target = tmp_path / "shards"
    target.mkdir()
    (target / "precious").write_bytes(b"old")
    with pytest.raises(WriteError, match="not empty"), atomic_folder(target) as temporary:
        (temporary / "0.npy").write_bytes(b"new")
    assert [path.name for path in target.iterdir()] == ["precious"]
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_error_leaves_no_folder(tmp_path, error):
    with pytest.raises(error):
        fail_in(atomic_folder(tmp_path / "shards"), error)
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def flushed(monkeypatch):
    """The files flushed so far, and what was in the folder above the temporary one by then."""
    found = []

    def fsync(opened):
        found.append((os.fstat(opened).st_ino, {p.name for p in Path.cwd().iterdir()}))

    monkeypatch.setattr(os, "fsync", fsync)
    return found


def test_a_file_is_on_the_disk_before_it_has_its_name_and_its_name_after(
    tmp_path, monkeypatch, flushed
):
    monkeypatch.chdir(tmp_path)
    write_text("a.bin", "whole")
    (file, before), (folder, after) = flushed
    assert (file, folder) == (Path("a.bin").stat().st_ino, tmp_path.stat().st_ino)
    assert "a.bin" not in before
    assert after == {"a.bin"}


@pytest.mark.parametrize("block", [atomic_folder, partial(atomic_folder, replace=True)])
def test_all_of_a_folder_is_on_the_disk_before_it_has_its_name(
    tmp_path, monkeypatch, flushed, block
):
    monkeypatch.chdir(tmp_path)
    with block("shards") as temporary:
        (temporary / "images").mkdir()
        (temporary / "images" / "0.npy").write_bytes(b"whole")
        (temporary / "1.npy").write_bytes(b"whole")
    *inside, (last, after) = flushed
    assert {number for number, _ in inside} == {
        path.stat().st_ino for path in (Path("shards"), *Path("shards").rglob("*"))
    }
    assert all("shards" not in before for _, before in inside)
    assert (last, after) == (tmp_path.stat().st_ino, {"shards"})


def leave_behind(target):
    """What a process that is killed while it writes to a target leaves behind."""
    block = atomic_path(target)
    place = block.__enter__().parent
    kept = place.with_name(f"{place.name}-kept")
    place.rename(kept)
    block.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)
    return kept.rename(place)


def test_what_a_killed_process_left_is_removed_by_the_next_to_write_there(tmp_path):
    target = tmp_path / "rows.npy"
    left, other = leave_behind(target), leave_behind(tmp_path / "another.npy")
    assert (left / "new.npy").exists()
    with atomic_path(target) as temporary:
        assert not left.exists()
        temporary.write_text("whole")
        # What is being written is locked, and left alone.
        with atomic_path(target) as second:
            second.write_text("second")
            sweep(tmp_path)
            assert not other.exists()
            assert len(list(tmp_path.iterdir())) == 2
    assert target.read_text() == "whole"
    assert list(tmp_path.iterdir()) == [target]


def test_a_folder_that_a_killed_process_had_moved_aside_gets_its_name_back(tmp_path):
    target = tmp_path / "folder"
    left = leave_behind(target)
    (left / "old").mkdir()
    (left / "old" / "file").write_text("old")
    sweep(tmp_path)  # without knowing whose it is, it is kept
    with pytest.raises(ValueError):
        fail_in(atomic_folder(target, replace=True), ValueError)
    assert (target / "file").read_text() == "old"
    assert everything_in(tmp_path) == {"folder", "folder/file"}


def test_a_folder_is_put_back_where_its_successor_cannot_have_its_name(tmp_path, monkeypatch):
    target = tmp_path / "folder"
    target.mkdir()
    (target / "file").write_text("old")
    rename, calls = os.replace, iter(range(9))

    def second_fails(*paths):
        if next(calls) == 1:
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(target))
        rename(*paths)

    monkeypatch.setattr(os, "replace", second_fails)
    with (
        pytest.raises(WriteError, match="folder cannot be written"),
        atomic_folder(target, replace=True),
    ):
        pass
    assert (target / "file").read_text() == "old"
    assert everything_in(tmp_path) == {"folder", "folder/file"}


@pytest.mark.parametrize("checksum", [False, True])
def test_tensors_come_back_in_their_shapes(tmp_path, checksum):
    tensors = {"a": np.arange(6.0).reshape(2, 3).T, "n": np.array(3), "none": np.zeros((0, 2))}
    write_tensors(tmp_path / "t", "test", tensors, {"step": 4}, checksum=checksum)
    header, found = read_tensors(tmp_path / "t", "test")
    assert header["step"] == 4
    for name, value in tensors.items():
        np.testing.assert_array_equal(found[name], value, strict=True)


def test_a_flipped_bit_is_found_by_the_checksum(tmp_path):
    write_tensors(tmp_path / "t", "test", {"a": np.ones(4)}, {}, checksum=True)
    stored = bytearray((tmp_path / "t").read_bytes())
    stored[-1] ^= 1
    (tmp_path / "t").write_bytes(stored)
    with pytest.raises(ValueError, match="is damaged: its numbers are not those that were written"):
        read_tensors(tmp_path / "t", "test")
