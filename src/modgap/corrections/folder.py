"""Correct a folder of shards into another, shard by shard; a run that is stopped goes on.

Shards are made in ``OUT.partial`` beside the folder, each whole or not at all, and take their place
once all of them are there. A shard that changed in the meantime is made again.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from modgap._claims import read_json
from modgap._files import atomic_path, folder_to_write, sweep, write_text
from modgap._locks import sole_writer_of
from modgap._results import Progress, silent
from modgap._validate import InputValueError
from modgap.corrections.correction import Correction, Role
from modgap.corrections.fingerprint import fingerprint
from modgap.io import Embeddings, write_embeddings
from modgap.io.clip_retrieval import EMBEDDED, METADATA, TEXT_METADATA, in_order, is_clip_retrieval
from modgap.io.parts import Part, parts_of

_NOTE = "apply.json"


def apply_to_folder(
    correction: Correction,
    rows: Embeddings,
    modality: str,
    folder: str | os.PathLike[str],
    *,
    role: Role = "document",
    keys: np.ndarray | None = None,
    dtype: Any = None,
    progress: Progress | None = None,
) -> int:
    """Correct the shards of one modality, each into a file of the same name.

    Of a folder in clip-retrieval's layout another one is made, metadata and all; the modalities may
    be corrected one after the other into the same. Of other shards the rows become ``.npy`` files,
    or ``.parquet`` ones where they have ids, captions, labels or groups.

    Parameters
    ----------
    correction : Correction
        What to apply.
    rows : Embeddings
        Rows of one modality, of one file or a folder of shards.
    modality : str
        Which modality they are.
    folder : path
        Where to write. It appears once every shard is done. A run that was stopped is run again in
        the same way, and goes on from the shards that are done.
    role : {"document", "query"}
        What the rows are.
    keys : (n,) array, optional
        The key of each row, where the correction has hubs; see ``own_keys``.
    dtype : dtype, optional
        That of the rows when left out.
    progress : callable, optional
        Called as ``progress(step, done, total)``.

    Returns
    -------
    int
        How many shards an earlier run had done.
    """
    target = folder_to_write(folder)
    source = Path(rows.source)
    is_clip = source.is_dir() and is_clip_retrieval(source)
    inside = EMBEDDED.get(modality, modality) if is_clip else ""
    with sole_writer_of(target):
        work = _Work(
            correction, rows, modality, role, keys, str(np.dtype(dtype or rows.dtype)),
            target=target, inside=inside,
        )  # fmt: skip
        if work.was_finished():
            return len(work.parts)
        done = work.begin()
        work.write_shards(progress or silent)
        if is_clip:
            work.copy_metadata(source)
        work.finish()
    return done


@dataclass(eq=False)
class _Work:
    """The shards of one modality on their way into a folder."""

    correction: Correction
    rows: Embeddings
    modality: str
    role: Role
    keys: np.ndarray | None
    dtype: str
    target: Path
    inside: str

    def __post_init__(self) -> None:
        self.place = self.target.with_name(f"{self.target.name}.partial")
        self.parts = parts_of(self.rows)
        self.columns = {} if self.inside else self.rows.columns
        self.suffix = ".parquet" if self.columns else ".npy"

    def was_finished(self) -> bool:
        """Whether a run was killed when all that was left to do was to tidy up."""
        held = self.target / self.inside
        if not held.exists() or not any(held.iterdir()):
            return False
        if self._known(self.place if self.inside else self.target) != self._plan():
            raise InputValueError(
                f"{held} exists already. Choose a new folder, or remove it first."
            )
        self._tidy()
        return True

    def _known(self, folder: Path) -> dict[str, Any] | None:
        note = folder / _NOTE
        return read_json(note, "what modgap apply notes") if note.is_file() else None

    def begin(self) -> int:
        """Make the folder, or go on in it; how many shards are done."""
        plan, known = self._plan(), self._known(self.place)
        if known is None and self.place.exists() and any(self.place.iterdir()):
            raise InputValueError(f"{self.place} holds other files. Remove it, or choose another.")
        if known is not None and known["of"] != plan["of"]:
            raise InputValueError(
                f"{self.place} was begun with another correction, modality, role or dtype. Run it "
                "again as it was, or remove that folder."
            )
        for folder in (self.place, self.place / self.inside):
            sweep(folder)
        before = {} if known is None else known["shards"]
        done = 0
        for part in self.parts:
            file = self._file(part)
            if file.exists() and (part.mark is None or before.get(part.name) != part.mark):
                file.unlink()
            done += file.exists()
        write_text(self.place / _NOTE, json.dumps(plan))
        return done

    def _plan(self) -> dict[str, Any]:
        of = {
            "correction": fingerprint(self.correction, self.role),
            "modality": self.modality,
            "role": self.role,
            "dtype": self.dtype,
            "source": os.path.abspath(self.rows.source),
        }
        return {"of": of, "shards": {part.name: part.mark for part in self.parts}}

    def _file(self, part: Part) -> Path:
        return self.place / self.inside / f"{part.name}{self.suffix}"

    def write_shards(self, progress: Progress) -> None:
        """Correct every shard that is not there yet."""
        mapping = self.correction.map(self.modality, self.role)
        step = f"correcting {self.modality}"
        for part in self.parts:
            file, end = self._file(part), part.first_row + part.rows.n_rows
            if part.rows.n_rows and not file.exists():
                own = None if self.keys is None else self.keys[part.first_row : end]
                batches = self._told(part, progress, step)
                columns = {
                    kind: getattr(self.rows, kind)[part.first_row : end] for kind in self.columns
                }
                mapped = mapping.over(batches, self.modality, own)
                write_embeddings(file, mapped, dtype=self.dtype, **columns)
            progress(step, end, self.rows.n_rows)

    def _told(self, part: Part, progress: Progress, step: str) -> Iterator[np.ndarray]:
        def say(_: str, done: int, __: int) -> None:
            progress(step, part.first_row + done, self.rows.n_rows)

        return part.rows.batches_with_progress(say, step)

    def copy_metadata(self, source: Path) -> None:
        """Bring the tables of a clip-retrieval folder along."""
        for kind in (METADATA, TEXT_METADATA):
            for table in in_order(source / kind, ".parquet"):
                with atomic_path(self.place / kind / table.name) as temporary:
                    shutil.copyfile(table, temporary)

    def finish(self) -> None:
        """Everything is there: let it take its place, the rows last and in one step."""
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
