"""From a model and items with classes to the rows that tasks take."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from modgap._results import Brief, Progress, silent
from modgap._validate import InputValueError, did_you_mean
from modgap.embed.item_batches import item_rows
from modgap.embed.model import BATCH, Model
from modgap.embed.templates import TEMPLATES, as_words, check_templates, prompts
from modgap.io import Items


@dataclass(frozen=True, eq=False)
class LabelledRows(Brief):
    """Items with their classes, and prompts of each class, embedded by one model.

    ``X`` (n, d) are the items, ``labels`` their class numbers; ``class_texts`` (classes, templates,
    d) the prompts; ``zero_shot`` and ``zero_shot_task`` take these three as they are. ``items`` are
    the names of those embedded, ``skipped`` says why others were not.
    """

    names: tuple[str, str]
    X: np.ndarray
    labels: np.ndarray
    class_texts: np.ndarray
    classes: tuple[str, ...]
    items: tuple[str, ...]
    skipped: Mapping[str, str] = field(default_factory=dict, repr=False)


def class_texts(
    model: Model, classes: Sequence[str], templates: str | Iterable[str] = TEMPLATES["image"]
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
    return model.encode_texts(texts).reshape(len(classes), len(filled), model.dim)


def zero_shot_rows(
    model: Model,
    items: Items,
    templates: str | Iterable[str] | None = None,
    *,
    classes: Mapping[str, str] | Sequence[str] | None = None,
    batch_size: int = BATCH,
    workers: int | None = None,
    progress: Progress | None = None,
) -> LabelledRows:
    """Embed items that have labels, and a prompt of every class in every template.

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
        As for ``item_rows``.
    """
    labels = items.labels
    if items.kind == "text":
        raise InputValueError(f"{items.source} holds texts; classes are told of images or sounds.")
    if labels is None:
        raise InputValueError(
            f"The items of {items.source} have no labels. Put them into a folder for each class, "
            "or give a column called label."
        )
    words = _words(classes, labels)
    _check_known(labels, words, items.source)
    filled = check_templates(TEMPLATES[items.kind] if templates is None else templates)
    say = progress or silent
    labelled = [row for row, label in enumerate(labels) if label]
    usable = items if len(labelled) == len(items) else items.select(labelled)
    say("embedding the classes", 0, 0)
    texts = class_texts(model, list(words.values()), filled)
    X, kept, skipped = item_rows(
        model, usable, batch_size=batch_size, workers=workers, progress=progress
    )
    without = {items.names[row]: "it has no label" for row in range(len(items)) if not labels[row]}
    place = {label: number for number, label in enumerate(words)}
    kept_labels = usable.labels or ()
    return LabelledRows(
        names=(items.kind, "text"),
        X=X,
        labels=np.array([place[kept_labels[row]] for row in kept]),
        class_texts=texts,
        classes=tuple(words),
        items=tuple(usable.names[row] for row in kept),
        skipped={**without, **skipped},
    )


def _words(
    classes: Mapping[str, str] | Sequence[str] | None, labels: Sequence[str]
) -> dict[str, str]:
    """How each class is said, by its label."""
    if isinstance(classes, Mapping):
        return dict(classes)
    given = sorted({label for label in labels if label}) if classes is None else list(classes)
    if len(set(given)) < len(given):
        raise InputValueError("classes must name each class once.")
    return {label: as_words(label) for label in given}


def _check_known(labels: Sequence[str], words: Mapping[str, str], source: str) -> None:
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
