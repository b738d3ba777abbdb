"""What can be embedded: images, sounds or texts in a fixed order, read when they are asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, Self

from modgap._validate import InputValueError, did_you_mean
from modgap.io._contents import listed
from modgap.io.captions_rows import CaptionRow
from modgap.io.images import ImageError

Kind = Literal["image", "audio", "text"]
# What a format gives: the kind of its items, and a row for each.
Rows = tuple[Kind, list[CaptionRow]]


@dataclass(frozen=True, eq=False)
class Item(CaptionRow):
    """An image, a sound or a text, with what its source says about it.

    A text is its own caption, and nothing else is stored of it.
    """

    label: str | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)


class Items:
    """Images, sounds or texts of one source, all of one kind.

    Attributes
    ----------
    source : str
        The file or folder.
    kind : {"image", "audio", "text"}
        What they are.
    names : tuple of str
        What tells each of them from the others: its file name, or its id.
    """

    def __init__(self, source: str, rows: Sequence[CaptionRow], kind: Kind = "image") -> None:
        self.source = source
        self.kind: Kind = kind
        self._rows = tuple(rows)
        self.names: tuple[str, ...] = tuple(row.name for row in self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __repr__(self) -> str:
        what = {"image": "images", "audio": "sounds", "text": "texts"}[self.kind]
        n_captions = sum(len(row.captions) for row in self._rows)
        said = "" if self.kind == "text" else f", {n_captions} captions"
        return f"{type(self).__name__}({self.source!r}, {len(self)} {what}{said})"

    def stored(self, row: int) -> bytes:
        """The image or sound of a row as it is stored: a JPEG or a WAV, say.

        Raises `ImageError` where it is missing or must not be read. Safe to call from threads.
        """
        return self._rows[row].read()

    def captions(self, row: int) -> tuple[str, ...]:
        """The captions of a row, of which there may be none; of a text, the text itself."""
        return self._rows[row].captions

    @cached_property
    def labels(self) -> tuple[str, ...] | None:
        """The class of each; "" where one has none, None where no item has one."""
        labels = [getattr(row, "label", None) for row in self._rows]
        if all(label is None for label in labels):
            return None
        return tuple("" if label is None else label for label in labels)

    @cached_property
    def fields(self) -> Mapping[str, tuple[Any, ...]]:
        """What else the source says, by its name; None where it says nothing of an item."""
        of_each: list[Mapping[str, Any]] = [getattr(row, "fields", {}) for row in self._rows]
        names = dict.fromkeys(name for fields in of_each for name in fields)
        return {name: tuple(fields.get(name) for fields in of_each) for name in names}

    def splits(self) -> dict[str, int]:
        """The names of the splits, in the order they appear in, and how many items each has."""
        return dict(Counter(row.split for row in self._rows if row.split is not None))

    def split(self, name: str) -> Self:
        """The items of one split."""
        splits = self.splits()
        if name not in splits:
            has = f"It has {listed(list(splits))}." if splits else "It says nothing about splits."
            raise InputValueError(
                f"{self.source} has no split {name!r}.{did_you_mean(name, splits)} {has}"
            )
        return self.select([i for i, row in enumerate(self._rows) if row.split == name])

    def select(self, rows: Sequence[int]) -> Self:
        """Some of the rows, in the given order."""
        return self._of([self._rows[row] for row in rows])

    def _of(self, rows: Sequence[CaptionRow]) -> Self:
        return type(self)(self.source, rows, self.kind)


def no_file() -> bytes:
    """What reads an item that is only a text."""
    raise ImageError("it has no file")


def text_item(name: str, text: str, split: str | None = None, **more: Any) -> Item:
    """A text to embed."""
    return Item(name, (text,), split, no_file, **more)


def joined(opened: Sequence[Rows], where: object) -> Rows:
    """The items of several files, which must be of one kind."""
    kinds = sorted({kind for kind, _ in opened})
    if len(kinds) > 1:
        raise InputValueError(
            f"The files of {where} must all hold images, sounds or texts, got "
            f"{' and '.join(kinds)}. Give the path of one."
        )
    return opened[0][0], [row for _, rows in opened for row in rows]


def unique(rows: Iterable[CaptionRow]) -> list[CaptionRow]:
    """The rows with a name of its own for each.

    The same name in several splits is told apart by the split; what is left, by a number.

    >>> rows = [text_item("a", "x", "train"), text_item("a", "y", "test"), text_item("b", "z")]
    >>> [row.name for row in unique([*rows, rows[2]])]
    ['train/a', 'test/a', 'b', 'b#2']
    """
    rows = list(rows)
    counts = Counter(row.name for row in rows)
    used: Counter[str] = Counter()
    found: dict[str, CaptionRow] = {}
    for row in rows:
        name = f"{row.split}/{row.name}" if row.split and counts[row.name] > 1 else row.name
        own = name
        while own in found or (own != name and own in counts):
            used[name] += 1
            own = f"{name}#{used[name] + 1}"
        found[own] = row if own == row.name else replace(row, name=own)
    return list(found.values())
