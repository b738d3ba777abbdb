"""Moments shard by shard, kept in a folder, so that an interrupted run resumes from them."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from modgap.core.checks import InputError
from modgap.core.files import sweep
from modgap.core.results import Progress
from modgap.moments import Moments

if TYPE_CHECKING:
    from modgap.io.embeddings import Embeddings


@dataclass(frozen=True, eq=False)
class RowShard:
    """The rows of one shard, and the number of the first among all.

    ``place`` says where they are stored. ``mark`` changes when they do; it is None where nothing
    tells whether they have changed.
    """

    name: str
    rows: Embeddings
    first_row: int
    place: str
    mark: str | None


def row_shards(rows: Embeddings) -> list[RowShard]:
    """The shards of rows in order; one where they are in one file."""
    found, first_row = [], 0
    names: Counter[str] = Counter()
    for number, matrix in enumerate(rows.matrix.shards()):
        name, place, mark = str(number), f"{number} of {rows.source}", None
        if (file := matrix.file) is not None:
            path = str(file.path)
            name, place = Path(path).stem, f"{os.path.abspath(path)} {matrix.place}"
            mark = f"{file.identity} {matrix.shape} {matrix.dtype}"
        names[name] += 1
        name = name if names[name] == 1 else f"{name}-{names[name]}"
        own = replace(rows, matrix=matrix, columns={}, fields={}, partial=None)
        found.append(RowShard(name, own, first_row, place, mark))
        first_row += matrix.shape[0]
    return found


def kept_moments(rows: Embeddings, name: str, folder: Path, progress: Progress) -> Moments:
    """The moments of all shards; those of each are kept in a folder, and found there next time.

    The sum is the same to the last bit wherever a run was interrupted. A shard that has changed
    since is read again.
    """
    sweep(folder)
    total: Moments | None = None
    step = f"reading {name}"
    for shard in row_shards(rows):
        first = shard.first_row

        def told(_: str, done: int, __: int, first: int = first) -> None:
            progress(step, first + done, rows.n_rows)

        place, mark = (
            None if text is None else hashlib.sha256(text.encode()).hexdigest()[:16]
            for text in (shard.place, shard.mark)
        )
        file = folder / f"{place}-{mark}.safetensors"
        own = None
        if mark is not None and file.is_file():
            with suppress(InputError):  # a file that cannot be used
                own = Moments.load(file)
        if own is not None and (own.unit is None or own.given.scatter is None):
            own = None
        if own is None:
            batches = shard.rows.batches_with_progress(told, step)
            own = Moments.from_stream(batches, name=name, first_row=first)
            if mark is not None:
                for old in folder.glob(f"{place}-*.safetensors"):
                    old.unlink(missing_ok=True)
                own.save(file)
        total = own if total is None else total.add(own)
        progress(step, first + shard.rows.n_rows, rows.n_rows)
    assert total is not None  # there is at least one shard
    return total
