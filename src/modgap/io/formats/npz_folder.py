"""Folders of `.npz` shards, as DataComp publishes: rows of several models, a table beside each.

https://github.com/mlfoundations/datacomp: `00000000.npz` holds `b32_img`, `b32_txt`, `l14_img` and
`l14_txt` in float16, `00000000.parquet` the uid, url and text of the same rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from modgap._validate import InputValueError
from modgap.io._contents import Column, Contents, listed
from modgap.io._matrices import BATCH_ROWS, join_files
from modgap.io._shards import ShardOpener, in_order
from modgap.io.formats.npz import open_npz
from modgap.io.formats.parquet import open_parquet


def is_npz_folder(folder: Any) -> bool:
    """Whether all that a folder has is `.npz` shards, and tables that go with them."""
    shards, tables = in_order(folder, ".npz"), in_order(folder, ".parquet")
    return bool(shards) and {path.stem for path in tables} <= {path.stem for path in shards}


def open_npz_shards(folder: Any, opening: ShardOpener | None = None) -> Contents:
    """The arrays of all shards, each after the one before, and the columns of their tables."""
    opening = opening or ShardOpener()
    tables = {path.stem: path for path in in_order(folder, ".parquet")}
    open_one = partial(_open_shard, tables=tables, opening=opening)
    found = opening.open_each(in_order(folder, ".npz"), open_one, _n_rows, _look_through)
    shards = list(opening.agreeing(found, _holds, "arrays or columns").values())
    opening.refuse_none(shards, folder)
    filled = [shard for shard in shards if any(0 not in m.shape for m in shard.matrices.values())]
    first, *others = filled or shards[:1]
    for shard in others:
        if set(shard.matrices) != set(first.matrices) or set(shard.columns) != set(first.columns):
            raise InputValueError(
                f"All shards of {folder} must hold the same arrays and columns: "
                f"{first.path.name} has {first.listing()}; {shard.path.name} has {shard.listing()}."
            )
    parts = [first, *others]
    return Contents(
        folder,
        {name: join_files({p.path: p.matrices[name] for p in parts}) for name in first.matrices},
        {name: _joined([p.columns[name] for p in parts]) for name in first.columns},
    )


def _n_rows(shard: Contents) -> int:
    return max((matrix.shape[0] for matrix in shard.matrices.values()), default=0)


def _holds(shard: Contents) -> frozenset:
    if not _n_rows(shard):
        return frozenset()
    names = (*sorted(shard.matrices), *sorted(shard.columns))
    return frozenset({names, *((n, m.shape[1:]) for n, m in shard.matrices.items())})


def _look_through(shard: Contents) -> None:
    """Read every array of a shard and its table."""
    for matrix in shard.matrices.values():
        for _ in matrix.batches(BATCH_ROWS):
            pass
    for column in shard.columns.values():
        column.load()


def _open_shard(path: Any, tables: Mapping[str, Any], opening: ShardOpener) -> Contents:
    found = open_npz(path)
    if not tables:
        return found
    table = path.with_suffix(".parquet")
    if path.stem not in tables:
        raise InputValueError(
            f"{path} has no table {table.name} beside it, which other shards have. Download it, "
            "or move the tables away."
        )
    opening.check_stated(table)
    columns = open_parquet([table], table).columns
    counts = {name: matrix.shape[0] for name, matrix in found.matrices.items() if matrix.shape}
    counts[table.name] = max(column.length for column in columns.values())
    if len(set(counts.values())) > 1:
        said = listed([f"{name}: {count}" for name, count in counts.items()])
        raise InputValueError(
            f"{path} and {table.name} must have the same number of rows, got {said}. "
            "Download both again."
        )
    return Contents(path, found.matrices, {**columns, **found.columns})


def _joined(columns: Sequence[Column]) -> Column:
    n_rows = sum(column.length for column in columns)
    return Column(n_rows, columns[0].dtype, partial(_load_all, columns))


def _load_all(columns: Sequence[Column]) -> np.ndarray:
    return np.concatenate([column.load() for column in columns])
