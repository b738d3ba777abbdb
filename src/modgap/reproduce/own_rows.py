"""Rows of your own from files, for every entry that needs only embeddings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from modgap.core.checks import InputValueError, check_same_space
from modgap.core.door import check_rows
from modgap.core.results import spoken
from modgap.io import Modalities, open_embeddings, open_pair
from modgap.io.group_labels import read_labels
from modgap.reproduce.setting import OwnRows

Two = tuple[Path, Path]


def check_sources(
    rows: Two | None,
    model: str | None,
    of_rows: Mapping[str, object],
    of_model: Mapping[str, object],
    *,
    alone: bool,
) -> None:
    """Refuse options that do not go together: rows of your own, or a model and data, or neither.

    ``of_rows`` and ``of_model`` are the options that belong to them; ``alone`` says that there are
    no others.
    """
    for option, value, others in (("--rows", rows, "--model"), ("--model", model, "--rows")):
        if value is not None and not (alone and None in (rows, model)):
            raise InputValueError(
                f"{option} takes the place of other data and is not kept on record; leave out "
                f"--list, --record, --resume, --embeddings, --trained and {others}."
            )
    for option, value, own in (("--rows", rows, of_rows), ("--model", model, of_model)):
        if value is None and any(own.values()):
            named = spoken(f"--{name.replace('_', '-')}" for name in own)
            raise InputValueError(f"{named} belong to {option}.")
    if model is not None and not of_model["data"]:
        raise InputValueError("A model needs data to embed: name some with --data.")


def read_own_rows(
    rows: Two,
    *,
    labels: Path | None = None,
    class_text: Path | None = None,
    other_class_text: Path | None = None,
    groups: str | None = None,
) -> OwnRows:
    """Pairs, and what zero-shot classification needs beside them, as the files give them.

    Parameters
    ----------
    rows
        The files of images and texts, in any format that modgap reads; the same file twice where
        it holds both.
    labels
        The class of every image row, as whole numbers from 0: a file with one per row.
    class_text, other_class_text
        A text row a class, and the same in another wording.
    groups
        Which rows match, as the other commands take it: a column on both sides, a file with one
        label per row, or two of them with a comma between. The first match of each group is taken.
    """
    images, texts = rows
    data = open_pair(images, None if images == texts else texts, groups=groups)
    if not data.paired:
        raise InputValueError(
            f"{images} and {texts} must hold as many rows, got {data.x.n_rows} and "
            f"{data.y.n_rows}. Say which rows match with --groups FILE,FILE."
        )
    chosen = data.matches()
    X, Y = (
        _floats(side.take(which), name)
        for (name, side), which in zip(data.sides.items(), chosen, strict=True)
    )
    check_same_space(X, Y, data.names)
    of_rows, texts_of_class, others = _classes(data, X, labels, class_text, other_class_text)
    return OwnRows(
        X,
        Y,
        None if of_rows is None else of_rows[chosen[0]],
        texts_of_class,
        others,
        taken=_taken(data),
    )


def _taken(data: Modalities) -> str:
    """How the pairs came about, where it is not row by row."""
    if data.group_codes is None:
        return ""
    how = "group" if data.pairing == "by group" else "id"
    return (
        f"of {data.x.n_rows:,} and {data.y.n_rows:,} rows the first of each {how} that both "
        f"sides have"
    )


def _classes(
    data: Modalities,
    X: np.ndarray,
    labels: Path | None,
    class_text: Path | None,
    other_class_text: Path | None,
) -> tuple[np.ndarray | None, np.ndarray | None, np.ndarray | None]:
    """Labels of all image rows and one or two texts a class, if they were given."""
    if (labels is None) != (class_text is None) or (other_class_text and not class_text):
        raise InputValueError(
            "Zero-shot classification needs --labels and --class-text, both or neither, and "
            "--other-class-text only beside them."
        )
    if labels is None or class_text is None:
        return None, None, None
    texts = [
        _floats(open_embeddings(path).rows(), str(path))
        for path in (class_text, other_class_text)
        if path is not None
    ]
    for path, found in zip((class_text, other_class_text), texts, strict=False):
        check_same_space(X, found, ("image", str(path)))
    if len(texts) == 2 and len(texts[0]) != len(texts[1]):
        raise InputValueError(
            f"{class_text} and {other_class_text} must have a row for each class, got "
            f"{len(texts[0])} and {len(texts[1])} rows."
        )
    if not labels.is_file():
        raise InputValueError(f"There is no file {str(labels)!r}. Check the path.")
    of_rows = read_labels(labels)
    if of_rows.shape != (data.x.n_rows,) or of_rows.dtype.kind not in "iu":
        raise InputValueError(
            f"{labels} must have a whole number for each of the {data.x.n_rows} image rows, got "
            f"shape {of_rows.shape} of {of_rows.dtype}."
        )
    if of_rows.min() < 0 or of_rows.max() >= len(texts[0]):
        raise InputValueError(
            f"{labels} must have classes from 0 to {len(texts[0]) - 1}, one a row of {class_text}, "
            f"got {of_rows.min()} to {of_rows.max()}."
        )
    return np.asarray(of_rows, dtype=np.int64), texts[0], texts[1] if len(texts) == 2 else None


def _floats(rows: np.ndarray, name: str) -> np.ndarray:
    """Rows as they are, in float32 at least, each with a direction."""
    found: np.ndarray = check_rows(np.asarray(rows), name, min_rows=2, nonzero=True)
    return found.astype(np.float32) if found.dtype == np.float16 else found
