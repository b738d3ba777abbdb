"""Zero-shot classification: is the nearest class text the right one?"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from modgap.arrays import namespace, unit
from modgap.core.checks import Array, InputTypeError, InputValueError, did_you_mean
from modgap.core.door import check_matrix, check_rows
from modgap.core.results import Brief
from modgap.corrections import Metric
from modgap.io import Items, open_items
from modgap.io.modalities import DEFAULT_NAMES
from modgap.search.exact import best_documents
from modgap.tasks.command import (
    COLUMN,
    MODEL,
    ROWS,
    SPLIT,
    EncodeTexts,
    Option,
    Prepared,
    TaskCommand,
    TaskInputs,
    read_rows,
    rows_with,
)
from modgap.tasks.task import Published, Task, check_labels

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

# What CLIP's authors use for pictures, and CLAP's for sounds, where one template must do.
TEMPLATES: Mapping[str, tuple[str, ...]] = {
    "image": ("a photo of a {}.",),
    "audio": ("this is a sound of {}.",),
}
_PLACE = "{}"


def zero_shot_task(
    X: Array,
    class_texts: Array | Sequence[Array],
    labels: Any,
    *,
    names: Sequence[str] = DEFAULT_NAMES,
    groups: Any = None,
    metric: Metric = "cosine",
) -> Task:
    """Is the nearest class text the right one (Radford et al. 2021)? One outcome a row of X.

    Equal scores go to the earlier class. X are the queries, the texts the documents (Yaras et al.,
    E.3). A correction with hubs must have been fitted on other rows than X; see ``zero_shot_hubs``.

    Parameters
    ----------
    X : (n, d) array
        Rows of items.
    class_texts : (c, d) array, (c, p, d) array, or c matrices
        One row per class; several prompts of a class are averaged at unit length, as CLIP does.
    labels : (n,) integers
        The class of each row, from 0 to c − 1.
    names : pair of str
        The names of the modalities of X and of the class texts.
    groups : (n,) labels, optional
        Rows that belong together, frames of one video for instance; by default each by itself.
    metric : {"cosine", "inner_product", "euclidean"}
        How uncorrected rows are ranked.

    >>> score = zero_shot_task(np.eye(3), np.eye(3), [0, 1, 0]).score()
    >>> score.predictions, score.by([0, 1, 0])
    (array([0, 1, 2]), {0: 0.5, 1: 1.0})
    """
    X, texts = check_matrix(X), one_row_per_class(class_texts)
    return Task(
        name="zero_shot",
        names=(names[0], names[1]),
        X=X,
        Y=texts,
        judge=lambda X, Y, metric: best_documents(X, Y, 1, metric)[0][:, 0],
        right=check_class_numbers(labels, X.shape[0], texts.shape[0]),
        chance=1 / texts.shape[0],
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


@dataclass(frozen=True, eq=False)
class LabelledItems(Brief):
    """Images or sounds with labels, and how their classes are said: what ``task_rows`` embeds.

    Parameters
    ----------
    items : Items
        Those without a label are skipped.
    templates : str or several, optional
        Sentences with {} where the class goes; by default "a photo of a {}." for images, "this is a
        sound of {}." for sounds.
    classes : mapping of label to words, or labels, optional
        The classes in their order, and how each is said. By default the labels that occur, sorted,
        with spaces for _.
    """

    items: Items
    templates: str | Iterable[str] | None = None
    classes: Mapping[str, str] | Sequence[str] | None = None

    def __post_init__(self) -> None:
        items = self.items
        if items.kind == "text":
            raise InputValueError(
                f"{items.source} holds texts; only images and sounds have classes."
            )
        if items.labels is None:
            raise InputValueError(
                f"The items of {items.source} have no labels. Put them into a folder for each "
                "class, or give a column called label."
            )
        said = TEMPLATES[items.kind] if self.templates is None else self.templates
        object.__setattr__(self, "templates", check_templates(said))
        words = _class_words(self.classes, items.labels, items.source)
        object.__setattr__(self, "classes", words)

    @cached_property
    def images(self) -> Items:
        """The items that have a label."""
        return self.items.select([row for row, one in enumerate(self.items.labels or ()) if one])

    def inputs(self, X: np.ndarray, kept: Sequence[int], encode: EncodeTexts) -> TaskInputs:
        """What ``zero_shot_task`` takes; ``about["classes"]`` are in the order of their numbers."""
        words: Any = self.classes
        said: Any = self.templates
        texts = encode([text for one in words.values() for text in prompts(one, said)])
        place = {label: number for number, label in enumerate(words)}
        labels = self.images.labels or ()
        inputs = {
            "X": X,
            "class_texts": texts.reshape(len(words), -1, texts.shape[1]),
            "labels": np.array([place[labels[row]] for row in kept]),
            "names": (self.items.kind, "text"),
        }
        without = set(self.items.names) - set(self.images.names)
        return TaskInputs(
            inputs,
            items=tuple(self.images.names[row] for row in kept),
            skipped=dict.fromkeys(sorted(without), "it has no label"),
            n_items=len(self.items),
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


def check_templates(templates: str | Iterable[str]) -> tuple[str, ...]:
    """Templates that all have a place for the name of a class.

    >>> check_templates("a photo of a {}.")
    ('a photo of a {}.',)
    """
    found = (templates,) if isinstance(templates, str) else tuple(templates)
    if not found:
        raise InputValueError("There are no templates. Give at least one, such as 'a {}'.")
    for template in found:
        if _PLACE not in template:
            raise InputValueError(
                "A template must have {} where the name of the class goes, as in "
                f"'a photo of a {{}}.', got {template!r}."
            )
    return found


def read_templates(path: str | os.PathLike[str]) -> tuple[str, ...]:
    """The templates in a text file, one a line; empty lines do not count."""
    return check_templates(line for line in _lines(path) if line)


def read_classes(path: str | os.PathLike[str]) -> dict[str, str]:
    """The classes in a text file, in its order: a label a line, with its words behind a tab."""
    found: dict[str, str] = {}
    for line in _lines(path):
        label, _, words = (part.strip() for part in line.partition("\t"))
        if label in found:
            raise InputValueError(f"{path} has the class {label!r} twice.")
        if label:
            found[label] = words or as_words(label)
    if not found:
        raise InputValueError(f"{path} must have a class a line, got none.")
    return found


def as_words(label: str) -> str:
    """A label as it is said: folders and columns often have _ between words.

    >>> as_words("golden_retriever")
    'golden retriever'
    """
    return label.replace("_", " ").strip()


def prompts(words: str, templates: Iterable[str]) -> list[str]:
    """A class in every template.

    >>> prompts("dog", ["a photo of a {}.", "art of the {}."])
    ['a photo of a dog.', 'art of the dog.']
    """
    return [template.replace(_PLACE, words) for template in templates]


def _lines(path: str | os.PathLike[str]) -> list[str]:
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputValueError(f"{os.fspath(path)} must be UTF-8 text.") from error
    return [line.strip() for line in text.splitlines()]


# What the command line offers.

LABELS = Option("labels", panel=ROWS, needed=True)
CLASS_OPTIONS = (
    Option("template", list[str], panel=MODEL),
    Option("templates", Path, panel=MODEL),
    Option("classes", Path),
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
    texts = read_rows(given.class_text, given.class_column)
    return {"X": X, "class_texts": texts, "labels": labels, "names": given.names}


def open_labelled(given: Any) -> LabelledItems:
    """The items that the options name, and how their classes are said."""
    filled = check_templates(given.template) if given.template else ()
    if given.templates is not None:
        filled = (*filled, *read_templates(given.templates))
    classes = None if given.classes is None else read_classes(given.classes)
    items = open_items(given.data, split=getattr(given, "split", None))
    return LabelledItems(items, filled or None, classes)


COMMAND = TaskCommand(
    name="zero_shot",
    help="""Classify items by the nearest class text, and see what each correction changes.

    Example: modgap task zero_shot images.npy --class-text classes.npy --labels labels.txt

    Example: modgap task zero_shot --model hf:openai/clip-vit-base-patch32 --data photos
    """,
    options=(
        Option("class_text", Path, panel=ROWS, needed=True),
        LABELS,
        COLUMN,
        Option("class_column", panel=ROWS),
        SPLIT,
        *CLASS_OPTIONS,
    ),
    read=_read,
    open=open_labelled,
    prepare=lambda inputs, given, progress: Prepared(zero_shot_task(**inputs, metric=given.metric)),
)
