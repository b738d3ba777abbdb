"""What the command line offers for a task: its options, and what it does with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from modgap.core.checks import InputValueError
from modgap.core.results import Brief, Progress, silent
from modgap.io import Items, open_embeddings
from modgap.io.group_labels import read_labels
from modgap.tasks.sweep import Way
from modgap.tasks.task import Task

# Where help lists an option: rows come from files, or from a model and data.
ROWS, MODEL, SWEEP = "Rows from files", "A model and data instead", "The sweep"
# Items that a model takes at once.
BATCH = 64
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
    to a model and data, or to both (None). ``words`` are how it is written, where not --name.
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
    words: tuple[str, ...] = ()


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
    data: str
    options: tuple[Option, ...]
    read: Callable[[Any], Mapping[str, Any]]
    open: Callable[[Any], Any]
    prepare: Callable[[Mapping[str, Any], Any, Progress], Prepared]
    settings: tuple[str, ...] = ()
    embed: Callable[..., TaskInputs] = task_rows
    lines: Callable[[Any], Sequence[str] | None] = lambda given: None
    bank: bool = True
    metric: bool = True


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


def common_options(data: str) -> tuple[Option, ...]:
    """The options that all tasks have; ``data`` says what --data takes."""
    return (
        Option("names", "What the two modalities are called.", str, "image,text", ROWS),
        Option(
            "model",
            "hf:NAME, open_clip:NAME/WEIGHTS, st:NAME, onnx:FOLDER or run:FOLDER, as for modgap "
            "embed.",
            panel=MODEL,
            metavar="MODEL",
        ),
        Option("data", data, Path, panel=MODEL, metavar="DATA"),
        Option("device", "cpu, cuda, cuda:1 …; the first GPU if there is one.", panel=MODEL),
        Option("batch_size", "Items to a batch.", int, BATCH, MODEL, least=1),
        Option(
            "fit_on",
            "Reference rows to fit corrections on instead of those of the task: one file of both "
            "modalities, or the option twice.",
            list[str],
            panel=SWEEP,
            metavar="PATH",
        ),
        Option(
            "bank",
            "Unlabelled rows of the items' kind, none of them an item, for hubs. By default each "
            "half of the items is the bank of the other.",
            Path,
            panel=SWEEP,
            metavar="PATH",
        ),
        Option(
            "metric",
            "How uncorrected rows are ranked: cosine, inner_product or euclidean. Corrected rows "
            "are ranked by the correction's own metric.",
            str,
            "cosine",
        ),
        Option("seed", "Seed of samples, splits and noise.", int, 0, least=0),
        Option("as_json", "Print JSON instead of a table.", bool, False, words=("--json",)),
        Option(
            "output",
            "Write a figure and the JSON there.",
            Path,
            metavar="FOLDER",
            words=("-o", "--output"),
        ),
    )
