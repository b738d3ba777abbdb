"""Folders of `.npz` shards, as DataComp publishes: rows of several models, a table beside each.

https://github.com/mlfoundations/datacomp: `00000000.npz` holds `b32_img`, `b32_txt`, `l14_img` and
`l14_txt` in float16, `00000000.parquet` the uid, url and text of the same rows.
"""

from __future__ import annotations

from collections.abc import Set
from functools import partial
from typing import Any

from modgap._validate import InputValueError
from modgap.io._contents import Contents, listed
from modgap.io._shards import ShardOpener, in_order
from modgap.io.formats.npz import open_npz
from modgap.io.formats.parquet import open_parquet


def is_npz_folder(folder: Any) -> bool:
    """Whether all that a folder has is `.npz` shards, and tables that go with them."""
    shards, tables = in_order(folder, ".npz"), in_order(folder, ".parquet")
    return bool(shards) and {path.stem for path in tables} <= {path.stem for path in shards}


def open_npz_shards(folder: Any, opener: ShardOpener) -> Contents:
    """The arrays of all shards, each after the one before, and the columns of their tables."""
    tables = {path.stem for path in in_order(folder, ".parquet")}
    open_one = partial(_open_shard, tables=tables, opener=opener)
    shards = opener.open_each(in_order(folder, ".npz"), open_one)
    opener.refuse_none(shards, folder)
    return Contents.joined(shards.values(), folder)


def _open_shard(path: Any, tables: Set[str], opener: ShardOpener) -> Contents:
    found = open_npz(path)
    if not tables:
        return found
    table = path.with_suffix(".parquet")
    if path.stem not in tables:
        raise InputValueError(
            f"{path} has no table {table.name} beside it, which other shards have. Download it, "
            "or move the tables away."
        )
    opener.check_stated(table)
    columns = open_parquet(table).columns
    counts = {name: matrix.shape[0] for name, matrix in found.matrices.items() if matrix.shape}
    counts[table.name] = max(column.length for column in columns.values())
    if len(set(counts.values())) > 1:
        said = listed([f"{name}: {count}" for name, count in counts.items()])
        raise InputValueError(
            f"{path} and {table.name} must have the same number of rows, got {said}. "
            "Download both again."
        )
    return Contents(path, found.matrices, {**columns, **found.columns})
