"""Parquet with images as bytes beside their captions: one file, or a folder of shards."""

from __future__ import annotations

import hashlib
import re
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any

from modgap._changes import SteadyFile
from modgap._claims import check_unpacked
from modgap._validate import InputTypeError, InputValueError
from modgap.io._contents import reading
from modgap.io.captions_rows import (
    CAPTION_COLUMNS,
    NAME_COLUMNS,
    SPLIT_COLUMNS,
    CaptionRow,
    choose_column,
    clean,
    merged,
)
from modgap.io.images import ImageError, ImageFolder
from modgap.io.parquet import text_bytes

_IMAGE_COLUMNS = ("image", "jpg", "png", "image_bytes", "bytes", "img")
# Row groups kept in memory: threads that decode in order straddle at most two.
_KEPT = 2


def find_parquet(folder: Path) -> Sequence[Path]:
    """The shards of a folder, or of its folder ``data``, as Hugging Face writes them."""
    return sorted(folder.glob("*.parquet")) or sorted((folder / "data").glob("*.parquet"))


def open_caption_parquet(files: Sequence[Path], images: Path | None) -> list[CaptionRow]:
    """One row per image; rows of one name, with a caption each, become one."""
    seen: dict[str, str] = {}
    return merged([row for file in files for row in _File(file, images or file.parent).rows(seen)])


class _File:
    """One file: names, splits and captions are read at once, images when they are asked for."""

    def __init__(self, path: Path, images: Path) -> None:
        import pyarrow.parquet as pq

        self.path = path
        self.file = SteadyFile(path)
        self.folder = ImageFolder(images)
        with _reading(path), self.file.watched(), pq.ParquetFile(path) as file:
            self.metadata = file.metadata
            self.schema = file.schema_arrow
            columns = self.schema.names
        image = choose_column(columns, _IMAGE_COLUMNS, "images", path)
        assert image is not None
        self.image = image
        self._check_type()
        self.caption = choose_column(columns, CAPTION_COLUMNS, "captions", path)
        self.name = choose_column(columns, NAME_COLUMNS, "names", path, needed=False)
        self.split = choose_column(columns, SPLIT_COLUMNS, "splits", path, needed=False)
        self._images = RowGroups(path, self.metadata, image, self.file)

    def _check_type(self) -> None:
        """Bytes, or the structure of Hugging Face's datasets."""
        import pyarrow as pa

        kind = self.schema.field(self.image).type
        inner = kind
        if pa.types.is_struct(kind) and kind.get_field_index("bytes") >= 0:
            inner = kind.field("bytes").type
        # Bytes may be null throughout, where every image is a path.
        allowed = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_null)
        if not any(check(inner) for check in allowed):
            raise InputTypeError(
                f"{self.image!r} of {self.path} must hold images as bytes, or structures of bytes "
                f"and path, got {kind}."
            )

    def rows(self, seen: dict[str, str]) -> list[CaptionRow]:
        """A row for each of the file's, in order; ``seen`` are images by their bytes."""
        wanted = [name for name in (self.name, self.split, self.caption) if name]
        table = {name: self._column(name) for name in dict.fromkeys(wanted)}
        captions = table[self.caption or ""]
        n = len(captions)
        readers = self._readers(n)
        splits = table[self.split] if self.split else [split_of(self.path)] * n
        # Without a name, the file and the row's number say which image is meant.
        names = table[self.name] if self.name else [f"{self.path.name}/{row}" for row in range(n)]
        if not self.name and not any(isinstance(said, list) for said in captions):
            # A row is a caption: rows of one image are told by its bytes, for a path may be
            # anything. Otherwise an image could be trained on and held out.
            names = [
                seen.setdefault(f"{split} {_digest(read) or name}", name)
                for split, read, name in zip(splits, readers, names, strict=True)
            ]
        return [
            CaptionRow(
                str(name),
                clean(said if isinstance(said, list) else [said]),
                None if split is None else str(split),
                read,
            )
            for name, said, split, read in zip(names, captions, splits, readers, strict=True)
        ]

    def _column(self, name: str) -> list[Any]:
        return read_column(self.file, self.metadata, self.schema, name)

    def _readers(self, n: int) -> list[Callable[[], bytes]]:
        groups = range(self.metadata.num_row_groups)
        sizes = [self.metadata.row_group(group).num_rows for group in groups]
        if sum(sizes) != n or min(sizes, default=0) < 0:
            raise InputValueError(
                f"{self.path} is damaged: it claims {sum(sizes)} rows and has {n} captions."
            )
        return [partial(self.read, group, row) for group in groups for row in range(sizes[group])]

    def read(self, group: int, row: int) -> bytes:
        """The image of a row of a row group."""
        return stored_bytes(self._images.value(group, row), self.folder, self.path)


def read_column(held: SteadyFile, metadata: Any, schema: Any, name: str) -> list[Any]:
    """One column; strings stay a dictionary of values until it is known how long all are."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    kind = schema.field(name).type
    coded = [name] if pa.types.is_string(kind) or pa.types.is_binary(kind) else None
    with (
        _reading(held.path),
        held.watched(),
        pq.ParquetFile(held.path, metadata=metadata, read_dictionary=coded) as file,
    ):
        column = file.read([name])[name]
        n_bytes = sum(text_bytes(chunk) for chunk in column.chunks)
        check_unpacked(f"{name!r} of {held.path}", n_bytes, held.size)
        found: list[Any] = column.to_pylist()
        return found


class RowGroups:
    """One column of a Parquet file, read a row group at a time; the last few are kept."""

    def __init__(
        self, path: Path, metadata: Any, column: str, file: SteadyFile | None = None
    ) -> None:
        self.path, self.metadata, self.column = path, metadata, column
        self.file = file or SteadyFile(path)
        self._groups: OrderedDict[int, Any] = OrderedDict()
        self._lock = Lock()

    def value(self, group: int, row: int) -> Any:
        """What a row of a row group holds."""
        return self._group(group)[row].as_py()

    def _group(self, group: int) -> Any:
        import pyarrow.parquet as pq

        with self._lock:
            if group not in self._groups:
                with (
                    _reading(self.path),
                    self.file.watched(),
                    pq.ParquetFile(self.path, metadata=self.metadata) as file,
                ):
                    self.file.check()
                    self._groups[group] = file.read_row_group(group, [self.column])[self.column]
                while len(self._groups) > _KEPT:
                    self._groups.popitem(last=False)
            self._groups.move_to_end(group)
            return self._groups[group]


def stored_bytes(value: Any, folder: ImageFolder, listed_in: Path) -> bytes:
    """The bytes of a value: bytes, or {bytes, path} with the one or the other."""
    path = None
    if isinstance(value, dict):
        value, path = value["bytes"], value.get("path")
    if value is not None:
        return bytes(value)
    if not path:
        raise ImageError("there is neither an image nor a path")
    try:
        return folder.reader(path, listed_in)()
    except InputValueError as error:
        raise ImageError(str(error)) from error


def _digest(read: Callable[[], bytes]) -> str:
    """What tells an image from others; nothing where it cannot be read."""
    try:
        return hashlib.blake2b(read(), digest_size=16).hexdigest()
    except ImageError:
        return ""


def split_of(path: Path) -> str | None:
    """The split that a shard's name says, as Hugging Face writes them.

    >>> split_of(Path("data/validation-00000-of-00002.parquet"))
    'validation'
    >>> split_of(Path("data/test-00000-of-00001-b42a775f407cee45.parquet"))
    'test'
    """
    found = re.fullmatch(r"(\w+)-\d+-of-\d+(-\w+)?", path.stem)
    return found[1] if found else None


def _reading(path: Path) -> Any:
    import pyarrow as pa

    return reading(path, "a Parquet file", pa.ArrowException, OSError, UnicodeDecodeError)
