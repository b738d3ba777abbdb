"""What the command line offers for a task: its options, and what it does with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from modgap._results import Brief, Progress
from modgap._validate import InputValueError
from modgap.io import Items, open_embeddings
from modgap.io.group_labels import read_labels
from modgap.tasks.sweep import Way
from modgap.tasks.task import Task

# Where help lists an option: rows come from files, or from a model and data.
ROWS, MODEL, SWEEP = "Rows from files", "A model and data instead", "The sweep"
# Items that a model takes at once.
BATCH = 64


class Encoder(Protocol):
    """A model as tasks use it; `modgap.embed.Model` is one."""

    @property
    def dim(self) -> int:
        """Columns of a row."""

    def encode_items(
        self, items: Items, *, batch_size: int, workers: int | None, progress: Progress | None
    ) -> tuple[np.ndarray, list[int], dict[str, str]]:
        """Rows of items, which items they are of, and by name why the others have none."""

    def encode_texts(self, texts: Sequence[str], *, batch_size: int) -> np.ndarray:
        """A row for each text."""


@dataclass(frozen=True, eq=False)
class TaskInputs(Brief):
    """What a task takes, by the names of its parameters: ``zero_shot_task(**found.inputs)``.

    ``items`` are the names of those embedded; ``skipped`` says why some of ``n_items`` were left
    out. ``about`` goes into the JSON of the command.
    """

    inputs: Mapping[str, Any]
    items: tuple[str, ...]
    skipped: Mapping[str, str]
    n_items: int
    about: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Option:
    """A setting that the command line offers; one without a default may be left out.

    ``panel`` says whether it belongs to rows from files, which ``needed`` ones cannot do without,
    to a model and data, or to both (None).
    """

    name: str
    help: str
    kind: Any = str
    default: Any = None
    panel: str | None = None
    needed: bool = False
    metavar: str | None = None
    least: float | None = None
    most: float | None = None


def rows_file(name: str, text: str, *, needed: bool = False) -> Option:
    """The option of a file of rows, or of numbers, that a task reads."""
    return Option(name, text, Path, panel=ROWS, needed=needed, metavar="PATH")


COLUMN = Option("column", "Array or column of ROWS.", panel=ROWS)
SPLIT = Option("split", "Take this split.", panel=MODEL)
IMAGES = Option(
    "images",
    "Where the images are, if not where the data set is published with them.",
    Path,
    panel=MODEL,
    metavar="FOLDER",
)


@dataclass(frozen=True, eq=False)
class Prepared:
    """A task that is ready to be swept, and what was found without a sweep.

    ``result`` has a ``table()`` that is shown before the sweep. ``more`` goes into the JSON.
    """

    task: Task | None
    result: Any = None
    ways: Sequence[Way] | None = None
    more: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class TaskCommand:
    """``modgap task NAME``.

    Parameters
    ----------
    name : str
        The name of the task.
    help : str
        What it does, with examples.
    data : str
        What ``--data`` takes.
    options : tuple of Option
        Its own options; all tasks have those of the model, the sweep and the output.
    read : callable
        ``read(given)`` opens the rows that the options name: the inputs of the task.
    open : callable
        ``open(given)`` opens the data that the options name, before a model is loaded.
    embed : callable
        ``embed(model, data, given, progress)`` embeds them: the inputs of the task.
    prepare : callable
        ``prepare(inputs, given, progress)`` makes the task.
    lines : callable, optional
        ``lines(given)`` gives lines to print instead, or None.
    bank, metric : bool
        Whether hubs are tried, so that a bank is of use; whether uncorrected rows can be ranked
        by another metric.
    """

    name: str
    help: str
    data: str
    options: tuple[Option, ...]
    read: Callable[[Any], Mapping[str, Any]]
    open: Callable[[Any], Any]
    embed: Callable[[Encoder, Any, Any, Progress], TaskInputs]
    prepare: Callable[[Mapping[str, Any], Any, Progress], Prepared]
    lines: Callable[[Any], Sequence[str] | None] = lambda given: None
    bank: bool = True
    metric: bool = True


def rows_of(path: Path | str, column: str | None = None) -> Any:
    """The rows of a file."""
    return open_embeddings(path, column=column).rows()


def rows_with(path: Path | str, labels: str, column: str | None = None) -> tuple[Any, np.ndarray]:
    """The rows of a file, and a label of each: from an array or column of it, or another file."""
    held = open_embeddings(path, column=column, groups=labels)
    return held.rows(), np.asarray(held.groups)


def numbers_of(path: Path, option: str) -> np.ndarray:
    """A file of whole numbers, one a line."""
    if not path.is_file():
        raise InputValueError(f"{option} must be a file of whole numbers, but {path} is none.")
    found = read_labels(path)
    if found.dtype.kind not in "iu":
        raise InputValueError(f"{option} must hold whole numbers, {path} holds {found.dtype}.")
    return found
