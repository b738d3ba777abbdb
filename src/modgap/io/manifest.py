"""Manifests: the shards of a folder with their rows, dtypes, sizes and checksums."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np

from modgap.core.checks import InputError, InputValueError
from modgap.core.files import write_text
from modgap.core.locks import sole_writer_of
from modgap.core.results import Progress, silent
from modgap.core.steady_file import SteadyFile
from modgap.core.threads import ahead, processors
from modgap.io._shards import natural_key
from modgap.io.formats.lance_dataset import is_lance
from modgap.io.remote import RemotePath, place_of, read_json_at, steady

T = TypeVar("T")

MANIFEST = "manifest.json"
SCHEMA = "modgap/manifest/1"
# The files that are shards; what else lies in a folder is left alone.
SUFFIXES = (".npy", ".npz", ".parquet", ".safetensors")
_CHUNK = 4 * 1024**2
_MOST_NAMED = 5
_STEP = "reading shards (MB)"
# A list of a million shards is this long.
_MOST_BYTES = 512 * 1024**2


@dataclass(frozen=True)
class Shard:
    """One file of a dataset, as it was when its manifest was made.

    ``columns`` and ``dtype`` are those of its matrix, or of all of them where they agree.
    """

    path: str
    rows: int
    columns: int | None
    dtype: str | None
    bytes: int
    checksum: str

    def differs(self, path: Path | RemotePath, *, read: bool = True) -> str | None:
        """How a file differs from what is stated, in words; None where it does not.

        Without ``read``, its size alone is looked at.
        """
        file = steady(path)
        if file.size != self.bytes:
            return f"{path} has {file.size:,} bytes, and {self.bytes:,} by its manifest"
        if not read or checksum(file) == self.checksum:
            return None
        return f"{path} has another checksum than its manifest says"


@dataclass(frozen=True)
class Manifest:
    """What a dataset of many files holds, file by file.

    Paths are relative to the folder of the manifest. A folder with ``manifest.json`` in it is
    compared with it when it is opened; a folder of a web server cannot be read without.
    """

    shards: tuple[Shard, ...]

    def __repr__(self) -> str:
        return f"Manifest({len(self.shards):,} shards, {self.n_bytes:,} bytes)"

    @property
    def words(self) -> str:
        """How much it lists, for a sentence."""
        return f"{len(self.shards):,} shards of {self.n_bytes:,} bytes"

    @property
    def n_bytes(self) -> int:
        """The bytes of all shards."""
        return sum(shard.bytes for shard in self.shards)

    @classmethod
    def of(
        cls,
        path: str | os.PathLike[str],
        *,
        partial: str | os.PathLike[str] | None = None,
        progress: Progress = silent,
    ) -> Manifest:
        """The manifest of a folder of shards, or of one file; each file is read once.

        Parameters
        ----------
        path : path or URL
            The folder or file.
        partial : path, optional
            A file that keeps what is done, shard by shard: a run that was stopped goes on there.
        progress : callable, optional
            Called with what is done, in MB.
        """
        place = place_of(path)
        files = data_files(place)
        if is_lance(place):
            raise InputValueError(
                f"{place} is a Lance dataset, which needs no manifest: its versions list its files."
            )
        if not files:
            raise InputValueError(
                f"{place} must hold shards ({', '.join(SUFFIXES)}) to make a manifest of, got none."
            )
        opened = {name: steady(path) for name, path in files.items()}
        seen = {name: f"{name} {file.identity}" for name, file in opened.items()}
        known = {} if partial is None else _known_shards(Path(partial))

        def look(name: str) -> Shard:
            return known.get(seen[name]) or _look_at(name, files[name], opened[name])

        shards: list[Shard] = []
        sizes = {name: file.size for name, file in opened.items()}
        for name, shard in _each(files, look, sizes, progress):
            if partial is not None and seen[name] not in known:
                line = json.dumps({"seen": seen[name], "shard": asdict(shard)})
                with Path(partial).open("a", encoding="utf-8") as file:
                    file.write(f"\n{line}\n")
            shards.append(shard)
        return cls(tuple(shards))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it as JSON, atomically."""
        held = {"schema": SCHEMA, "shards": [asdict(shard) for shard in self.shards]}
        write_text(path, json.dumps(held, indent=1) + "\n")

    @classmethod
    def load(cls, path: str | os.PathLike[str] | RemotePath) -> Manifest:
        """The manifest in a file or at a URL."""
        place = place_of(path)
        found = cls._read(place)
        if found is None:
            raise InputValueError(f"{place} is not a manifest that modgap wrote.")
        return found

    @classmethod
    def _read(cls, where: Path | RemotePath) -> Manifest | None:
        """None where it is something else: other programs call theirs ``manifest.json`` too."""
        held = read_json_at(where, "a manifest", _MOST_BYTES)
        if not isinstance(held, dict) or held.get("schema") != SCHEMA:
            return None
        try:
            shards = tuple(_checked(Shard(**shard), str(where)) for shard in held["shards"])
        except (TypeError, KeyError) as error:
            raise InputValueError(
                f"{where} is damaged: it must list shards with their path, rows, columns, dtype, "
                "bytes and checksum."
            ) from error
        if len({shard.path for shard in shards}) < len(shards):
            raise InputValueError(f"{where} is damaged: it names a shard twice.")
        return cls(shards)

    def check(self, path: str | os.PathLike[str], *, progress: Progress = silent) -> None:
        """Compare a folder with it, checksums too; what differs is an error that names it."""
        place = place_of(path)
        files = data_files(place, self)
        wrong = self.problems(files)
        stated = {shard.path: shard for shard in self.shards}
        left = {name: file for name, file in files.items() if name not in wrong}

        def look(name: str) -> str | None:
            try:
                return stated[name].differs(left[name])
            except InputError as error:
                return str(error)

        sizes = {name: stated[name].bytes for name in left}
        found = _each(left, look, sizes, progress)
        wrong |= {name: why for name, why in found if why is not None}
        if wrong:
            said = "; ".join(list(wrong.values())[:_MOST_NAMED])
            more = f"; and {len(wrong) - _MOST_NAMED:,} more" if len(wrong) > _MOST_NAMED else ""
            raise InputValueError(
                f"{place} is not what its manifest says ({len(wrong):,} of "
                f"{len(self.shards):,} shards): {said}{more}."
            )

    def problems(self, files: Mapping[str, Path | RemotePath]) -> dict[str, str]:
        """Which shards are missing, and which files the manifest does not name."""
        stated = {shard.path for shard in self.shards}
        missing = {name: f"{name} is missing" for name in stated - set(files)}
        unknown = {name: f"{name} is not named in it" for name in set(files) - stated}
        return dict(sorted({**missing, **unknown}.items()))


def find_manifest(folder: Path | RemotePath) -> Manifest | None:
    """The manifest that lies in a folder, if one of ours does."""
    path = folder / MANIFEST
    return Manifest._read(path) if path.is_file() else None


def kept_manifest(path: str, file: Path | None = None) -> Manifest:
    """The manifest of a dataset: in ``file``, else in its folder; refused where there is none."""
    place: Path | RemotePath = place_of(path) / MANIFEST if file is None else file
    if not place.is_file():
        raise InputValueError(
            f"There is no manifest {str(place)!r}. Make one: modgap manifest {place_of(path)}"
        )
    return Manifest.load(place)


def manifest_place(path: str) -> Path:
    """Where the manifest of a folder is written; other places must be named."""
    place = place_of(path)
    if isinstance(place, Path) and place.is_dir():
        return place / MANIFEST
    if isinstance(place, Path):
        raise InputValueError(f"Say with -o where the manifest of {place} is to be written.")
    raise InputValueError(
        f"modgap writes nothing to {place}: say with -o where the manifest is to be written, and "
        "put it there yourself."
    )


def listed_by_manifest(folder: RemotePath, manifest: Manifest) -> None:
    """Let a folder of a web server hold what a manifest says."""
    folder.listings[folder.folder] = {MANIFEST: {"type": "file"}}
    for shard in manifest.shards:
        place, entry = folder, {"type": "directory"}
        *inner, name = shard.path.split("/")
        for part in inner:
            place.listings.setdefault(place.folder, {})[part] = entry
            place = place / part
        place.listings.setdefault(place.folder, {})[name] = {"type": "file", "size": shard.bytes}


def checksum(file: SteadyFile) -> str:
    """The SHA-256 of a file, as ``sha256sum`` prints it; read in pieces."""
    found = hashlib.sha256()
    piece = np.empty(min(_CHUNK, max(1, file.size)), np.uint8)
    with file.open() as opened:
        for start in range(0, file.size, len(piece)):
            own = piece[: min(len(piece), file.size - start)]
            file.read_into(opened, start, own)
            found.update(own.data)
    return f"sha256:{found.hexdigest()}"


def data_files(
    place: Path | RemotePath, manifest: Manifest | None = None
) -> dict[str, Path | RemotePath]:
    """The shards in a folder and in its folders, by their path in it; a file alone by its name."""
    if isinstance(place, RemotePath) and place.is_web and manifest is not None:
        listed_by_manifest(place, manifest)
    if not place.is_dir():
        return {place.name: place} if place.suffix.lower() in SUFFIXES else {}
    found: dict[str, Path | RemotePath] = {}
    for child in place.glob("*"):
        if child.name.startswith("."):
            continue
        if child.suffix.lower() in SUFFIXES and child.is_file():
            found[child.name] = child
        elif child.suffix != ".lance" and child.is_dir():
            inner = (one for one in child.glob("*") if one.suffix.lower() in SUFFIXES)
            found |= {f"{child.name}/{one.name}": one for one in inner if one.is_file()}
    return dict(sorted(found.items(), key=lambda item: natural_key(item[0])))


def write_manifest(
    path: str, output: str | os.PathLike[str], *, progress: Progress = silent
) -> Manifest:
    """Make a manifest and write it; a run that was stopped goes on where it was.

    What is done is kept beside the output, shard by shard, until all is.
    """
    target = Path(output)
    partial = target.with_name(f".{target.name}.partial")
    with sole_writer_of(target):
        found = Manifest.of(path, partial=partial, progress=progress)
        found.save(target)
        with suppress(FileNotFoundError):
            partial.unlink()
    return found


def _known_shards(path: Path) -> dict[str, Shard]:
    """Shards that are done, one to a line of a file: a line that was cut short is left out."""
    known: dict[str, Shard] = {}
    for line in path.read_bytes().splitlines() if path.is_file() else ():
        with suppress(ValueError, TypeError, KeyError):
            held = json.loads(line)
            known[held["seen"]] = Shard(**held["shard"])
    return known


def _look_at(name: str, path: Path | RemotePath, file: SteadyFile) -> Shard:
    from modgap.io.file_formats import open_contents

    held = open_contents(path)
    found = checksum(file)
    kinds = {(m.shape[1], str(m.dtype)) for m in held.matrices.values() if len(m.shape) == 2}
    columns, dtype = kinds.pop() if len(kinds) == 1 else (None, None)
    return Shard(name, held.n_rows, columns, dtype, file.size, found)


def _each(
    files: Mapping[str, Path | RemotePath],
    look: Callable[[str], T],
    sizes: Mapping[str, int],
    progress: Progress,
) -> Iterator[tuple[str, T]]:
    """Each file's name and what ``look`` says of it, in threads; progress is in MB."""
    total, done = sum(sizes.values()), 0
    progress(_STEP, 0, total // 10**6)
    workers = 8 if any(isinstance(path, RemotePath) for path in files.values()) else processors()
    for name, found in zip(files, ahead(look, files, workers), strict=True):
        done += sizes[name]
        progress(_STEP, done // 10**6, total // 10**6)
        yield name, found


def _checked(shard: Shard, where: str) -> Shard:
    """A shard as outsiders state it: only what lies in the folder may be named."""
    name = shard.path
    if (
        not isinstance(name, str)
        or any(part in ("", ".", "..") for part in name.split("/"))
        or any(sign in name for sign in ("\\", ":", "?", "#", "\0"))
    ):
        raise InputValueError(f"{where} must name files that lie in its folder, got {name!r}.")
    counts = (shard.rows, shard.bytes)
    if not all(isinstance(count, int) and count >= 0 for count in counts):
        raise InputValueError(f"{where} must say how many rows and bytes {name!r} has.")
    return shard
