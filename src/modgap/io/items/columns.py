"""Which column of a table holds what: files, captions, labels, names, splits and the rest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from modgap.core.checks import InputValueError
from modgap.io._contents import listed
from modgap.io.items.item import Item, ItemKind, clean
from modgap.io.sounds import SUFFIXES as SOUND_SUFFIXES

CAPTION_COLUMNS = ("captions", "caption", "text", "title", "sentences", "raw")
PATH_COLUMNS = ("file_name", "filename", "filepath", "image_name", "image_path", "path")
_NAME_COLUMNS = ("name", "file_name", "filename", "image_name", "key", "image_id", "img_id", "id")
_SOUND_COLUMNS = ("audio", "audio_path", "audio_filepath", "sound", "wav", "flac", "mp3")
_FILE_COLUMNS = (
    *("image", "jpg", "png", "image_bytes", "bytes", "img"),
    *_SOUND_COLUMNS,
    *PATH_COLUMNS,
    *("image_file", "img_path", "file"),
)
_LABEL_COLUMNS = ("label", "class", "category", "class_name", "label_name", "labels")


@dataclass(frozen=True)
class Roles:
    """The columns of a table by what they hold; None where there is no such column."""

    file: str | None
    captions: str | None
    label: str | None
    name: str | None
    split: str | None
    others: tuple[str, ...]

    @classmethod
    def of(
        cls,
        names: Sequence[str],
        path: Path,
        *,
        files: Sequence[str] = (),
        classes: Sequence[str] = (),
    ) -> Roles:
        """The roles of columns by their names.

        ``files`` and ``classes`` are columns that the table itself marks as files or classes. They
        are used where no column has a known name.
        """
        file = _first(_FILE_COLUMNS, names) or (files[0] if files else None)
        rest = [name for name in names if name != file]
        captions = _first(CAPTION_COLUMNS, rest)
        if file is None and captions is None:
            raise InputValueError(
                f"{path} must have a column of files, called 'image' or 'audio' for instance, or "
                f"of texts, called 'caption' or 'text'. It has {listed(names) or 'none'}. A folder "
                "of files beside it is opened by --format images or audio (in Python, "
                "format='images')."
            )
        label = _first(_LABEL_COLUMNS, rest) or (classes[0] if len(classes) == 1 else None)
        name, split = _first(_NAME_COLUMNS, rest), _first(("split",), rest)
        taken = {file, captions, label, split}
        others = tuple(other for other in names if other not in taken)
        return cls(file, captions, label, name, split, others)

    @property
    def without_name(self) -> tuple[str, ...]:
        """The other columns, where the items are called by one of them."""
        return tuple(other for other in self.others if other != self.name)

    def item(
        self, record: Mapping[str | None, Any], name: str, split: str | None, **more: Any
    ) -> Item:
        """The item of a row with its captions, label and split, else the ``split`` of its file."""
        said = record.get(self.captions)
        return Item(
            name,
            clean(said if isinstance(said, list) else [said]),
            label_of(record.get(self.split)) or split,
            label=label_of(record.get(self.label)),
            **more,
        )

    def kind(self, paths: Iterable[Any], *, sounds: Sequence[str] = ()) -> ItemKind:
        """What the files are, by the column's name or else by the first path that is stated."""
        if self.file is None:
            return "text"
        if self.file in (*_SOUND_COLUMNS, *sounds):
            return "audio"
        first = next((path for path in paths if isinstance(path, str) and path), "")
        return "audio" if Path(first).suffix.lower() in SOUND_SUFFIXES else "image"


def _first(known: Sequence[str], names: Sequence[str]) -> str | None:
    return next((name for name in known if name in names), None)


def plain_fields(record: Mapping[Any, Any], names: Sequence[str]) -> dict[str, Any]:
    """The other fields of a record that can be kept: texts, numbers and lists of texts.

    >>> plain_fields({"fold": 1, "tags": ["a"], "box": {"x": 1}}, ["fold", "tags", "box"])
    {'fold': 1, 'tags': ['a']}
    """

    def is_plain(value: Any) -> bool:
        if isinstance(value, list):
            return all(isinstance(one, str) for one in value)
        return isinstance(value, (str, int, float, bool))

    return {name: record[name] for name in names if is_plain(record.get(name))}


def utf8(text: str) -> str:
    """A text that can be written: bytes that are no character become "?"."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def label_of(value: Any) -> str | None:
    """A label as text; None where there is none.

    >>> label_of(3), label_of(" dog "), label_of("")
    ('3', 'dog', None)
    """
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        return None
    return str(value).strip() or None
