"""Corrected shards: each is written by the worker that corrected it, whole or not at all.

The folder takes its name once all of its shards are there. Until then it is a hidden one beside it
with a note of what is being made: a run that was killed goes on with the shards that are missing.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from modgap._files import folder_to_write, write_text
from modgap._locks import sole_writer_of
from modgap._results import Progress, silent
from modgap._validate import InputValueError
from modgap.corrections import Correction
from modgap.corrections.correction import Role
from modgap.corrections.row_map import RowMap
from modgap.engines.engine import Engine, open_engine
from modgap.engines.pieces import pieces, starts
from modgap.io import Embeddings, write_embeddings
from modgap.io._matrix import BATCH_ROWS, Matrix
from modgap.io._stream import check_columns, check_float_dtype

_NOTE = "making.json"


def apply_to_shards(
    correction: Correction,
    rows: Embeddings,
    folder: str | os.PathLike[str],
    modality: str,
    *,
    role: Role = "document",
    keys: np.ndarray | None = None,
    dtype: Any = None,
    engine: str | Engine = "local",
    progress: Progress | None = None,
) -> int:
    """Write corrected rows as a folder of shards; how many shards there are.

    Shards are .npy files, or Parquet where rows have ids, captions, labels or groups. A run that
    was killed is run again in the same way and goes on.

    Parameters
    ----------
    correction : Correction
        What is applied.
    rows : Embeddings
        The rows of one modality; each of their shards becomes one.
    folder : path
        A new folder, on a disk that all workers share.
    modality, role : str
        Which rows they are, and whether documents or queries.
    keys : (n,) integers, optional
        Those of documents of a correction with hubs; see `modgap.corrections.own_keys`.
    dtype : dtype, optional
        float16, float32 or float64; that of the rows when left out.
    engine : str or Engine
        Where it is done; see `open_engine`.
    progress : callable, optional
        Called as ``progress(step, done, total)`` after each shard.
    """
    target = folder_to_write(folder)
    if target.exists() and any(target.iterdir()):
        raise InputValueError(f"{folder} holds other files. Give a new folder with -o.")
    mapping = correction.map(modality, role)
    kind = check_float_dtype(rows.dtype if dtype is None else dtype)
    columns = check_columns(
        {
            "ids": rows.ids,
            "captions": rows.captions,
            "labels": rows.labels,
            "groups": rows.groups,
        }
    )
    suffix = ".parquet" if columns else ".npy"
    cut = pieces(rows.matrix)
    making = target.with_name(f".{target.name}.unfinished")
    shards = [
        _Shard(piece, first, making / f"part-{number:05d}{suffix}",
               _slice(keys, piece, first), {k: _slice(v, piece, first) for k, v in columns.items()})
        for number, (piece, first) in enumerate(zip(cut, starts(cut), strict=True))
    ]  # fmt: skip
    work = _Correct(mapping, modality, str(kind))
    with sole_writer_of(target):
        _begin(making, _note(work, rows, shards, keys))
        _write(open_engine(engine), work, shards, rows.n_rows, modality, progress or silent)
        _finish(making, target)
    return len(shards)


@dataclass(frozen=True, eq=False)
class _Shard:
    """Rows on their way into a file, with what belongs to them."""

    matrix: Matrix
    first_row: int
    path: Path
    keys: np.ndarray | None
    columns: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class _Correct:
    """Corrects a shard and writes it; says how many rows it has."""

    mapping: RowMap
    modality: str
    dtype: str

    def __call__(self, shard: _Shard) -> int:
        batches = self._mapped(shard)
        write_embeddings(shard.path, batches, dtype=self.dtype, **shard.columns)
        return shard.matrix.shape[0]

    def _mapped(self, shard: _Shard) -> Any:
        done = 0
        for batch in shard.matrix.batches(BATCH_ROWS):
            end = done + len(batch)
            own = None if shard.keys is None else shard.keys[done:end]
            yield self.mapping(batch, self.modality, first_row=shard.first_row + done, keys=own)
            done = end


def _write(
    engine: Engine,
    work: _Correct,
    shards: list[_Shard],
    n_rows: int,
    modality: str,
    progress: Progress,
) -> None:
    missing = [shard for shard in shards if not shard.path.is_file()]
    done, step = n_rows - sum(shard.matrix.shape[0] for shard in missing), f"correcting {modality}"
    progress(step, done, n_rows)
    for written in engine.map(work, missing):
        done += written
        progress(step, done, n_rows)
    for shard in missing:
        if not shard.path.is_file():
            raise InputValueError(
                f"A worker wrote {shard.path}, which is not to be seen from here. The folder must "
                "be on a disk that all workers share."
            )


def _begin(making: Path, note: str) -> None:
    """The hidden folder of this very work; what is there of other work is removed."""
    path = making / _NOTE
    known = ""
    with suppress(OSError, UnicodeDecodeError):
        known = path.read_text(encoding="utf-8")
    if known != note and making.exists():
        shutil.rmtree(making)
    making.mkdir(parents=True, exist_ok=True)
    if known != note:
        write_text(path, note)


def _finish(making: Path, target: Path) -> None:
    (making / _NOTE).unlink()
    for left in making.glob(".modgap-*"):  # of workers that were killed
        shutil.rmtree(left, ignore_errors=True)
    os.replace(making, target)


def _note(work: _Correct, rows: Embeddings, shards: list[_Shard], keys: np.ndarray | None) -> str:
    """What is being made, so that another run knows whether it is the same."""
    probe = np.random.default_rng(0).normal(size=(4, work.mapping.dim_in))
    digest = hashlib.sha256(np.ascontiguousarray(work.mapping(probe)).tobytes())
    if keys is not None:
        digest.update(np.ascontiguousarray(keys).tobytes())
    for name, values in shards[0].columns.items():
        digest.update(f"{name} {values[:5].tolist()}".encode())
    return json.dumps(
        {
            "source": rows.source,
            "files": _files_of(rows.source),
            "shards": [shard.matrix.shape[0] for shard in shards],
            "modality": work.modality,
            "dtype": work.dtype,
            "map": digest.hexdigest(),
        }
    )


def _files_of(source: str) -> list[Any]:
    """Size and time of the files that are read, where they are files of this machine."""
    place = Path(source)
    paths = sorted(place.rglob("*")) if place.is_dir() else [place]
    known = [(path, path.stat()) for path in paths if path.is_file()]
    return [[str(path), seen.st_size, seen.st_mtime_ns] for path, seen in known]


def _slice(values: Any, piece: Matrix, first: int) -> Any:
    return None if values is None else values[first : first + piece.shape[0]]
