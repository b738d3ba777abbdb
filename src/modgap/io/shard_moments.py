"""The shards that rows are read from, one by one: what a stopped run goes on from."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from modgap._files import sweep
from modgap._results import Progress
from modgap._validate import InputError
from modgap.moments import Moments

if TYPE_CHECKING:
    from modgap.io.embeddings import Embeddings


@dataclass(frozen=True, eq=False)
class Part:
    """One shard: its rows, and where they begin among all.

    ``place`` says where they lie, and ``mark`` changes when they do; it is None where nothing tells
    whether they have changed.
    """

    name: str
    rows: Embeddings
    first_row: int
    place: str
    mark: str | None


def parts_of(rows: Embeddings) -> list[Part]:
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
        found.append(Part(name, own, first_row, place, mark))
        first_row += matrix.shape[0]
    return found


def kept_moments(rows: Embeddings, name: str, folder: Path, progress: Progress) -> Moments:
    """The moments of all shards; those of each are kept in a folder, and found there next time.

    The sum is the same to the last bit wherever a run was stopped. A shard that has changed since
    is read again.
    """
    sweep(folder)
    total: Moments | None = None
    step = f"reading {name}"
    for part in parts_of(rows):
        file = _kept(part, folder)
        own = _load(file)
        if own is None:
            own = Moments.from_stream(_told(part, rows.n_rows, progress, step), name=name,
                                      first_row=part.first_row)  # fmt: skip
            if file is not None:
                for old in folder.glob(f"{file.name[:_PLACE]}-*.safetensors"):
                    old.unlink(missing_ok=True)
                own.save(file)
        total = own if total is None else total.add(own)
        progress(step, part.first_row + part.rows.n_rows, rows.n_rows)
    assert total is not None  # there is at least one shard
    return total


def _told(part: Part, n_rows: int, progress: Progress, step: str) -> Iterator[np.ndarray]:
    def say(_: str, done: int, __: int) -> None:
        progress(step, part.first_row + done, n_rows)

    return part.rows.batches_with_progress(say, step)


# Letters of the name of a file that say which shard it is of; the others say in which state.
_PLACE = 16


def _kept(part: Part, folder: Path) -> Path | None:
    if part.mark is None:
        return None
    return folder / f"{_digest(part.place)}-{_digest(part.mark)}.safetensors"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_PLACE]


def _load(file: Path | None) -> Moments | None:
    """What an earlier run has kept; a file that cannot be used is made again."""
    if file is None or not file.is_file():
        return None
    try:
        found = Moments.load(file)
    except InputError:
        return None
    return found if found.unit is not None and found.given.scatter is not None else None
