"""Write files so that neither a kill, a full disk nor a power cut leaves one half-written.

Whatever is written is first whole in a hidden folder beside its place, and on the disk, and then
takes its name in one step. Such a folder is removed at the end; what a killed process has left is
removed by the next one that writes to the same place.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from modgap.core.checks import InputError, InputValueError
from modgap.core.locks import NO_LOCKS, acquire, release

FULL = (errno.ENOSPC, errno.EDQUOT)
# Errors that only writing can meet.
_WRITING = (*FULL, errno.EFBIG, errno.EROFS)
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFREG: "a file",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
}
# A scheme of at least two letters: C:/ is a disk. Of two slashes a path keeps one.
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
_NEW, _OLD, _LOCK = "new", "old", "lock"


class WriteError(InputError, OSError):
    """What the disk refuses to take, in a sentence; ``errno`` says why, as for any OSError."""

    def __init__(self, path: str | os.PathLike[str], number: int) -> None:
        room = " Free some room and run it again." if number in FULL else ""
        super().__init__(f"{os.fspath(path)} cannot be written: {os.strerror(number)}.{room}")
        self.path, self.errno = Path(path), number


@contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary file that takes the place of ``path`` once the block ends without an error.

    It keeps the suffix of ``path``, because some writers choose by it. A file that is there keeps
    its permissions, and a link to it stays one. Anything else that is there is refused.
    """
    target = file_to_write(path)
    with _workspace(path, target) as place:
        temporary = place / f"{_NEW}{target.suffix}"
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        mode = temporary.stat().st_mode & 0o777
        yield temporary
        # Some writers make files private; the finished file gets the permissions any other would.
        os.chmod(temporary, mode)
        _keep_permissions(temporary, file_to_write(target))
        _flush(temporary)
        os.replace(temporary, target)


@contextmanager
def atomic_folder(path: str | os.PathLike[str], *, replace: bool = False) -> Iterator[Path]:
    """A temporary folder that takes the name ``path`` once the block ends without an error.

    ``path`` must not exist yet, or be an empty folder. With ``replace`` the new folder takes the
    place of ``path`` and of all in it. After an error the old folder is there as it was; a kill
    between the two renames leaves it aside, and the next one to write here puts it back first.
    """
    target = folder_to_write(path)
    with _workspace(path, target) as place:
        temporary = place / _NEW
        temporary.mkdir()
        try:
            yield temporary
            _settle_folder(temporary, target)
            if replace and target.exists():
                os.replace(target, place / _OLD)
            os.replace(temporary, target)
        except BaseException:
            _put_back(place, target)
            raise


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a text file in one step."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def file_to_write(path: str | os.PathLike[str]) -> Path:
    """Where a file is written: ``path``, or what it links to.

    Refuses what is there and no file, and a file that may not be written to: its folder would let
    another take its place all the same.
    """
    target = _checked(path, "a file")
    # root may write to any file, and still somebody has protected this one.
    if target.exists() and not (target.stat().st_mode & 0o222 and os.access(target, os.W_OK)):
        raise WriteError(path, errno.EACCES)
    return target


def folder_to_write(path: str | os.PathLike[str]) -> Path:
    """Where a folder is written: ``path``, or what it links to. Refuses what is no folder."""
    return _checked(path, "a folder")


def refuse_url(path: str | os.PathLike[str]) -> None:
    """Refuse a URL to write to, which would be made a folder called ``s3:`` here."""
    given = os.fspath(path)
    if isinstance(given, str) and _URL.match(given) and Path(given).parts[0] not in os.listdir():
        raise InputValueError(
            f"modgap writes to disks only, got {given}. Write to a folder, and copy that."
        )


def kind_of(path: Path) -> str:
    """What is there, in words: a file, a folder, a device."""
    return _KINDS.get(stat.S_IFMT(path.stat().st_mode), "something else")


def errno_of(error: BaseException) -> int | None:
    """The system's number for what went wrong, where a library has put it into words of its own.

    >>> errno_of(RuntimeError("LanceError(IO): No space left on device (os error 28)"))
    28
    """
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno
    if error.__context__ is not None and (number := errno_of(error.__context__)) is not None:
        return number
    said = str(error).lower()
    if found := re.search(r"\b(?:os error|errno) (\d+)", said):
        return int(found[1])
    full = any(words in said for words in ("no space left", "disk is full"))
    return errno.ENOSPC if full else errno.EDQUOT if "quota exceeded" in said else None


def _checked(path: str | os.PathLike[str], wanted: str) -> Path:
    refuse_url(path)
    target = _followed(Path(path).absolute())
    if target.exists() and (found := kind_of(target)) != wanted:
        raise InputValueError(
            f"{os.fspath(path)} is {found}, where {wanted} is to be written. Choose another place."
        )
    return target


def _followed(path: Path) -> Path:
    """What a link points at in the end; another user's link may point anywhere, so is refused."""
    for _ in range(40):
        if not path.is_symlink():
            return path
        owner = path.lstat().st_uid
        if os.name != "nt" and owner not in (0, os.geteuid()):
            raise InputValueError(f"{path} is a link that another user made. It is not followed.")
        path = path.parent / os.readlink(path)
    raise WriteError(path, errno.ELOOP)


@contextmanager
def _workspace(given: str | os.PathLike[str], target: Path) -> Iterator[Path]:
    """A hidden folder beside ``target`` that nobody else enters, locked while it is used."""
    place = target
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        sweep(target.parent, target)
        with _claimed(target) as place:
            try:
                yield place
            except Exception as error:
                if not isinstance(error, InputError) and errno_of(error) is None:
                    # Some writers do not say why they failed: a full disk does when it is asked.
                    with (place / "asked").open("wb") as file:
                        file.write(bytes(1 << 16))
                        file.flush()
                        os.fsync(file.fileno())
                raise
    except Exception as error:
        number = _refused(error, target, place)
        if number is None:
            raise
        raise WriteError(given, number) from error
    with suppress(OSError):  # not every system can flush a folder, which holds the name
        _flush(target.parent)


def sweep(folder: Path, target: Path | None = None) -> None:
    """Remove what killed processes had begun to write in a folder, or only for one target there.

    What is still being written is locked, and left alone.
    """
    mark = ".modgap-" if target is None else _mark(target)
    with suppress(OSError):
        for entry in os.scandir(folder):
            if not entry.name.startswith(mark) or not entry.is_dir(follow_symlinks=False):
                continue
            place, lock = Path(entry.path), None
            with suppress(OSError):
                lock = acquire(place / _LOCK)
            if lock is None:
                continue
            if target is not None:
                _put_back(place, target)
            release(lock)
            if target is not None or not (place / _OLD).exists():
                shutil.rmtree(place, ignore_errors=True)


def _put_back(place: Path, target: Path) -> None:
    """A folder that was moved aside, and whose successor did not come, gets its name back."""
    if (place / _OLD).exists() and not target.exists():
        os.replace(place / _OLD, target)


@contextmanager
def _claimed(target: Path) -> Iterator[Path]:
    """A new folder beside ``target``, locked where the file system knows locks; then removed.

    Its name is known before it is made, so an interruption at any moment finds it.
    """
    place, lock = target, None
    claimed = False
    try:
        while not claimed:
            place = target.parent / f"{_mark(target)}{secrets.token_hex(8)}"
            place.mkdir(mode=0o700)
            try:
                lock = acquire(place / _LOCK)
                claimed = lock is not None
            except FileNotFoundError:  # swept away by another before it was locked
                continue
            except OSError as error:
                claimed = error.errno in NO_LOCKS
                if not claimed:
                    raise
        yield place
    finally:
        if lock is not None:
            release(lock)
        if place != target:
            shutil.rmtree(place, ignore_errors=True)


def _mark(target: Path) -> str:
    return f".modgap-{hashlib.sha256(os.fsencode(target.name)).hexdigest()[:8]}-"


def _refused(error: Exception, target: Path, place: Path) -> int | None:
    """The number of an error that writing met; None where it is about something else."""
    if isinstance(error, WriteError):
        # Of a file inside a folder: its own name there says nothing.
        return error.errno if place in error.path.absolute().parents else None
    number = None if isinstance(error, InputError) else errno_of(error)
    if number in _WRITING:
        return number
    named = {getattr(error, name, None) for name in ("filename", "filename2")}
    ours = {target, *target.parents}
    for path in (Path(os.fsdecode(name)) for name in named if isinstance(name, str | bytes)):
        if path in ours or place in (path, *path.parents):
            return number
    return None


def _keep_permissions(path: Path, target: Path) -> None:
    """A finished file or folder gets the permissions of the one it replaces, if there is one."""
    with suppress(FileNotFoundError):
        before = target.stat()
        now = path.stat()
        if os.name != "nt" and (before.st_uid, before.st_gid) != (now.st_uid, now.st_gid):
            with suppress(OSError):
                os.chown(path, before.st_uid, before.st_gid)
        os.chmod(path, before.st_mode & 0o777)


def _settle_folder(folder: Path, target: Path) -> None:
    """Flush a finished folder and all in it."""
    _keep_permissions(folder, target)
    for place, _, files in os.walk(folder, topdown=False):
        for name in files:
            _flush(Path(place, name))
        with suppress(OSError):
            _flush(Path(place))


def _flush(path: Path) -> None:
    # Windows flushes only what is open for writing, and no folders.
    opened = os.open(path, os.O_RDWR if os.name == "nt" else os.O_RDONLY)
    try:
        os.fsync(opened)
    except OSError as error:
        raise OSError(error.errno, error.strerror, os.fspath(path)) from error
    finally:
        os.close(opened)
