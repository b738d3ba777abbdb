"""Corrects a folder of shards into another, on any engine; an interrupted run resumes.

Each shard is written atomically by one worker, in ``OUT.partial`` beside the folder. The folder
gets its name once all shards are there. A shard whose source has changed is made again.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from modgap.arrays import row_blocks
from modgap.core.checks import InputValueError
from modgap.core.files import atomic_path, folder_to_write, sweep, write_text
from modgap.core.limits import read_json
from modgap.core.locks import sole_writer_of
from modgap.core.results import Progress, silent
from modgap.core.stopping import stop_here
from modgap.corrections import Correction, check_recognised, own_keys
from modgap.corrections.correction import Role
from modgap.corrections.fingerprints import fingerprint
from modgap.corrections.row_map import RowMap
from modgap.engines.engine import Engine, LocalEngine, open_engine
from modgap.engines.row_ranges import pieces
from modgap.io import Embeddings, write_embeddings
from modgap.io._matrices import BATCH_ROWS
from modgap.io._row_stream import check_float_dtype
from modgap.io.formats.clip_retrieval import (
    EMBEDDED,
    METADATA,
    TEXT_METADATA,
    in_order,
    is_clip_retrieval,
)
from modgap.io.shard_moments import RowShard, row_shards
from modgap.io.writing import begun_embeddings

_NOTE = "apply.json"
# What files on their way into their place are called.
_BEGUN = ".modgap-"


def apply_to_place(
    correction: Correction,
    rows: Embeddings,
    modality: str,
    place: Path,
    *,
    role: Role = "document",
    labelled: Embeddings | None = None,
    dtype: str | None = None,
    trust_rows: bool = False,
    engine: str | Engine = "local",
    progress: Progress = silent,
) -> int:
    """Correct rows into one file where ``place`` has a suffix, else as `apply_to_folder` does.

    Rows that do not look like those that the correction was fitted on are refused, see
    `check_recognised`. ``labelled`` are the same rows with the labels that hubs go by. Returns how
    many shards an earlier run had done.
    """
    mapping = correction.map(modality, role)
    keys = None
    if correction.hubs is not None and role == "document":
        correction.hubs.check_bank()
        keys = own_keys(correction, labelled or rows, modality)
    if rows.dim != mapping.dim_in:
        raise InputValueError(
            f"The correction is for rows of {mapping.dim_in} columns, but {rows.source} has "
            f"{rows.dim}. It must be fitted on embeddings of the same model."
        )
    check_recognised(correction, rows, modality, role=role, trust_rows=trust_rows)
    if not place.suffix:
        return apply_to_folder(
            correction, rows, modality, place, role=role, keys=keys, dtype=dtype, engine=engine,
            progress=progress,
        )  # fmt: skip
    kind = check_float_dtype(dtype or str(rows.dtype))
    batches = rows.batches_with_progress(progress, f"correcting {modality}")
    columns = {name: getattr(rows, name) for name in ("ids", "captions", "labels", "groups")}
    mapped = mapping.over(batches, modality, keys, dtype=kind)
    write_embeddings(place, mapped, **columns, dtype=kind)
    return 0


def apply_to_folder(
    correction: Correction,
    rows: Embeddings,
    modality: str,
    folder: str | os.PathLike[str],
    *,
    role: Role = "document",
    keys: np.ndarray | None = None,
    dtype: Any = None,
    engine: str | Engine = "local",
    progress: Progress | None = None,
) -> int:
    """Correct the shards of one modality, each into a file of the same name, on any engine.

    Of a folder in clip-retrieval's layout another one is made, metadata and all; the modalities may
    be corrected one after the other into the same. Of other shards the rows become ``.npy`` files,
    or ``.parquet`` ones where they have ids, captions, labels or groups. A single file of more than
    256 MiB whose rows can be read from anywhere becomes several, ``NAME-0``, ``NAME-1`` and so on.

    Parameters
    ----------
    correction : Correction
        What to apply.
    rows : Embeddings
        Rows of one modality, of one file or a folder of shards.
    modality : str
        Which modality they are.
    folder : path
        Where to write, on a disk that all workers share. It appears once every shard is done. A run
        that was interrupted resumes, on the same engine or another, when the call is repeated,
        from the shards that are done.
    role : {"document", "query"}
        What the rows are.
    keys : (n,) array, optional
        The key of each row, where the correction has hubs; see `modgap.corrections.own_keys`.
    dtype : dtype, optional
        float16, float32 or float64; that of the rows when left out.
    engine : str or Engine
        Where it is done; see `open_engine`. Here, each shard has all cores.
    progress : callable, optional
        Called as ``progress(step, done, total)``: after each shard, and here after each batch.

    Returns
    -------
    int
        How many shards an earlier run had done.
    """
    target, runs_on = folder_to_write(folder), open_engine(engine)
    source = Path(rows.source)
    is_clip = source.is_dir() and is_clip_retrieval(source)
    mapping = correction.map(modality, role)
    kind = check_float_dtype(dtype or str(rows.dtype).removeprefix("torch."))
    plan = {
        "correction": fingerprint(correction, role),
        "modality": modality,
        "role": role,
        "dtype": str(kind),
        "source": os.path.abspath(rows.source),
    }
    inside = EMBEDDED.get(modality, modality) if is_clip else ""
    made = _Folder(target, inside, plan, rows, keys)
    work = _Correct(mapping, modality, str(kind))
    with sole_writer_of(target):
        if made.was_finished():
            return len(made.shards)
        done = made.begin()
        _write(runs_on, work, made.shards, progress or silent)
        if is_clip:
            made.copy_metadata(source)
        made.finish()
    return done


@dataclass(frozen=True, eq=False)
class _Shard:
    """Rows to be written, with their columns; ``mark`` is made from that of a `RowShard`."""

    rows: Embeddings
    first_row: int
    path: Path
    keys: np.ndarray | None
    columns: Mapping[str, np.ndarray]
    mark: str | None


@dataclass(frozen=True, eq=False)
class _Correct:
    """Corrects a shard and writes it; says how many rows it has."""

    mapping: RowMap
    modality: str
    dtype: str
    progress: Progress = silent

    def __call__(self, shard: _Shard) -> int:
        with self.begun(shard):
            return shard.rows.n_rows

    def begun(self, shard: _Shard) -> ExitStack:
        """The same, but for waiting for the disk; see `begun_embeddings`."""
        batches = shard.rows.batches_with_progress(self.progress, "")
        mapped = self.mapping.over(
            batches, self.modality, shard.keys, first_row=shard.first_row, dtype=self.dtype
        )
        return begun_embeddings(shard.path, mapped, dtype=self.dtype, **shard.columns)


def _one_by_one(work: _Correct, shards: list[_Shard]) -> Iterator[int]:
    """Make shards here; each goes to the disk, and gets its name, while the next is made."""
    last: Future[None] | None = None
    with ThreadPoolExecutor(1, thread_name_prefix="disk") as disk:
        for shard in shards:
            stop_here()
            with work.begun(shard) as begun:
                if last is not None:
                    last.result()
                last = disk.submit(begun.pop_all().close)
            yield shard.rows.n_rows
        if last is not None:
            last.result()


def _write(engine: Engine, work: _Correct, shards: list[_Shard], progress: Progress) -> None:
    """Make the shards that are missing."""
    step, n_rows = f"correcting {work.modality}", sum(shard.rows.n_rows for shard in shards)
    missing = [shard for shard in shards if not shard.path.is_file()]
    done = n_rows - sum(shard.rows.n_rows for shard in missing)

    def say(_: str, here: int, __: int) -> None:
        progress(step, done + here, n_rows)

    progress(step, done, n_rows)
    if isinstance(engine, LocalEngine):  # the only one that can tell of a shard on its way
        every = _one_by_one(replace(work, progress=say), missing)
    else:
        every = engine.map(work, missing)
    for written in every:
        done += written
        progress(step, done, n_rows)
    for shard in missing:
        if not shard.path.is_file():
            raise InputValueError(
                f"A worker wrote {shard.path}, which is not to be seen from here. The folder must "
                "be on a disk that all workers share."
            )


class _Folder:
    """The folder that is made of the shards of one modality, and what of it is there already.

    ``inside`` is the folder in there that has the rows, where the layout is clip-retrieval's.
    """

    def __init__(
        self,
        target: Path,
        inside: str,
        plan: Mapping[str, str],
        rows: Embeddings,
        keys: np.ndarray | None,
    ) -> None:
        self.target, self.inside = target, inside
        self.place = target.with_name(f"{target.name}.partial")
        # A table beside the rows has them in clip-retrieval's layout.
        columns = {} if inside else {kind: getattr(rows, kind) for kind in rows.columns}
        suffix = ".parquet" if columns else ".npy"
        self.shards: list[_Shard] = []
        for part in _cut(row_shards(rows), whole=bool(inside)):
            own = slice(part.first_row, part.first_row + part.rows.n_rows)
            path = self.place / inside / f"{part.name}{suffix}"
            own_keys = None if keys is None else keys[own]
            own_columns = {kind: values[own] for kind, values in columns.items()}
            mark = _mark(part, own_keys, own_columns)
            self.shards.append(_Shard(part.rows, part.first_row, path, own_keys, own_columns, mark))
        marks = {shard.path.name: shard.mark for shard in self.shards}
        self.note: dict[str, Any] = {"of": dict(plan), "shards": marks}

    def was_finished(self) -> bool:
        """Whether an earlier run was interrupted when only tidying up was left."""
        held = self.target / self.inside
        if not held.exists() or not any(held.iterdir()):
            return False
        is_known = None not in self.note["shards"].values()
        if not is_known or self._known(self.place if self.inside else self.target) != self.note:
            raise InputValueError(
                f"{held} exists already. Choose a new folder, or remove it first."
            )
        self._tidy()
        return True

    def _known(self, folder: Path) -> dict[str, Any] | None:
        """What an earlier run noted in a folder."""
        note = folder / _NOTE
        found = read_json(note, "what modgap apply notes") if note.is_file() else None
        is_note = isinstance(found, dict) and isinstance(found.get("shards"), dict)
        return found if is_note else None

    def begin(self) -> int:
        """Make the folder, or resume in it; how many shards are done."""
        known = self._known(self.place)
        if known is not None and known.get("of") != self.note["of"]:
            raise InputValueError(
                f"{self.place} was begun with another correction, modality, role or dtype, or of "
                "other rows. Run it again as it was, or remove that folder."
            )
        for folder in (self.place, self.place / self.inside):
            sweep(folder)
        noted = {} if known is None else known["shards"]
        folder = self.place if known is None else self.place / self.inside
        there = sorted(folder.iterdir()) if folder.is_dir() else []
        shards = [path for path in there if path.name in noted and path.is_file()]
        for path in there:
            is_ours = path.name.startswith(_BEGUN) or (known and path.name == _NOTE)
            if path not in shards and not is_ours:
                raise InputValueError(
                    f"{self.place} holds other files, such as {path.name}. Remove it, or choose "
                    "another folder."
                )
        done = 0
        for path in shards:
            before = noted[path.name]
            if before is not None and before == self.note["shards"].get(path.name):
                done += 1
            else:
                path.unlink()
        write_text(self.place / _NOTE, json.dumps(self.note))
        return done

    def copy_metadata(self, source: Path) -> None:
        """Bring the tables of a clip-retrieval folder along."""
        for kind in (METADATA, TEXT_METADATA):
            shutil.rmtree(self.place / kind, ignore_errors=True)
            for table in in_order(source / kind, ".parquet"):
                with atomic_path(self.place / kind / table.name) as temporary:
                    shutil.copyfile(table, temporary)

    def finish(self) -> None:
        """Everything is there: let it take its place, the rows last and in one step."""
        for left in (self.place / self.inside).glob(f"{_BEGUN}*"):  # of workers that were killed
            shutil.rmtree(left, ignore_errors=True)
        if self.inside:
            self.target.mkdir(parents=True, exist_ok=True)
            for kind in (METADATA, TEXT_METADATA, self.inside):
                if (self.place / kind).exists() and not (self.target / kind).exists():
                    os.replace(self.place / kind, self.target / kind)
        else:
            os.replace(self.place, self.target)
        self._tidy()

    def _tidy(self) -> None:
        if self.inside:
            shutil.rmtree(self.place)
        else:
            (self.target / _NOTE).unlink()


def _cut(parts: list[RowShard], *, whole: bool) -> list[RowShard]:
    """The shards that have rows; a single large file in pieces, which workers share.

    A folder keeps the shards it has, so that their names stay those of the tables beside them.
    """
    filled = [part for part in parts if part.rows.n_rows]
    if whole or len(parts) > 1 or not filled or parts[0].mark is None:
        return filled
    (part,) = filled
    cut = pieces(part.rows.matrix)
    if len(cut) == 1:
        return filled
    return [
        replace(part, name=f"{part.name}-{number}", rows=replace(part.rows, matrix=piece),
                first_row=first, mark=f"{part.mark} from {first}")
        for number, (piece, first) in enumerate(cut)
    ]  # fmt: skip


def _mark(part: RowShard, keys: np.ndarray | None, columns: Mapping[str, np.ndarray]) -> str | None:
    """Changes with the rows of a shard, and with what is written beside them or goes into them."""
    if part.mark is None:
        return None
    digest = hashlib.sha256(f"{part.place} {part.mark} {part.rows.shape}".encode())
    for name, values in (("keys", keys), *columns.items()):
        if values is None:
            continue
        digest.update(f"{name} {values.dtype}".encode())
        for some in row_blocks(len(values), BATCH_ROWS):
            own = values[some]
            is_object = own.dtype == object
            digest.update(repr(own.tolist()).encode() if is_object else own.tobytes())
    return digest.hexdigest()
