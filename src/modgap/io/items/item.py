"""One item, an image, a sound or a text; and many of one kind, read when they are needed."""

from __future__ import annotations

import hashlib
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

from modgap.core.checks import InputValueError, did_you_mean
from modgap.core.limits import TEXT_LENGTH
from modgap.io._contents import listed
from modgap.io.images import ImageError

ItemKind = Literal["image", "audio", "text"]
_PLURAL = {"image": "images", "audio": "sounds", "text": "texts"}


def no_file() -> bytes:
    """What reads an item that has no file: a text, or a row that names none."""
    raise ImageError("no file is named")


@dataclass(frozen=True, eq=False)
class Item:
    """An image, a sound or a text, with its captions, label and other fields.

    ``read`` gives the bytes of an image or a sound. A text is its own caption and has no bytes.
    ``named`` is False where the source has no name for the item, so that only its bytes tell it
    from others.
    """

    name: str
    captions: tuple[str, ...] = ()
    split: str | None = None
    read: Callable[[], bytes] = no_file
    label: str | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)
    named: bool = True


# What a format gives: the kind of its items, and the items.
Opened = tuple[ItemKind, list[Item]]


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

    def __init__(self, source: str, items: Sequence[Item], kind: ItemKind = "image") -> None:
        self.source = source
        self.kind: ItemKind = kind
        self._items = tuple(items)
        self.names: tuple[str, ...] = tuple(item.name for item in self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __repr__(self) -> str:
        n_captions = sum(len(item.captions) for item in self._items)
        said = "" if self.kind == "text" else f", {n_captions} captions"
        return f"Items({self.source!r}, {len(self)} {_PLURAL[self.kind]}{said})"

    def stored(self, row: int) -> bytes:
        """The image or sound of a row as it is stored: a JPEG or a WAV, say.

        Raises `ImageError` where it is missing or must not be read. Safe to call from threads.
        """
        return self._items[row].read()

    def captions(self, row: int) -> tuple[str, ...]:
        """The captions of a row, of which there may be none; of a text, the text itself."""
        return self._items[row].captions

    @cached_property
    def labels(self) -> tuple[str, ...] | None:
        """The class of each; "" where one has none, None where no item has one."""
        labels = [item.label for item in self._items]
        if all(label is None for label in labels):
            return None
        return tuple("" if label is None else label for label in labels)

    @cached_property
    def fields(self) -> Mapping[str, tuple[Any, ...]]:
        """The other fields of the source by name; None where an item lacks one."""
        names = dict.fromkeys(name for item in self._items for name in item.fields)
        return {name: tuple(item.fields.get(name) for item in self._items) for name in names}

    def splits(self) -> dict[str, int]:
        """The names of the splits, in the order they appear in, and how many items each has."""
        return dict(Counter(item.split for item in self._items if item.split is not None))

    def split(self, name: str) -> Items:
        """The items of one split."""
        splits = self.splits()
        if name not in splits:
            has = f"It has {listed(list(splits))}." if splits else "It says nothing about splits."
            raise InputValueError(
                f"{self.source} has no split {name!r}.{did_you_mean(name, splits)} {has}"
            )
        return self.select([i for i, item in enumerate(self._items) if item.split == name])

    def select(self, rows: Sequence[int]) -> Items:
        """Some of the rows, in the given order."""
        return Items(self.source, [self._items[row] for row in rows], self.kind)

    def captioned_images(self) -> Items:
        """The images that have captions, as training takes them; a warning counts the others.

        Rows of one image become one, with all captions, where only the bytes show that they are:
        otherwise an image could be both trained on and held out.
        """
        if self.kind != "image":
            raise InputValueError(
                f"{self.source} must hold images with captions, but it holds {_PLURAL[self.kind]}."
            )
        kept = [item for item in _merge_copies(self._items) if item.captions]
        without = [item.name for item in self._items if not item.captions]
        if not kept:
            raise InputValueError(
                f"{self.source} must hold images with captions, but none of its {len(self)} "
                "images has one. Tables hold captions in a column called 'caption' or 'text', say."
            )
        if without:
            warnings.warn(
                f"{len(without):,} of {len(self):,} images of {self.source} have no caption and "
                f"are left out, the first {without[0]!r}.",
                stacklevel=2,
            )
        return Items(self.source, kept)


def join_files(opened: Sequence[Opened], where: object) -> Opened:
    """The items of several files, which must be of one kind."""
    kinds = sorted({kind for kind, _ in opened})
    if len(kinds) > 1:
        raise InputValueError(
            f"The files of {where} must all hold images, sounds or texts, got "
            f"{' and '.join(kinds)}. Give the path of one."
        )
    return opened[0][0], [item for _, items in opened for item in items]


def merge_names(items: Iterable[Item], kind: ItemKind) -> list[Item]:
    """One item per name and split, with the captions of all its rows; texts stay apart."""
    if kind == "text":
        return list(items)
    return _merge(((item.name, item.split), item) for item in items)


def _merge_copies(items: Sequence[Item]) -> list[Item]:
    """Rows without a name, a caption each, become one item where their bytes are equal."""
    if any(not item.named and len(item.captions) > 1 for item in items):
        return list(items)

    def key(item: Item) -> tuple[str | bytes, str | None]:
        if item.named:
            return item.name, item.split
        try:
            return hashlib.blake2b(item.read(), digest_size=16).digest(), item.split
        except ImageError:
            return item.name, item.split

    return _merge((key(item), item) for item in items)


def _merge(keyed: Iterable[tuple[Any, Item]]) -> list[Item]:
    """The first item of each key, with the captions of all."""
    first: dict[Any, Item] = {}
    captions: dict[Any, list[str]] = {}
    for key, item in keyed:
        first.setdefault(key, item)
        captions.setdefault(key, []).extend(item.captions)
    return [replace(item, captions=tuple(captions[key])) for key, item in first.items()]


def unique_names(items: Sequence[Item]) -> list[Item]:
    """The items with a name of its own for each.

    A name that is in several splits gets the split in front; other copies get a number.

    >>> found = [Item("a", split="train"), Item("a", split="test"), Item("b"), Item("b")]
    >>> [item.name for item in unique_names(found)]
    ['train/a', 'test/a', 'b', 'b#2']
    """
    counts = Counter(item.name for item in items)
    used: Counter[str] = Counter()
    found: dict[str, Item] = {}
    for item in items:
        name = f"{item.split}/{item.name}" if item.split and counts[item.name] > 1 else item.name
        own = name
        while own in found or (own != name and own in counts):
            used[name] += 1
            own = f"{name}#{used[name] + 1}"
        found[own] = item if own == item.name else replace(item, name=own)
    return list(found.values())


def clean(captions: Iterable[object]) -> tuple[str, ...]:
    """Captions without white space at the ends; those that are empty or no text are left out.

    Karpathy's sentences, {"raw": ...}, are taken by their text.

    >>> clean([" A dog runs .\\n", "", None, {"raw": "A cat."}])
    ('A dog runs .', 'A cat.')
    """
    texts = (
        caption.get("raw") if isinstance(caption, Mapping) else caption for caption in captions
    )
    stripped = (text.strip() for text in texts if isinstance(text, str))
    found = tuple(text for text in stripped if text)
    for text in found:
        if len(text) > TEXT_LENGTH:
            raise InputValueError(
                f"A caption has {len(text):,} characters, more than the {TEXT_LENGTH:,} that are "
                f"read: {text[:40]!r} …"
            )
    return found
