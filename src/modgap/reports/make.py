"""``report``: one page about two modalities or more, kept as one file."""

from __future__ import annotations

import html
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np

from modgap.arrays import is_torch, to_numpy
from modgap.core.checks import Array, InputValueError, check_choice
from modgap.core.files import write_text
from modgap.core.results import Progress, Result
from modgap.corrections import Metric
from modgap.diagnosis import Diagnosis
from modgap.evaluation import Goal
from modgap.io import Embeddings, Modalities, Thumbnail
from modgap.io._matrices import ArrayMatrix
from modgap.io.modalities import DEFAULT_NAMES
from modgap.reports.assemble import page_html
from modgap.reports.contents import contents
from modgap.reports.rows import from_pixels

_T = TypeVar("_T")
# Pixels of the page in a notebook: the verdict and the picture, the rest to be scrolled to.
_FRAME_HEIGHT = 760
# What the modalities have of a kind, in order or by name; None for those that have none.
_ForSides = Sequence[_T | None] | Mapping[str, _T | None]


@dataclass(frozen=True, eq=False)
class Report(Result):
    """A page: its document of plain values, and the diagnosis it shows where there is one."""

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

    def _brief(self) -> str:
        known = zip(self.document["names"], self.document["n"], strict=True)
        rows = ", ".join(f"{name} {n:,} rows" for name, n in known)
        found = self.diagnosis
        verdict = "" if found is None else f", {found.verdict} {found.recommended or ''}".rstrip()
        return f"{self.document['title']!r}, {rows}{verdict}"

    def _repr_html_(self) -> str:
        """The page itself, in a frame that may run its scripts and nothing else."""
        # An origin of its own: the page reaches neither the notebook nor what it stores.
        return (
            f'<iframe srcdoc="{html.escape(self.html())}" title="{html.escape(repr(self))}" '
            'sandbox="allow-scripts allow-downloads" loading="lazy" '
            f'style="width:100%;height:{_FRAME_HEIGHT}px;border:1px solid rgba(128,128,128,.4)">'
            "</iframe>"
        )


def report(
    X: Array | Embeddings | Modalities | Mapping[str, Array | Embeddings],
    Y: Array | Embeddings | None = None,
    names: Sequence[str] = DEFAULT_NAMES,
    *,
    groups: tuple[Any, Any] | Mapping[str, Any] | None = None,
    paired: bool | None = None,
    captions: _ForSides[Sequence[str]] | None = None,
    images: _ForSides[np.ndarray | Thumbnail] | None = None,
    fields: _ForSides[Mapping[str, Any]] | None = None,
    queries: str | Sequence[str] | None = None,
    goal: Goal = "mixed",
    metric: Metric = "cosine",
    model: str | None = None,
    title: str | None = None,
    diagnosis: Diagnosis | None = None,
    umap: bool = False,
    seed: int = 0,
    progress: Progress | None = None,
) -> Report:
    """One page about the modalities: the verdict, the gap to look at and to move, every measure.

    ``report(X, Y).save("report.html")`` writes a file that opens anywhere.

    Parameters
    ----------
    X, Y, names, groups, paired
        The modalities, as for ``measure``.
    captions : pair of sequences, or mapping by name, optional
        Texts to show for the rows of each side, for arrays; Embeddings have their own.
    images : pair of arrays or functions, or mapping by name, optional
        Pixels from 0 to 255, (n, height, width) or (n, height, width, 3), or a function that
        gives the PNG or JPEG of a row by its number.
    fields : pair of mappings, or mapping by name, optional
        What else is known of the rows of each side, to colour points by and to search: sequences
        of numbers, truth values or texts by name, such as ``{"image": {"year": years}}``. Columns
        of files are taken without asking.
    queries, goal, metric, model, seed
        As for ``diagnose``; with a diagnosis, ``queries`` are those it was made for.
    title : str, optional
        Title of the page; without it, the names of the files.
    diagnosis : Diagnosis, optional
        That of the same rows and seed, where it was made already.
    umap : bool
        Whether to draw UMAP beside PCA and SVD (needs ``modgap[umap]``); it takes longer than all
        the rest.
    progress : callable, optional
        Called as ``progress(step, done, total)``.
    """
    data = Modalities.of(X, Y, names, groups=groups, paired=paired)
    texts, known = (
        _by_name(one, data.names, what)
        for one, what in ((captions, "captions"), (fields, "fields"))
    )
    sides = {
        name: _described(side, texts.get(name)).with_fields(known.get(name, {}))
        for name, side in data.sides.items()
    }
    data = replace(data, sides=sides)
    pictures = _by_name(images, data.names, "images")
    thumbnails = {name: _pictures(one, data.sides[name]) for name, one in pictures.items()}
    document, diagnosis = contents(
        replace(data, thumbnails=thumbnails) if thumbnails else data,
        queries=queries, goal=goal, metric=metric, model=model, title=title,
        diagnosis=diagnosis, umap=umap, seed=seed, progress=progress,
    )  # fmt: skip
    return Report(document, diagnosis)


def _by_name(given: _ForSides[Any] | None, names: Sequence[str], what: str) -> dict[str, Any]:
    """What was given for the modalities by name; those without any are left out."""
    if given is None:
        return {}
    if isinstance(given, Mapping):
        for name in given:
            check_choice(name, "modality", tuple(names))
        found = dict(given)
    else:
        if len(given) != len(names):
            raise InputValueError(
                f"{what} must be one for each of {', '.join(names)}, got {len(given)}."
            )
        found = dict(zip(names, given, strict=True))
    return {name: one for name, one in found.items() if one is not None}


def _described(side: Embeddings, captions: Sequence[str] | None) -> Embeddings:
    """The rows with their captions; a tensor is brought to the CPU, where pages are made."""
    if side.in_memory and is_torch(side.rows()):
        side = replace(side, matrix=ArrayMatrix(to_numpy(side.rows())))
    if captions is None:
        return side
    if "captions" in side.columns:
        raise InputValueError(f"{side.source} has captions already; pass them for arrays only.")
    return side.with_column("captions", captions)


def _pictures(given: np.ndarray | Thumbnail, side: Embeddings) -> Thumbnail:
    if callable(given):
        return given
    if len(given) != side.n_rows:
        raise InputValueError(
            f"images must have one picture per row: {side.n_rows} rows, got {len(given)}."
        )
    return from_pixels(np.asarray(given))
