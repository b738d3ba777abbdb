"""Files appear whole or not at all."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np
import pytest

from modgap._files import atomic_folder, atomic_path, sole_writer_of, write_text
from modgap._tensors import read_tensors, write_tensors


@pytest.fixture(params=[0o022, 0o077, 0o002], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def fail_in(block: AbstractContextManager[Path], error: type[BaseException]) -> None:
    """Write something half-way, then fail."""
    with block as temporary:
        half = temporary / "0.npy" if temporary.is_dir() else temporary
        half.write_bytes(b"half")
        raise error


def test_a_file_takes_its_name_when_the_block_ends(tmp_path: Path) -> None:
    target = tmp_path / "new" / "rows.bin"
    with atomic_path(target) as temporary:
        temporary.write_bytes(b"whole")
        assert not target.exists()
    assert target.read_bytes() == b"whole"
    assert list(target.parent.iterdir()) == [target]


def test_the_temporary_file_is_beside_the_target_and_keeps_its_suffix(tmp_path: Path) -> None:
    # Beside it, because a rename is one step only within a file system.
    with atomic_path(tmp_path / "rows.parquet") as temporary:
        assert temporary.suffix == ".parquet"
        assert temporary.parent == tmp_path
        assert temporary.name.startswith(".")


def test_an_existing_file_is_replaced_only_at_the_end(tmp_path: Path) -> None:
    target = tmp_path / "rows.bin"
    target.write_bytes(b"old")
    with atomic_path(target) as temporary:
        temporary.write_bytes(b"new")
        assert target.read_bytes() == b"old"
    assert target.read_bytes() == b"new"


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_an_error_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, error: type[BaseException]
) -> None:
    target = tmp_path / "rows.bin"
    target.write_bytes(b"old")
    with pytest.raises(error):
        fail_in(atomic_path(target), error)
    assert target.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [target]


def test_an_error_on_the_way_to_a_new_file_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(ValueError):
        fail_in(atomic_path(tmp_path / "rows.bin"), ValueError)
    assert list(tmp_path.iterdir()) == []


def test_a_target_that_cannot_be_replaced_leaves_no_temporary_file(tmp_path: Path) -> None:
    target = tmp_path / "folder"
    target.mkdir()
    with pytest.raises(IsADirectoryError), atomic_path(target) as temporary:
        temporary.write_bytes(b"whole")
    assert list(tmp_path.iterdir()) == [target]


def test_a_file_gets_the_permissions_any_other_would(tmp_path: Path, umask: int) -> None:
    write_text(tmp_path / "ours.txt", "ours")
    (tmp_path / "plain.txt").write_text("plain")
    ours, plain = (stat.S_IMODE((tmp_path / f"{n}.txt").stat().st_mode) for n in ("ours", "plain"))
    assert ours == plain == 0o666 & ~umask


def test_asking_for_the_umask_does_not_change_it(tmp_path: Path, umask: int) -> None:
    write_text(tmp_path / "file.txt", "text")
    now = os.umask(umask)
    assert now == umask


def test_text_is_written_as_utf_8(tmp_path: Path) -> None:
    write_text(tmp_path / "file.md", "τ → σ\n")
    assert (tmp_path / "file.md").read_bytes() == "τ → σ\n".encode()


def test_a_folder_takes_its_name_when_the_block_ends(tmp_path: Path, umask: int) -> None:
    target = tmp_path / "new" / "shards"
    with atomic_folder(target) as temporary:
        (temporary / "0.npy").write_bytes(b"whole")
        assert not target.exists()
        assert temporary.parent == target.parent
    assert (target / "0.npy").read_bytes() == b"whole"
    assert list(target.parent.iterdir()) == [target]
    assert stat.S_IMODE(target.stat().st_mode) == 0o777 & ~umask


def test_a_folder_replaces_an_empty_one(tmp_path: Path) -> None:
    target = tmp_path / "shards"
    target.mkdir()
    with atomic_folder(target) as temporary:
        (temporary / "0.npy").write_bytes(b"whole")
    assert [path.name for path in target.iterdir()] == ["0.npy"]


def test_a_folder_never_replaces_one_that_holds_something(tmp_path: Path) -> None:
    target = tmp_path / "shards"
    target.mkdir()
    (target / "precious").write_bytes(b"old")
    with pytest.raises(OSError, match="not empty"), atomic_folder(target) as temporary:
        (temporary / "0.npy").write_bytes(b"new")
    assert [path.name for path in target.iterdir()] == ["precious"]
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_error_leaves_no_folder(tmp_path: Path, error: type[BaseException]) -> None:
    with pytest.raises(error):
        fail_in(atomic_folder(tmp_path / "shards"), error)
    assert list(tmp_path.iterdir()) == []


def test_a_durable_file_is_on_the_disk_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[tuple[bool, bool]] = []

    def fsync(opened: int) -> None:
        is_folder = stat.S_ISDIR(os.fstat(opened).st_mode)
        flushed.append((is_folder, (tmp_path / "a.bin").exists()))

    monkeypatch.setattr(os, "fsync", fsync)
    with atomic_path(tmp_path / "a.bin", durable=True) as temporary:
        temporary.write_bytes(b"whole")
    assert flushed == [(False, False), (True, True)]


def test_a_path_is_held_by_one_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "not there yet"
    busy = r"Another process is writing to .*Wait until it is done"
    another = tmp_path / "another"
    with (
        sole_writer_of(path),
        sole_writer_of(another),
        pytest.raises(ValueError, match=busy),
        sole_writer_of(path),
    ):
        pass
    with sole_writer_of(path):
        pass
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("durable", [False, True])
def test_tensors_come_back_in_their_shapes(tmp_path: Path, durable: bool) -> None:
    tensors = {"a": np.arange(6.0).reshape(2, 3).T, "n": np.array(3), "none": np.zeros((0, 2))}
    write_tensors(tmp_path / "t", "test", tensors, {"step": 4}, durable=durable)
    header, found = read_tensors(tmp_path / "t", "test")
    assert header["step"] == 4
    for name, value in tensors.items():
        np.testing.assert_array_equal(found[name], value, strict=True)


def test_a_flipped_bit_of_a_durable_file_is_found(tmp_path: Path) -> None:
    write_tensors(tmp_path / "t", "test", {"a": np.ones(4)}, {}, durable=True)
    stored = bytearray((tmp_path / "t").read_bytes())
    stored[-1] ^= 1
    (tmp_path / "t").write_bytes(stored)
    with pytest.raises(ValueError, match="is damaged: its numbers are not those that were written"):
        read_tensors(tmp_path / "t", "test")
