"""Files and folders at any URL that fsspec knows: read by ranges, and only those that were named.

Nothing is written or kept on the disk. A file must stay as it is while it is read: its size and
what its store says of it (an ETag, a time) are looked at before each block. Where the network
fails, it is asked a few times more.
"""

from __future__ import annotations

import errno
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from fnmatch import fnmatchcase
from io import RawIOBase
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from modgap._ahead import ahead
from modgap._changes import ChangedFileError, SteadyFile, changed, spans
from modgap._claims import TEXT_BYTES, parse_json, read_json
from modgap._errors import InputError, InputValueError, MissingExtraError
from modgap._secrets import sentence_without_secrets, without_secrets
from modgap._validate import first_line, require

T = TypeVar("T")

# Requests at once, and what each asks for.
_REQUESTS, _BLOCK_BYTES = 8, 8 * 1024**2
# Single rows: those so near to each other are asked for together, up to so many bytes.
_NEAR_BYTES, _SPAN_BYTES = 256 * 1024, 1024**2
# The least that is asked for: headers and lists of what a file holds are read in small pieces.
_LEAST_BYTES = 64 * 1024
# Seconds before each new attempt.
PAUSES = (0.2, 0.5, 1.5)
# What stores say of an object that changes with it: tags, which a listing has as well, and times.
_TAGS = ("ETag", "etag", "e_tag", "blob_id", "md5Hash", "generation")
_TIMES = ("Last-Modified", "LastModified", "last_modified", "mtime", "updated", "created")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*(::[A-Za-z][A-Za-z0-9+.-]*)*://")
_URL_AS_PATH = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/[^/]")
_WEB = ("http", "https")
_LATER = (408, 425, 429)


def is_url(given: object) -> bool:
    """Whether something is a URL, and not the path of a file."""
    return isinstance(given, str) and _URL.match(given) is not None


def place_of(given: Any) -> Path | RemotePath:
    """Where a path or a URL leads."""
    if isinstance(given, RemotePath):
        return given
    url = str(given) if is_url(given) else _from_path(Path(given))
    if not url:
        return Path(given)
    fsspec = require("fsspec", "remote", f"Reading {without_secrets(url)}")
    protocol = url.split("://")[0].split("::")[0]
    options: dict[str, Any] = {"use_listings_cache": False}
    if protocol in _WEB:
        options["client_kwargs"] = {"timeout": _patience()}
    try:
        system, key = fsspec.core.url_to_fs(url, **options)
    except ImportError as error:
        raise MissingExtraError(
            f"Reading {without_secrets(url)} needs a library that is not installed "
            f"({first_line(error).rstrip('.')}). Install it with pip."
        ) from error
    except (ValueError, OSError) as error:
        raise _unreadable(url, error) from error
    if protocol in ("file", "local"):
        return Path(key)
    return RemotePath(system, key, url)


def _from_path(path: Path) -> str:
    """The URL that was made a path, which keeps one slash of two; nothing where it was none."""
    if not _URL_AS_PATH.match(str(path)) or path.exists():
        return ""
    scheme, _, rest = str(path).partition(":/")
    return f"{scheme}:{'///' if scheme == 'file' else '//'}{rest}"


def _patience() -> Any:
    """No limit to a download, but to waiting for its next bytes."""
    aiohttp = require("aiohttp", "remote", "Reading https://", package="aiohttp")
    return aiohttp.ClientTimeout(total=None, sock_connect=20, sock_read=60)


class RemotePath:
    """What a URL names, with the few methods of a path that readers of formats use.

    What a folder holds is asked for once; web servers have no folders, and theirs are as a
    manifest says.
    """

    def __init__(
        self, system: Any, key: str, url: str, listings: dict[str, dict[str, Any]] | None = None
    ) -> None:
        self.system, self.key, self.url = system, key, url
        self.listings: dict[str, dict[str, Any]] = {} if listings is None else listings

    def __str__(self) -> str:
        return without_secrets(self.url)

    def __repr__(self) -> str:
        return f"RemotePath({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RemotePath) and self.url == other.url

    def __hash__(self) -> int:
        return hash(self.url)

    def __truediv__(self, name: str) -> RemotePath:
        return self._moved(lambda place: f"{place.rstrip('/')}/{name}")

    @property
    def parent(self) -> RemotePath:
        """The folder it is in."""
        return self._moved(lambda place: place.rstrip("/").rpartition("/")[0])

    @property
    def name(self) -> str:
        """The last part of it, without what follows a question mark."""
        return self._split(self.key)[0].rstrip("/").rpartition("/")[2]

    @property
    def suffix(self) -> str:
        """The ending of its name."""
        return Path(self.name).suffix

    @property
    def stem(self) -> str:
        """Its name without the ending."""
        return Path(self.name).stem

    @property
    def is_web(self) -> bool:
        """Whether a web server has it, which lists no folders."""
        return self.url.split("://")[0] in _WEB

    def with_suffix(self, suffix: str) -> RemotePath:
        """The one beside it with another ending."""
        return self.parent / f"{self.stem}{suffix}"

    def exists(self) -> bool:
        """Whether there is anything."""
        return self.info() is not None

    def is_dir(self) -> bool:
        """Whether it is a folder."""
        if self.folder in self.listings:
            return True
        found = self.info()
        return found is not None and found["type"] == "directory"

    def is_file(self) -> bool:
        """Whether it is a file."""
        found = self.info()
        return found is not None and found["type"] != "directory"

    def glob(self, pattern: str) -> Iterator[RemotePath]:
        """The files and folders in it whose names are like the pattern."""
        for name in self.children():
            if fnmatchcase(name, pattern):
                yield self / name

    def children(self) -> dict[str, Any]:
        """What the store says of all that lies in it, by name; nothing where it is no folder."""
        folder = self.folder
        if folder not in self.listings:
            try:
                found = [] if self.is_web else asked(self, self.system.ls, self.key, detail=True)
            except (FileNotFoundError, NotADirectoryError):
                found = []
            own = {entry["name"].rstrip("/").rpartition("/")[2]: entry for entry in found}
            own.pop("", None)
            if len(found) == 1 and found[0]["name"].strip("/") == self.key.strip("/"):
                own = {}  # a file lists itself
            self.listings[folder] = own
        return self.listings[folder]

    def info(self) -> Any:
        """What the store says of it; None where nothing is there."""
        beside = self.listings.get(self.parent.folder)
        if beside is not None:
            return beside.get(self.name)
        return self.fresh_info()

    def fresh_info(self) -> Any:
        """The same, as it is now."""
        try:
            return asked(self, self.system.info, self.key)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def read(self, start: int, end: int, size: int) -> bytes:
        """The bytes of a range of a file that has ``size`` of them."""

        def fetch() -> bytes:
            if self.is_web:  # which says so where a server sends all instead of a range
                with self.system.open(
                    self.key, "rb", block_size=1, cache_type="none", size=size
                ) as file:
                    file.seek(start)
                    found = file.read(end - start)
            else:
                found = self.system.cat_file(self.key, start=start, end=end)
            if len(found) != end - start:
                raise ConnectionError(f"{len(found):,} of {end - start:,} bytes came")
            return found

        return asked(self, fetch)

    @property
    def folder(self) -> str:
        """What its listing is kept under."""
        return self._split(self.key)[0].strip("/")

    def _split(self, place: str) -> tuple[str, str]:
        """Without and with what follows the question mark of a web address."""
        bare, mark, query = place.partition("?") if self.is_web else (place, "", "")
        return bare, mark + query

    def _moved(self, move: Callable[[str], str]) -> RemotePath:
        key, url = (
            move(bare) + query for bare, query in (self._split(self.key), self._split(self.url))
        )
        return RemotePath(self.system, key, url, self.listings)


class RemoteFile(SteadyFile):
    """A file of a store that must stay as it is: its size and what the store says of it."""

    readers, block_bytes = _REQUESTS, _BLOCK_BYTES
    is_remote = True

    def __init__(self, path: RemotePath) -> None:
        self.path = path
        listed = path.info()
        is_known = listed is not None and not {*_TAGS}.isdisjoint(listed)
        found = listed if is_known else path.fresh_info()
        if found is None:
            raise InputValueError(f"There is no file {str(path)!r}. Check the address.")
        if found.get("size") is None:
            raise InputValueError(
                f"{path} cannot be read by ranges: its server does not say how long it is. "
                "Download it first."
            )
        self._length, self._mark = int(found["size"]), _mark(found)

    @property
    def size(self) -> int:
        """Its bytes when it was first seen."""
        return self._length

    @property
    def identity(self) -> str:
        """What tells it from another file, and from itself once it is written to."""
        return f"{self._length} {self._mark}"

    @contextmanager
    def open(self) -> Iterator[RawIOBase]:
        """The file for reading, by ranges."""
        yield _Ranges(self)

    def check(self, file: RawIOBase | None = None) -> None:
        """Refuse to go on where the file is not the same any more."""
        now = self.path.fresh_info()
        if now is None:
            raise ChangedFileError(f"{self.path} was removed or renamed while it was read.")
        size = now.get("size")
        if size != self._length:
            raise changed(self.path, f"it had {self._length:,} bytes and has {size:,} now")
        if _mark(now) != self._mark:
            raise changed(self.path, "it was written to")

    def read_into(self, file: RawIOBase, offset: int, out: np.ndarray) -> None:
        """Fill a contiguous array with what lies at ``offset``."""
        if not out.size:
            return
        self.check(file)
        found = self.between(offset, offset + out.nbytes)
        out.reshape(-1).view(np.uint8)[:] = np.frombuffer(found, np.uint8)

    def read_each(self, file: RawIOBase, offsets: np.ndarray, out: np.ndarray) -> None:
        """Fill each row of a contiguous array with what lies at its offset, many at once."""
        if not out.size:
            return
        self.check(file)
        order = np.argsort(offsets, kind="stable")
        rows = out.reshape(len(out), -1).view(np.uint8)
        wanted, length = offsets[order], rows.shape[1]
        step = max(1, _SPAN_BYTES // length) * length
        requests = [
            (start, min(start + step, end))
            for first, end in spans(wanted, length, _NEAR_BYTES)
            for start in range(first, end, step)
        ]

        def fetch(span: tuple[int, int]) -> None:
            start, end = span
            low, high = np.searchsorted(wanted, (start, end - length + 1))
            found = np.frombuffer(self.between(start, end), np.uint8)
            for place in range(low, high):
                first = int(wanted[place]) - start
                rows[order[place]] = found[first : first + length]

        for _ in ahead(fetch, requests, self.readers):
            pass
        self.check(file)

    def between(self, start: int, end: int) -> bytes:
        """The bytes of a range; one that is there no more is said to be that."""
        try:
            return self.path.read(start, end, self._length)
        except FileNotFoundError as error:
            raise ChangedFileError(
                f"{self.path} was removed or renamed while it was read."
            ) from error
        except InputError:
            self.check()
            raise


def steady(path: Path | RemotePath) -> SteadyFile:
    """A file of the disk or of a store, that must stay as it is."""
    return RemoteFile(path) if isinstance(path, RemotePath) else SteadyFile(path)


def read_json_at(path: Path | RemotePath, what: str, most_bytes: int = TEXT_BYTES) -> Any:
    """The JSON of a file of the disk or of a store."""
    if isinstance(path, Path):
        return read_json(path, what, most_bytes)
    file = RemoteFile(path)
    if file.size > most_bytes:
        raise InputValueError(
            f"{path} has more than {most_bytes:,} bytes, which is too much for {what}."
        )
    return parse_json(file.between(0, file.size) if file.size else b"", f"{path} ({what})")


def asked(path: RemotePath, work: Callable[..., T], *args: Any, **options: Any) -> T:
    """What a store answers, asked again where the network failed; else one sentence."""
    for pause in (*PAUSES, None):
        try:
            return work(*args, **options)
        except (NotADirectoryError, InputError):
            raise
        except Exception as raised:
            error = _reason(raised)
            if isinstance(error, FileNotFoundError):
                raise error from raised
            if pause is None or not _may_pass(error):
                raise _unreadable(path.url, error, tried=pause is None) from error
            time.sleep(pause)
    raise AssertionError("the last attempt returns or raises")


def _reason(error: Exception) -> Exception:
    """What went wrong; of web servers fsspec says that a file is not there whatever it was."""
    cause = error.__cause__
    if not isinstance(error, FileNotFoundError) or not isinstance(cause, Exception):
        return error
    return error if getattr(cause, "status", None) in (404, 410) else cause


def _may_pass(error: Exception) -> bool:
    """Whether it may go well the next time."""
    said = getattr(error, "response", None)
    status = getattr(error, "status", None)
    if isinstance(said, dict):
        status = said.get("ResponseMetadata", {}).get("HTTPStatusCode")
    if isinstance(status, int) and 400 <= status < 500:
        return status in _LATER
    if isinstance(error, OSError) and error.errno in (errno.EACCES, errno.EPERM, errno.EINVAL):
        return False
    library = type(error).__module__.partition(".")[0]
    if "Credentials" in type(error).__name__:
        return False
    return isinstance(error, OSError) or library in ("aiohttp", "botocore", "urllib3", "requests")


def _unreadable(url: str, error: Exception, *, tried: bool = False) -> InputValueError:
    if "range requests" in str(error):
        why = "its server sends no ranges. Download it first"
    else:
        said = sentence_without_secrets(first_line(error), url).rstrip(".")
        why = f"{said or type(error).__name__}"
        why += f" ({len(PAUSES) + 1} attempts)" if tried else ""
    return InputValueError(f"{without_secrets(url)} cannot be read: {why}.")


def _mark(info: Mapping[str, Any]) -> str:
    """What a store says of an object that changes with it."""
    found = (info[name] for name in (*_TAGS, *_TIMES) if info.get(name) is not None)
    return str(next(found, "")).strip('"')


class _Ranges(RawIOBase):
    """A file that is read by ranges; what small reads ask for next is there already, mostly."""

    def __init__(self, file: RemoteFile) -> None:
        self._file, self._place = file, 0
        self._start, self._held = 0, b""

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._place

    def seek(self, offset: int, whence: int = 0) -> int:
        base = (0, self._place, self._file.size)[whence]
        if base + offset < 0:
            raise OSError(errno.EINVAL, "a place before the start of a file")
        self._place = base + offset
        return self._place

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        n = max(0, min(len(view), self._file.size - self._place))
        end = self._place + n
        if n and not self._start <= self._place <= end <= self._start + len(self._held):
            start = self._place // _LEAST_BYTES * _LEAST_BYTES if n < _LEAST_BYTES else self._place
            stop = min(max(end, start + _LEAST_BYTES), self._file.size)
            self._start, self._held = start, self._file.between(start, stop)
        first = self._place - self._start
        view[:n] = self._held[first : first + n]
        self._place = end
        return n
