"""What the command line offers for a task: its options, and what it does with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from modgap.core.checks import InputValueError
from modgap.core.results import Brief, Progress, silent
from modgap.io import Embeddings, Items, open_embeddings, open_pair
from modgap.io.group_labels import read_labels
from modgap.tasks.result import TaskSweep
from modgap.tasks.sweep import sweep_task
from modgap.tasks.task import Task
from modgap.tasks.tried_corrections import Way

# Where help lists an option: rows come from files, or from a model and data.
ROWS, MODEL, SWEEP = "Rows from files", "A model and data instead", "The sweep"
# Items that a model takes at once.
BATCH = 64
# Skipped items that are named.
_NAMED = 3
# Texts to rows.
EncodeTexts = Callable[[Sequence[str]], np.ndarray]


class TaskModel(Protocol):
    """A model as tasks use it; `modgap.embed.Model` is one."""

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
    skipped: Mapping[str, str] = field(default_factory=dict)
    n_items: int = 0
    about: Mapping[str, Any] = field(default_factory=dict)

    def skipped_sentence(self) -> str:
        """How many items cannot be used, and the first of them."""
        first = "; ".join(f"{name} ({why})" for name, why in list(self.skipped.items())[:_NAMED])
        return f"{len(self.skipped):,} of {self.n_items:,} items cannot be used: {first}"


def task_rows(
    model: TaskModel,
    data: Any,
    *,
    batch_size: int = BATCH,
    workers: int | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> TaskInputs:
    """Embed the data set of a task: its images or sounds, and its texts.

    Parameters
    ----------
    model : Model
        What embeds both.
    data : LabelledItems, AOKVQA, MMVP or FairFace
        Its ``images`` are embedded, and its ``inputs(X, kept, encode)`` makes what the task takes:
        given the rows X of the items ``kept``, which can be read, and a function that embeds texts.
    batch_size, workers, progress
        As for ``Model.encode_items``.
    **options
        Those of the data set's ``inputs``.
    """
    X, kept, skipped = model.encode_items(
        data.images, batch_size=batch_size, workers=workers, progress=progress
    )

    def encode(texts: Sequence[str]) -> np.ndarray:
        (progress or silent)("embedding texts", 0, 0)
        return model.encode_texts(texts, batch_size=batch_size)

    found = data.inputs(X, kept, encode, **options)
    return replace(
        found,
        skipped={**found.skipped, **skipped},
        n_items=found.n_items or len(data.images),
    )


@dataclass(frozen=True)
class Option:
    """A setting that the command line offers; one without a default may be left out.

    ``panel`` says whether it belongs to rows from files, which ``needed`` ones cannot do without,
    to a model and data, or to both (None). Its words are the command line's.
    """

    name: str
    kind: Any = str
    default: Any = None
    panel: str | None = None
    needed: bool = False

    @property
    def flag(self) -> str:
        """How it is written."""
        return f"--{self.name.replace('_', '-')}"


COLUMN = Option("column", panel=ROWS)
SPLIT = Option("split", panel=MODEL)
IMAGES = Option("images", Path, panel=MODEL)
# The options that all tasks have.
COMMON = (
    Option("names", str, "image,text", ROWS),
    Option("model", panel=MODEL),
    Option("data", Path, panel=MODEL),
    Option("device", panel=MODEL),
    Option("batch_size", int, BATCH, MODEL),
    Option("fit_on", list[str], panel=SWEEP),
    Option("bank", Path, panel=SWEEP),
    Option("metric", str, "cosine"),
    Option("seed", int, 0),
    Option("as_json", bool, False),
    Option("output", Path),
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

    def swept(
        self,
        fit_on: Sequence[str] = (),
        bank: Embeddings | None = None,
        *,
        seed: int = 0,
        progress: Progress | None = None,
    ) -> TaskSweep:
        """The sweep of the task; ``fit_on`` are one or two files to fit corrections on instead."""
        assert self.task is not None
        if len(fit_on) > 2:
            raise InputValueError(f"--fit-on takes one file or two, got {len(fit_on)}.")
        reference = open_pair(*fit_on, names=self.task.names) if fit_on else None
        rows = None if bank is None else bank.rows()
        return sweep_task(
            self.task, self.ways, fit_on=reference, bank=rows, seed=seed, progress=progress
        )


@dataclass(frozen=True, eq=False)
class TaskCommand:
    """``modgap task NAME``.

    Parameters
    ----------
    name : str
        The name of the task.
    help : str
        What it does, with examples.
    options : tuple of Option
        Its own options; all tasks have those of ``COMMON``, too.
    read : callable
        ``read(given)`` opens the rows that the options name: the inputs of the task.
    open : callable
        ``open(given)`` opens the data that the options name, before a model is loaded.
    settings : tuple of str
        The options that ``task_rows`` takes.
    embed : callable
        ``embed(model, data, **settings)`` gives the inputs of the task.
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
    options: tuple[Option, ...]
    read: Callable[[Any], Mapping[str, Any]]
    open: Callable[[Any], Any]
    prepare: Callable[[Mapping[str, Any], Any, Progress], Prepared]
    settings: tuple[str, ...] = ()
    embed: Callable[..., TaskInputs] = task_rows
    lines: Callable[[Any], Sequence[str] | None] = lambda given: None
    bank: bool = True
    metric: bool = True

    def takes_files(self, given: Any) -> bool:
        """Whether rows are given; options of the other source are refused, missing ones named."""
        values = {one.name: getattr(given, one.name) for one in self.options}
        changed = [one for one in self.options if values[one.name] != one.default]
        if given.rows is None:
            beside = [one.flag for one in changed if one.panel == ROWS]
            if beside:
                raise InputValueError(f"{beside[0]} is for ROWS from a file. Give their path.")
            if not (given.model and given.data):
                raise InputValueError("Give the ROWS of the items, or --model and --data.")
            return False
        beside = [f"--{name}" for name in ("model", "data") if getattr(given, name)]
        beside += [one.flag for one in changed if one.panel == MODEL]
        if beside:
            raise InputValueError(f"{beside[0]} is for --model and --data; ROWS are given as well.")
        missing = [one.flag for one in self.options if one.needed and values[one.name] is None]
        if missing:
            raise InputValueError(f"Rows from files need {' and '.join(missing)}, too.")
        return True


def read_rows(path: Path | str, column: str | None = None) -> Any:
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
