"""clip-retrieval's folders: `img_emb/*.npy`, `text_emb/*.npy` and `metadata/*.parquet`.

https://github.com/rom1504/clip-retrieval#clip-inference
"""

from __future__ import annotations

import re
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from modgap._changes import SteadyFile
from modgap._files import atomic_folder
from modgap._validate import InputValueError, check_count
from modgap.io._contents import EMBEDDING, Column, Contents
from modgap.io._matrix import Matrix, join_files, rebatch
from modgap.io._stream import RowStream, check_columns, check_lengths
from modgap.io.npy import open_array, save_array
from modgap.io.parquet import open_parquet

IMAGES, TEXTS, METADATA = "img_emb", "text_emb", "metadata"


def is_clip_retrieval(folder: Path) -> bool:
    """Whether a folder holds the folders clip-retrieval writes."""
    return (folder / IMAGES).is_dir() or (folder / TEXTS).is_dir()


def open_clip_retrieval(folder: Path) -> Contents:
    """Images, texts and metadata, whichever there are; they must agree on the number of rows."""
    matrices: dict[str, Matrix] = {
        name: open_npy_shards(folder / name).matrices[EMBEDDING]
        for name in (IMAGES, TEXTS)
        if (folder / name).is_dir()
    }
    counts = {name: matrix.shape[0] for name, matrix in matrices.items()}
    columns: dict[str, Column] = {}
    if shards := in_order(folder / METADATA, ".parquet"):
        metadata = open_parquet(shards, folder / METADATA)
        columns = dict(metadata.columns)
        for column in columns.values():
            counts[METADATA] = column.length
    if len(set(counts.values())) > 1:
        found = ", ".join(f"{name} has {count}" for name, count in counts.items())
        raise InputValueError(
            f"The parts of {folder} must have the same number of rows, but {found}. "
            "A shard may be missing."
        )
    return Contents(folder, matrices, columns, pair=(IMAGES, TEXTS) if len(matrices) == 2 else None)


def open_npy_shards(folder: Path) -> Contents:
    """The `.npy` files of a folder as one matrix, in the order of their numbers."""
    shards = in_order(folder, ".npy")
    if not shards:
        raise InputValueError(f"{folder} must hold .npy files, got none.")
    parts: dict[Path, Matrix] = {path: open_array(SteadyFile(path)) for path in shards}
    return Contents(folder, {EMBEDDING: join_files(parts)})


def in_order(folder: Path, suffix: str) -> list[Path]:
    """The files of a folder with that suffix, `part_2` before `part_10`; hidden ones left out."""
    paths = [p for p in folder.glob(f"*{suffix}") if p.is_file() and not p.name.startswith(".")]
    return sorted(paths, key=lambda path: natural_key(path.name))


def natural_key(name: str) -> list[tuple[int, str]]:
    """A key that sorts numbers inside names by their value.

    >>> sorted(["e_10.npy", "e_9.npy"], key=natural_key)
    ['e_9.npy', 'e_10.npy']
    """
    return [
        (int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)
    ]


def write_clip_retrieval(
    folder: str | Path,
    x: Any,
    y: Any = None,
    *,
    ids: Any = None,
    captions: Any = None,
    dtype: Any = None,
    shard_rows: int = 100_000,
) -> None:
    """Write a folder as clip-retrieval does.

    Parameters
    ----------
    folder : path
        Must not exist yet, or be empty.
    x, y : matrices, Embeddings or iterables of batches
        The rows of the images and, where there are any, of the texts.
    ids, captions : sequences, optional
        One entry per row; ids become the metadata's ``image_path``.
    dtype : dtype, optional
        Values that do not fit it are refused.
    shard_rows : int
        Rows to a file.
    """
    target = Path(folder)
    check_count(shard_rows, "shard_rows")
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise InputValueError(f"{target} exists already. Choose a new folder, or remove it first.")
    columns = check_columns({"image_path": ids, "caption": captions})
    streams = {IMAGES: RowStream(x, IMAGES, dtype)}
    if y is not None:
        streams[TEXTS] = RowStream(y, TEXTS, dtype)
    with atomic_folder(target) as temporary:
        for name in [*streams, *([METADATA] if columns else [])]:
            (temporary / name).mkdir()
        shards = zip_longest(*(rebatch(s.batches(), shard_rows) for s in streams.values()))
        for number, sides in enumerate(shards):
            for name, rows in zip(streams, sides, strict=True):
                if rows is not None:
                    save_array(temporary / name / f"{name}_{number}.npy", rows)
        counts = {name: stream.n_written for name, stream in streams.items()}
        if len(set(counts.values())) > 1:
            raise InputValueError(
                f"A clip-retrieval folder needs as many images as texts, got {counts[IMAGES]} "
                f"and {counts[TEXTS]}."
            )
        check_lengths(streams.values(), columns, {})
        for number, start in enumerate(range(0, counts[IMAGES] if columns else 0, shard_rows)):
            part = {name: values[start : start + shard_rows] for name, values in columns.items()}
            _write_metadata(temporary / METADATA / f"{METADATA}_{number}.parquet", part)


def _write_metadata(path: Path, columns: dict[str, np.ndarray]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table(columns), path)
