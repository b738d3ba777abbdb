"""``report``: one page about two modalities, kept as one file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from modgap._files import write_text
from modgap._results import Result
from modgap._validate import Array, InputValueError, check_groups, check_names
from modgap.corrections import Metric
from modgap.diagnosis import Diagnosis
from modgap.diagnosis.run import Progress
from modgap.diagnosis.verdict import Goal
from modgap.io import EmbeddingPair, Embeddings
from modgap.reports.assemble import page_html
from modgap.reports.contents import contents
from modgap.reports.thumbnails import Thumbnail, from_pixels


@dataclass(frozen=True, eq=False)
class Report(Result):
    """A page: its document of plain values, and the diagnosis it rests on where there is one."""

    document: dict[str, Any] = field(repr=False)
    diagnosis: Diagnosis | None = field(default=None, repr=False)

    def to_dict(self) -> dict[str, Any]:
        """The document the page is drawn from."""
        return self.document

    def html(self) -> str:
        """The whole page: it needs no network and no other file."""
        return page_html(self.document)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page in one step."""
        write_text(path, self.html())

    def __str__(self) -> str:
        return " ".join(self.document["verdict"]["sentences"])


def report(
    X: Array | Embeddings,
    Y: Array | Embeddings,
    names: Sequence[str] = ("image", "text"),
    *,
    groups: tuple[Any, Any] | None = None,
    paired: bool | None = None,
    captions: tuple[Sequence[str] | None, Sequence[str] | None] = (None, None),
    images: tuple[np.ndarray | Thumbnail | None, np.ndarray | Thumbnail | None] = (None, None),
    goal: Goal = "mixed",
    metric: Metric = "cosine",
    model: str | None = None,
    title: str | None = None,
    diagnosis: Diagnosis | None = None,
    umap: bool | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Report:
    """One page about two modalities: the verdict, the gap to look at and to move, every measure.

    Rows match as in ``diagnose``, which is run unless ``diagnosis`` is that of the same rows and
    seed. ``captions`` are texts to show for the rows of each side, ``images`` their pixels,
    (n, height, width) or (n, height, width, 3) from 0 to 255, or a function of a row's number.
    ``report(X, Y).save("report.html")`` writes a file that opens anywhere.
    """
    first, second = check_names(names)
    x, y = (
        _side(rows, texts, name)
        for rows, texts, name in ((X, captions[0], first), (Y, captions[1], second))
    )
    if paired is None:
        paired = groups is not None or x.n_rows == y.n_rows
    if paired and groups is not None:
        groups = check_groups(groups, x.n_rows, y.n_rows)
    thumbnails = tuple(_pictures(given, side) for given, side in ((images[0], x), (images[1], y)))
    document, diagnosis = contents(
        EmbeddingPair(x, y, groups if paired else None, paired, (first, second)),
        goal=goal,
        metric=metric,
        model=model,
        title=title,
        thumbnails=thumbnails,  # type: ignore[arg-type]
        diagnosis=diagnosis,
        umap=umap,
        seed=seed,
        progress=progress,
    )
    return Report(document, diagnosis)


def _side(rows: Array | Embeddings, captions: Sequence[str] | None, name: str) -> Embeddings:
    if not isinstance(rows, Embeddings):
        return Embeddings.from_array(rows, captions=captions, source=name)
    if captions is not None:
        raise InputValueError("captions come with Embeddings; pass them for arrays only.")
    return rows


def _pictures(given: np.ndarray | Thumbnail | None, side: Embeddings) -> Thumbnail | None:
    if given is None or callable(given):
        return given
    if len(given) != side.n_rows:
        raise InputValueError(
            f"images must have one picture per row: {side.n_rows} rows, got {len(given)}."
        )
    return from_pixels(np.asarray(given))
