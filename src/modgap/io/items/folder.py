"""Folders of images or sounds without a table, by class or not, and texts a line each."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from modgap.core.checks import InputValueError
from modgap.io._contents import reading
from modgap.io.images import ImageFolder
from modgap.io.items.columns import utf8
from modgap.io.items.item import Item, ItemKind, Opened

_SPLITS = (
    *("train", "training", "val", "valid", "validation", "dev", "test", "testing"),
    *("eval", "evaluation"),
)


def find_files(folder: Path, suffixes: Sequence[str]) -> list[Path]:
    """The files of a folder and all below it, in the order of their names; hidden ones left out."""
    found = []
    for below, folders, files in os.walk(folder):
        folders[:] = [one for one in folders if not one.startswith((".", "__MACOSX"))]
        names = [name for name in files if not name.startswith(".")]
        found += [Path(below, name) for name in names if name.lower().endswith(tuple(suffixes))]
    return sorted(found)


def open_folder(files: Sequence[Path], folder: Path, kind: ItemKind) -> Opened:
    """The files of a folder; sub-folders are classes, below train, val and the like or not."""
    reader = ImageFolder(folder)
    names = [file.relative_to(folder).as_posix() for file in files]
    places = _places([utf8(name) for name in names])
    return kind, [
        Item(utf8(name), (), split, reader.reader(name, folder), label)
        for name, (split, label) in zip(names, places, strict=True)
    ]


def _places(names: Sequence[str]) -> list[tuple[str | None, str | None]]:
    """Split and class of each file, by the folders that it lies in.

    >>> _places(["train/cat/1.jpg", "train/dog/2.jpg", "val/cat/3.jpg"])
    [('train', 'cat'), ('train', 'dog'), ('val', 'cat')]
    >>> _places(["images/1.jpg", "images/2.jpg"])
    [(None, None), (None, None)]
    """
    folders = [name.split("/")[:-1] for name in names]
    while (first := _common(folders)) and first.lower() not in _SPLITS:
        folders = [parts[1:] for parts in folders]
    splits: list[str | None] = [None] * len(names)
    if all(parts and parts[0].lower() in _SPLITS for parts in folders):
        splits = [parts[0] for parts in folders]
        folders = [parts[1:] for parts in folders]
    labels = [parts[0] if parts else None for parts in folders]
    return list(zip(splits, labels, strict=True))


def _common(folders: Sequence[Sequence[str]]) -> str | None:
    """The folder that all lie in: it tells nothing about any of them."""
    firsts = {parts[0] if parts else "" for parts in folders}
    return firsts.pop() if len(firsts) == 1 else None


def open_text(path: Path) -> Opened:
    """A text a line, named by its number; empty lines are left out."""
    with reading(path, "UTF-8 text", UnicodeDecodeError):
        lines = path.read_bytes().decode("utf-8-sig").replace("\r\n", "\n").split("\n")
    items = [
        Item(f"line {number}", (text,))
        for number, line in enumerate(lines, 1)
        if (text := line.strip())
    ]
    if not items:
        raise InputValueError(f"{path} must have a text in at least one line, got none.")
    return "text", items
