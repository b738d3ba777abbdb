"""Folders of `.npz` shards, as DataComp publishes: rows of several models, a table beside each.

https://github.com/mlfoundations/datacomp: `00000000.npz` holds `b32_img`, `b32_txt`, `l14_img` and
`l14_txt` in float16, `00000000.parquet` the uid, url and text of the same rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np

from modgap._validate import InputValueError
from modgap.io._contents import Column, Contents, listed
from modgap.io._matrix import join_files
from modgap.io.clip_retrieval import in_order
from modgap.io.npz import open_npz
from modgap.io.parquet import open_parquet


def is_npz_folder(folder: Path) -> bool:
    """Whether all that a folder has is `.npz` shards, and tables that go with them."""
    shards, tables = in_order(folder, ".npz"), in_order(folder, ".parquet")
    return bool(shards) and {path.stem for path in tables} <= {path.stem for path in shards}


def open_npz_shards(folder: Path) -> Contents:
    """The arrays of all shards, each after the one before, and the columns of their tables."""
    with_table = {path.stem for path in in_order(folder, ".parquet")}
    shards = [_open_shard(path, bool(with_table)) for path in in_order(folder, ".npz")]
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


def _open_shard(path: Path, with_table: bool) -> Contents:
    found = open_npz(path)
    if not with_table:
        return found
    table = path.with_suffix(".parquet")
    if not table.is_file():
        raise InputValueError(
            f"{path} has no table {table.name} beside it, which other shards have. Download it, "
            "or move the tables away."
        )
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
