"""Zero-shot classification: is the nearest class text the right one?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from modgap._arrays import namespace, unit
from modgap._door import check_matrix, check_rows
from modgap._results import Progress, Result, silent
from modgap._validate import Array, InputTypeError, InputValueError, did_you_mean
from modgap.corrections import Correction, Metric
from modgap.io import Items, open_items
from modgap.io.modalities import DEFAULT_NAMES
from modgap.search import search
from modgap.search.scores import metric_of
from modgap.tasks.command import (
    BATCH,
    COLUMN,
    MODEL,
    ROWS,
    SPLIT,
    Encoder,
    Option,
    Prepared,
    TaskCommand,
    TaskInputs,
    rows_file,
    rows_of,
    rows_with,
)
from modgap.tasks.task import Published, Task, check_labels, names_of
from modgap.tasks.templates import (
    TEMPLATES,
    as_words,
    check_templates,
    prompts,
    read_classes,
    read_templates,
)

# Liang et al. 2022, table 1: accuracy, accuracy at the gap that is best on the same images, and
# whether that gap is larger or smaller.
_LIANG = {
    "CIFAR10": (0.9013, 0.9081, "larger"),
    "CIFAR100": (0.6658, 0.6737, "smaller"),
    "EuroSAT": (0.541, 0.5645, "smaller"),
    "SVHN": (0.5389, 0.5396, "larger"),
    "HatefulMemes": (0.58, 0.5811, "larger"),
}
PUBLISHED = tuple(
    Published(
        after,
        f"{name} at its best gap, {direction} than the original, where it is {before:g}",
        "Liang et al. 2022, table 1",
    )
    for name, (before, after, direction) in _LIANG.items()
)


@dataclass(frozen=True)
class Classification(Result):
    """Accuracy of predicted classes, over all items and by class.

    ``class_accuracy`` has one number per entry of ``classes``, NaN where no item has that class.
    ``hits`` has one Boolean per item: two runs over the same items compare by
    ``compare(before.hits, after.hits)``.
    """

    accuracy: float
    class_accuracy: np.ndarray
    classes: np.ndarray
    n: int
    predictions: np.ndarray
    hits: np.ndarray

    @property
    def mean_class_accuracy(self) -> float:
        """Mean over the classes that have items: each class counts the same."""
        return float(np.nanmean(self.class_accuracy))

    def to_dict(self) -> dict[str, Any]:
        """The accuracies, without each item's prediction."""
        found = super().to_dict()
        del found["predictions"], found["hits"]
        return {**found, "mean_class_accuracy": self.mean_class_accuracy}


def accuracies(labels: np.ndarray, predictions: np.ndarray, classes: np.ndarray) -> dict[str, Any]:
    """The fields of a ``Classification`` for predictions among the classes."""
    hits = predictions == labels
    place = np.searchsorted(classes, labels)
    counts = np.bincount(place, minlength=len(classes))
    right = np.bincount(place, weights=hits, minlength=len(classes))
    return {
        "accuracy": float(np.mean(hits)),
        "class_accuracy": np.where(counts > 0, right / np.maximum(counts, 1), np.nan),
        "classes": classes,
        "n": len(labels),
        "predictions": predictions,
        "hits": hits,
    }


@dataclass(frozen=True)
class ZeroShot(Classification):
    """A ``Classification`` by the nearest class text; classes are numbered from 0."""

    metric: str


def zero_shot(
    X: Array,
    class_texts: Array | Sequence[Array],
    labels: Any,
    *,
    metric: Metric | None = None,
    correction: Correction | None = None,
) -> ZeroShot:
    """Accuracy of giving each row of X the class whose text is nearest (Radford et al. 2021).

    ``class_texts`` (c, d) has one row per class; several prompts per class come as (c, p, d) or as
    c matrices, and are averaged at unit length, as CLIP does. ``labels`` are class numbers, 0 to
    c − 1, one per row of X. Equal scores go to the earlier class. Chance is 1/c. The metric is the
    correction's, else cosine; X are the queries, the texts the documents (Yaras et al., E.3). A
    correction with hubs must have been fitted on other rows than X; see ``zero_shot_hubs``.

    >>> import numpy as np
    >>> zero_shot(np.eye(3), np.eye(3), [0, 1, 0]).class_accuracy
    array([0.5, 1. , nan])
    """
    used = metric_of(metric, correction, "cosine")
    task = zero_shot_task(
        X, class_texts, labels, names=names_of(correction), metric=metric or "cosine"
    )
    predicted = task.judge(*task.rows(correction), used)
    assert task.right is not None
    return ZeroShot(**accuracies(task.right, predicted, np.arange(len(task.Y))), metric=used)


def zero_shot_task(
    X: Array,
    class_texts: Array | Sequence[Array],
    labels: Any,
    *,
    names: Sequence[str] = DEFAULT_NAMES,
    groups: Any = None,
    metric: Metric = "cosine",
) -> Task:
    """Is the nearest class text the right one? One outcome a row of X.

    Parameters
    ----------
    X, class_texts, labels
        As for ``zero_shot``: several prompts a class are averaged.
    names : pair of str
        The names of the modalities of X and of the class texts.
    groups : (n,) labels, optional
        Rows that belong together, frames of one video for instance; by default each by itself.
    metric : {"cosine", "inner_product", "euclidean"}
        How uncorrected rows are ranked.

    >>> task = zero_shot_task(np.eye(3), np.eye(3), [0, 1, 0])
    >>> task.outcomes()
    array([1., 1., 0.])
    """
    X, texts = check_matrix(X), one_row_per_class(class_texts)
    return Task(
        name="zero_shot",
        names=(names[0], names[1]),
        X=X,
        Y=texts,
        judge=lambda X, Y, metric: search(X, Y, 1, metric)[0][:, 0],
        right=check_class_numbers(labels, X.shape[0], texts.shape[0]),
        groups=np.arange(X.shape[0]) if groups is None else np.asarray(groups),
        metric=metric,
        published=PUBLISHED,
        row_names=("X", "class_texts"),
    )


def check_class_numbers(labels: Any, n: int, n_classes: int) -> np.ndarray:
    """One class number per row, from 0."""
    found = check_labels(labels, n)
    if found.dtype.kind not in "iu":
        raise InputTypeError(
            f"labels must be class numbers, whole numbers from 0, got {found.dtype}. "
            "Number the classes in the order of class_texts."
        )
    if found.min() < 0 or found.max() >= n_classes:
        raise InputValueError(
            f"labels must be between 0 and {n_classes - 1}, one class per row of class_texts, "
            f"got {found.min()} to {found.max()}."
        )
    return found


def one_row_per_class(class_texts: Array | Sequence[Array]) -> Array:
    """Class rows as given, or the unit mean of each class's unit prompts."""
    listed = isinstance(class_texts, (list, tuple)) and len(class_texts) > 0
    if not (listed and np.ndim(class_texts[0]) == 2) and getattr(class_texts, "ndim", 2) != 3:
        return check_matrix(class_texts, "class_texts")
    means = []
    for place, given in enumerate(class_texts):
        rows = unit(check_rows(given, f"class_texts[{place}]", nonzero=True))
        means.append(namespace(rows).mean(rows, axis=0))
    return unit(namespace(*means).stack(means))


def class_texts(
    model: Encoder, classes: Sequence[str], templates: str | Iterable[str] = TEMPLATES["image"]
) -> np.ndarray:
    """Rows (classes, templates, dim) of every class in every template.

    ``zero_shot`` averages the templates of a class at unit length, as CLIP does.

    Parameters
    ----------
    model : Model
        What embeds the texts, as documents.
    classes : sequence of str
        What each class is called, in words.
    templates : str or several
        Sentences with {} where the class goes.
    """
    filled = check_templates(templates)
    if isinstance(classes, str) or not classes:
        raise InputValueError("classes must be a list of names, at least one.")
    texts = [prompt for words in classes for prompt in prompts(words, filled)]
    rows = model.encode_texts(texts, batch_size=BATCH)
    return rows.reshape(len(classes), len(filled), model.dim)


def zero_shot_rows(
    model: Encoder,
    items: Items,
    templates: str | Iterable[str] | None = None,
    *,
    classes: Mapping[str, str] | Sequence[str] | None = None,
    batch_size: int = BATCH,
    workers: int | None = None,
    progress: Progress | None = None,
) -> TaskInputs:
    """Embed items that have labels, and a prompt of every class in every template.

    ``about["classes"]`` are the classes in the order of their numbers.

    Parameters
    ----------
    model : Model
        What embeds both.
    items : Items
        Images or sounds with labels; those without one are skipped.
    templates : str or several, optional
        Sentences with {} where the class goes; "a photo of a {}." for images, "this is a sound of
        {}." for sounds.
    classes : mapping of label to words, or labels, optional
        The classes in their order, and how each is said. By default the labels that occur, sorted,
        with spaces for _.
    batch_size, workers, progress
        As for ``Model.encode_items``.
    """
    labels = items.labels
    if items.kind == "text":
        raise InputValueError(f"{items.source} holds texts; classes are told of images or sounds.")
    if labels is None:
        raise InputValueError(
            f"The items of {items.source} have no labels. Put them into a folder for each class, "
            "or give a column called label."
        )
    words = _class_words(classes, labels, items.source)
    filled = check_templates(TEMPLATES[items.kind] if templates is None else templates)
    labelled = [row for row, label in enumerate(labels) if label]
    usable = items if len(labelled) == len(items) else items.select(labelled)
    (progress or silent)("embedding the classes", 0, 0)
    texts = class_texts(model, list(words.values()), filled)
    X, kept, skipped = model.encode_items(
        usable, batch_size=batch_size, workers=workers, progress=progress
    )
    without = {items.names[row]: "it has no label" for row in range(len(items)) if not labels[row]}
    place = {label: number for number, label in enumerate(words)}
    return TaskInputs(
        {
            "X": X,
            "class_texts": texts,
            "labels": np.array([place[labels[labelled[row]]] for row in kept]),
            "names": (items.kind, "text"),
        },
        items=tuple(usable.names[row] for row in kept),
        skipped={**without, **skipped},
        n_items=len(items),
        about={"classes": tuple(words)},
    )


def _class_words(
    classes: Mapping[str, str] | Sequence[str] | None, labels: Sequence[str], source: str
) -> dict[str, str]:
    """How each class is said, by its label; every label of the items must be a class."""
    if isinstance(classes, Mapping):
        words = dict(classes)
    else:
        listed = sorted({label for label in labels if label}) if classes is None else list(classes)
        if len(set(listed)) < len(listed):
            raise InputValueError("classes must name each class once.")
        words = {label: as_words(label) for label in listed}
    if len(words) < 2:
        raise InputValueError(
            f"There must be at least two classes, got {', '.join(words) or 'none'}."
        )
    for label in dict.fromkeys(labels):
        if label and label not in words:
            raise InputValueError(
                f"{source} has the class {label!r}, which is not among the {len(words)} classes "
                f"given.{did_you_mean(label, words)}"
            )
    return words


# What the command line offers.

LABELS = Option(
    "labels",
    "The class of each row, numbers from 0 or names: an array or column of ROWS, or a file with "
    "one per row.",
    panel=ROWS,
    needed=True,
)
LABELLED_DATA = "Images or sounds with labels: a folder for each class, Parquet, CSV, JSON Lines …"
CLASS_OPTIONS = (
    Option(
        "template",
        "A sentence with {} where the class goes. May be repeated: the rows of a class are "
        "averaged. 'a photo of a {}.' for images, 'this is a sound of {}.' for sounds.",
        list[str],
        panel=MODEL,
        metavar="TEXT",
    ),
    Option("templates", "A file of templates, one a line.", Path, panel=MODEL, metavar="FILE"),
    Option(
        "classes",
        "The classes in their order: a label a line, with its words behind a tab. By default the "
        "labels of the data, sorted.",
        Path,
        metavar="FILE",
    ),
)


def _read(given: Any) -> dict[str, Any]:
    X, labels = rows_with(given.rows, given.labels, given.column)
    if given.classes is not None:
        place = {label: number for number, label in enumerate(read_classes(given.classes))}
        unknown = next((str(label) for label in labels if str(label) not in place), None)
        if unknown is not None:
            raise InputValueError(f"The label {unknown!r} is not a class of {given.classes}.")
        labels = np.array([place[str(label)] for label in labels])
    elif labels.dtype.kind not in "iu":
        raise InputValueError(
            f"The labels of {given.rows} are names, so --classes must say which row of the class "
            "texts each belongs to: a name a line, in that order."
        )
    texts = rows_of(given.class_text, given.class_column)
    return {"X": X, "class_texts": texts, "labels": labels, "names": given.names}


def open_labelled(given: Any) -> tuple[Items, dict[str, Any]]:
    """The items that the options name, and how their classes are said."""
    filled = check_templates(given.template) if given.template else ()
    if given.templates is not None:
        filled = (*filled, *read_templates(given.templates))
    classes = None if given.classes is None else read_classes(given.classes)
    items = open_items(given.data, split=getattr(given, "split", None))
    return items, {"templates": filled or None, "classes": classes}


def embed_labelled(
    model: Encoder, data: tuple[Items, dict[str, Any]], given: Any, progress: Progress
) -> TaskInputs:
    """What ``open_labelled`` gives, embedded."""
    items, said = data
    return zero_shot_rows(model, items, **said, batch_size=given.batch_size, progress=progress)


COMMAND = TaskCommand(
    name="zero_shot",
    help="""Classify items by the nearest class text, and see what each correction changes.

    Example: modgap task zero_shot images.npy --class-text classes.npy --labels labels.txt

    Example: modgap task zero_shot --model hf:openai/clip-vit-base-patch32 --data photos
    """,
    data=LABELLED_DATA,
    options=(
        rows_file(
            "class_text",
            "Embeddings of the class texts, a row a class in the order of their numbers.",
            needed=True,
        ),
        LABELS,
        COLUMN,
        Option("class_column", "Array or column of the class texts.", panel=ROWS),
        SPLIT,
        *CLASS_OPTIONS,
    ),
    read=_read,
    open=open_labelled,
    embed=embed_labelled,
    prepare=lambda inputs, given, progress: Prepared(zero_shot_task(**inputs, metric=given.metric)),
)
