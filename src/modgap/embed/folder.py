"""Embed items into a folder of clip-retrieval's layout: here, or by the workers of an engine."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

from modgap.core.checks import InputValueError, check_choice, check_count
from modgap.core.locks import sole_writer_of
from modgap.core.results import Progress, Result, silent
from modgap.embed.model import BATCH, Model
from modgap.embed.opening import open_model
from modgap.embed.shards import EmbeddedShards, Plan, modalities_of
from modgap.engines import Engine, LocalEngine, open_engine
from modgap.io import open_items
from modgap.io.embedded import NOTE
from modgap.io.items import Items

SHARD_ITEMS = 10_000
DTYPES = ("float32", "float16")
# Items that are named, of those that could not be read.
_NAMED = 3


@dataclass(frozen=True)
class EmbeddedFolder(Result):
    """An embedded folder: how many rows each modality has, and which items could not be read."""

    folder: str
    model: str
    dim: int
    rows: Mapping[str, int]
    n_items: int
    has_labels: bool
    n_done_before: int
    skipped: Mapping[str, str] = field(repr=False)

    def lines(self) -> list[str]:
        """How many rows each modality has."""
        return [f"{n:,} {modality} rows of {self.dim} columns" for modality, n in self.rows.items()]

    def notes(self) -> list[str]:
        """What a user should know: items of an earlier run, and items that could not be read."""
        notes = []
        if self.n_done_before:
            notes.append(f"{self.n_done_before:,} of {self.n_items:,} items were there already")
        if self.skipped:
            notes.append(self.skipped_sentence())
        if self.skipped and self.n_done_before:
            notes.append(
                f"what was left out is not tried again; for that, remove {self.folder} first"
            )
        return notes

    def skipped_sentence(self) -> str:
        """How many items could not be read, and the first of them."""
        count, shown = len(self.skipped), list(self.skipped.items())[:_NAMED]
        first = "; ".join(f"{name} ({why})" for name, why in shown)
        more = f"; and {count - _NAMED:,} more, listed in {NOTE}" if count > _NAMED else ""
        return f"{count:,} of {self.n_items:,} items could not be read: {first}{more}"


def check_captioned(data: str | os.PathLike[str], split: str | None = None) -> None:
    """Refuse data that would give the rows of one modality only."""
    items = open_items(data, split=split)
    if len(modalities_of(items)) < 2:
        raise InputValueError(
            f"{data} must hold images or sounds with captions, so that there are two modalities, "
            f"but {'it holds texts alone' if items.kind == 'text' else 'it has no captions'}."
        )


def embed(
    model: str | Model,
    data: str | os.PathLike[str] | Items,
    output: str | os.PathLike[str],
    *,
    split: str | None = None,
    format: str | None = None,  # noqa: A002 - the word users know
    images: str | os.PathLike[str] | None = None,
    normalise: bool = False,
    dtype: str = "float32",
    batch_size: int = BATCH,
    shard_items: int = SHARD_ITEMS,
    workers: int | None = None,
    engine: str | Engine = "local",
    progress: Progress | None = None,
    **more: Any,
) -> EmbeddedFolder:
    """Embed images or sounds with their captions, or texts, into a folder of rows and metadata.

    The folder has clip-retrieval's layout; all of modgap reads it. An interrupted run resumes when
    the same call is made again. Items that cannot be read are left out, with their captions, and
    named.

    Parameters
    ----------
    model : str or Model
        As for `open_model`, which takes ``more``.
    data : path or Items
        As for `modgap.io.open_items`, which takes ``split``, ``format`` and ``images``.
    output : path
        The folder.
    normalise : bool
        Rows of unit length. modgap needs none: its corrections normalise by themselves.
    dtype : {"float32", "float16"}
        Of the stored rows.
    batch_size, workers : int
        Items to a batch, and threads that read and prepare them.
    shard_items : int
        Items to a file.
    engine : str or Engine
        Where shards are embedded; see `modgap.engines.open_engine`. Workers open the model and the
        data themselves, so both must be there for each of them, as the folder must.
    progress : callable, optional
        Called as ``progress(what, done, total)`` with the number of items that are done.
    """
    check_choice(dtype, "dtype", DTYPES)
    size, shard = check_count(batch_size, "batch_size"), check_count(shard_items, "shard_items")
    opening: dict[str, Any] = {"split": split, "format": format, "images": images}
    items = data if isinstance(data, Items) else open_items(data, **opening)
    found = open_model(model, **more)
    for modality in modalities_of(items):
        found.check_modality(modality)
    plan = Plan.of(found, items, opening, normalise, dtype, shard)
    folder, say, total = Path(output), progress or silent, len(items)
    with sole_writer_of(folder):
        work = EmbeddedShards(found, items, plan, folder, size, workers)
        missing = work.begin()
        done_before = done = total - sum(plan.items_of(number) for number in missing)
        say("embedding", done, total)
        runs = open_engine(engine)
        if isinstance(runs, LocalEngine):
            for number in missing:

                def count(n: int, first: int = done) -> None:
                    say("embedding", first + n, total)

                work.write(number, count)
                done += plan.items_of(number)
        else:
            settings = (plan, folder.absolute(), size, workers)
            job = _Job(partial(_open_work, model, data, opening, more, *settings))
            # What a worker needs to embed as it would here.
            gpus = float(str(more.get("device") or "cuda").startswith("cuda"))
            for number in runs.map(job, missing, gpus=gpus):
                if not work.has(number):
                    raise InputValueError(
                        f"A worker wrote shard {number}, which is not to be seen from here. "
                        f"{folder} must be on a disk that all workers share."
                    )
                done += plan.items_of(number)
                say("embedding", done, total)
        rows, skipped = work.finish()
    return EmbeddedFolder(
        folder=str(folder),
        model=found.name,
        dim=found.dim,
        rows=rows,
        n_items=total,
        has_labels=items.labels is not None,
        n_done_before=done_before,
        skipped=skipped,
    )


@dataclass(frozen=True, eq=False)
class _Job:
    """How a worker embeds shards: it opens the model and the data itself, once a process."""

    opens: Callable[[], EmbeddedShards]
    key: str = field(default_factory=lambda: uuid4().hex)

    def __call__(self, number: int) -> int:
        if self.key not in _opened:
            _opened.clear()
            _opened[self.key] = self.opens()
        _opened[self.key].write(number, lambda _: None)
        return number


def _open_work(
    model: str | Model,
    data: str | os.PathLike[str] | Items,
    opening: Mapping[str, Any],
    more: Mapping[str, Any],
    *settings: Any,
) -> EmbeddedShards:
    items = data if isinstance(data, Items) else open_items(data, **opening)
    return EmbeddedShards(open_model(model, **more), items, *settings)


# The work of the job that this process is at.
_opened: dict[str, EmbeddedShards] = {}
