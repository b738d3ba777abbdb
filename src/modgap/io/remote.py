"""Read files and folders at any URL that fsspec knows, by ranges.

Only what a path or a manifest names is fetched, and nothing is stored. A file must stay as it is
while it is read: its size and what its store says of it (an ETag, a time) are looked at before
each block. Requests that the network failed are repeated a few times.
"""

from __future__ import annotations

import errno
import re
import time
from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatchcase
from io import BufferedReader, RawIOBase
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

import numpy as np

from modgap.core.checks import InputError, InputValueError, MissingExtraError, first_line, require
from modgap.core.limits import TEXT_BYTES, parse_json, read_json
from modgap.core.secrets import sentence_without_secrets, without_secrets
from modgap.core.steady_file import ChangedFileError, OpenedFile, SteadyFile, changed_file

T = TypeVar("T")

# The least that is asked for: headers and lists of what a file holds are read in small pieces.
_LEAST_BYTES = 64 * 1024
# Seconds before each new attempt.
PAUSES = (0.2, 0.5, 1.5)
# What stores say of an object that changes with it: tags, which a listing has as well, and times.
_TAGS = ("ETag", "etag", "e_tag", "blob_id", "md5Hash", "generation")
_TIMES = ("Last-Modified", "LastModified", "last_modified", "mtime", "updated", "created")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*(::[A-Za-z][A-Za-z0-9+.-]*)*://")
# pathlib keeps one slash of two.
_URL_AS_PATH = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/([^/].*)")
_WEB = ("http", "https")
# Answers of web servers to requests that may be repeated.
_LATER = (408, 425, 429)


def place_of(given: Any) -> Path | RemotePath:
    """The path of a path or a URL."""
    if isinstance(given, RemotePath):
        return given
    url = str(given) if isinstance(given, str) and _URL.match(given) else ""
    if not url:
        as_path = _URL_AS_PATH.fullmatch(str(given))
        if as_path is None or Path(given).exists():
            return Path(given)
        url = f"{as_path[1]}:{'///' if as_path[1] == 'file' else '//'}{as_path[2]}"
    fsspec = require("fsspec", "remote", f"Reading {without_secrets(url)}")
    protocol = url.split("://")[0].split("::")[0]
    options: dict[str, Any] = {"use_listings_cache": False}
    if protocol in _WEB:
        aiohttp = require("aiohttp", "remote", "Reading https://", package="aiohttp")
        # No limit to a download, but to waiting for its next bytes.
        patience = aiohttp.ClientTimeout(total=None, sock_connect=20, sock_read=60)
        options["client_kwargs"] = {"timeout": patience}
    try:
        system, key = fsspec.core.url_to_fs(url, **options)
    except ImportError as error:
        raise MissingExtraError(
            f"Reading {without_secrets(url)} needs a library that is not installed "
            f"({first_line(error).rstrip('.')}). Install it with pip."
        ) from error
    except (ValueError, OSError) as error:
        raise _unreadable(url, error) from error
    return Path(key) if protocol in ("file", "local") else RemotePath(system, key, url)


class RemotePath:
    """A URL with the few methods of a path that readers of formats use.

    Unlike paths of universal-pathlib it shows no secret, keeps the signature of a web address for
    the files beside it, and lists a folder once. Web servers have no folders: a manifest lists
    theirs in ``listings``, folder by folder.
    """

    def __init__(
        self, system: Any, key: str, url: str, listings: dict[str, dict[str, Any]] | None = None
    ) -> None:
        self.system, self.key, self.url = system, key, url
        self.listings: dict[str, dict[str, Any]] = {} if listings is None else listings
        self.is_web = url.split("://")[0] in _WEB
        bare = self._split(key)[0]  # without what follows a question mark
        # What its listing is kept under.
        self.folder, named = bare.strip("/"), PurePosixPath(bare)
        self.name, self.stem, self.suffix = named.name, named.stem, named.suffix

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

    def with_suffix(self, suffix: str) -> RemotePath:
        """The one beside it with another ending."""
        return self.parent / f"{self.stem}{suffix}"

    def is_dir(self) -> bool:
        """Whether it is a folder."""
        found = {"type": "directory"} if self.folder in self.listings else self.info()
        return found is not None and found["type"] == "directory"

    def is_file(self) -> bool:
        """Whether it is a file."""
        found = self.info()
        return found is not None and found["type"] != "directory"

    def exists(self) -> bool:
        """Whether there is a file or folder."""
        return self.info() is not None

    def glob(self, pattern: str) -> Iterator[RemotePath]:
        """The files and folders in it whose names match; the store is asked for them once."""
        if self.folder not in self.listings:
            try:
                found = [] if self.is_web else asked(self, self.system.ls, self.key, detail=True)
            except (FileNotFoundError, NotADirectoryError):
                found = []
            if len(found) == 1 and found[0]["name"].strip("/") == self.key.strip("/"):
                found = []  # a file lists itself
            own = {entry["name"].rstrip("/").rpartition("/")[2]: entry for entry in found}
            own.pop("", None)
            self.listings[self.folder] = own
        return (self / name for name in self.listings[self.folder] if fnmatchcase(name, pattern))

    def info(self) -> Any:
        """What the store says of it, or has said when its folder was listed; None for nothing."""
        beside = self.listings.get(self.parent.folder)
        return self.fresh_info() if beside is None else beside.get(self.name)

    def fresh_info(self) -> Any:
        """What the store says of it now."""
        try:
            return asked(self, self.system.info, self.key)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def read(self, start: int, end: int, size: int) -> bytes:
        """The bytes of a range of a file that has ``size`` of them."""

        def fetch() -> bytes:
            if self.is_web:  # open tells where a server sends all instead of a range
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

    def _split(self, place: str) -> tuple[str, str]:
        """A place without the query of a web address, and that query."""
        bare, mark, query = place.partition("?") if self.is_web else (place, "", "")
        return bare, mark + query

    def _moved(self, move: Callable[[str], str]) -> RemotePath:
        key, url = (
            move(bare) + query for bare, query in (self._split(self.key), self._split(self.url))
        )
        return RemotePath(self.system, key, url, self.listings)


class RemoteFile(SteadyFile):
    """A file of a store that must stay as it is: its size and what the store says of it."""

    readers, near_bytes = 8, 256 * 1024
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
        self.size, self._mark = int(found["size"]), _mark(found)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    @property
    def identity(self) -> str:
        """A text that differs for another file, and for this one once it is written to."""
        return f"{self.size} {self._mark}"

    def open(self) -> BufferedReader:
        """The file for reading, by ranges; small reads share one."""
        return BufferedReader(_Ranges(self), _LEAST_BYTES)

    def check(self, file: OpenedFile | None = None) -> None:
        """Raise if the file is not the same any more."""
        now = self.path.fresh_info()
        if now is None:
            raise ChangedFileError(f"{self.path} was removed or renamed while it was read.")
        if now.get("size") != self.size:
            what = f"it had {self.size:,} bytes and has {now.get('size'):,} now"
            raise changed_file(self.path, what)
        if _mark(now) != self._mark:
            raise changed_file(self.path, "it was written to")

    def read_into(self, file: OpenedFile, offset: int, out: np.ndarray) -> None:
        """Fill a contiguous array with the bytes at ``offset``."""
        if out.size:
            self.check(file)
            found = self.between(offset, offset + out.nbytes)
            out.reshape(-1).view(np.uint8)[:] = np.frombuffer(found, np.uint8)

    def between(self, start: int, end: int) -> bytes:
        """The bytes of a range; an error because the file is gone says so."""
        try:
            return self.path.read(start, end, self.size)
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
        why = said or type(error).__name__
        why += f" ({len(PAUSES) + 1} attempts)" if tried else ""
    return InputValueError(f"{without_secrets(url)} cannot be read: {why}.")


def _mark(info: Mapping[str, Any]) -> str:
    """What a store says of an object that changes with it."""
    found = (info[name] for name in (*_TAGS, *_TIMES) if info.get(name) is not None)
    return str(next(found, "")).strip('"')


class _Ranges(RawIOBase):
    """A file that is read by ranges."""

    def __init__(self, file: RemoteFile) -> None:
        self._file, self._place = file, 0

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
        if n:
            view[:n] = self._file.between(self._place, self._place + n)
        self._place += n
        return n
