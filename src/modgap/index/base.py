"""What every index shares: maps, checks and notes; a database only stores and finds vectors.

Another database is one file: a subclass of `VectorIndex` with the eight methods that begin with
an underscore below, and `count`, `drop` and `close`.

Scores are those of the correction's metric, larger is nearer: the cosine, the inner product, or
−‖q − d‖² for Euclidean distance. What is stored and compared is float32.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Literal, Self

import numpy as np

from modgap._arrays import is_torch, to_numpy
from modgap._validate import (
    InputError,
    InputTypeError,
    InputValueError,
    check_choice,
    check_count,
    check_rows,
    check_values,
)
from modgap.corrections import Correction, Role
from modgap.index.answers import Hit, Id, one_line, to_hits
from modgap.index.notes import FORMAT, check_note_fits, new_note
from modgap.io import Embeddings
from modgap.search.hits import Hits

# Called with what is being done, how many rows are done, and of how many.
Progress = Callable[[str, int, int], None]

BATCH_ROWS = 4096


class VectorIndex(ABC):
    """One index that holds the documents of both modalities, corrected.

    ``write`` stores raw vectors as corrected documents, ``search`` takes raw queries. A document
    is known by its modality and its id together, so image 7 and text 7 are two documents. Ids are
    all whole numbers or all text.

    Used as a context manager, an index is finished when the block ends without an error. One that
    was not finished (the process was killed, say) is opened again with ``create=True``: ``write``
    then leaves out the ids that are there.
    """

    # What the database's own library raises; becomes one sentence.
    failures: tuple[type[Exception], ...] = ()

    def __init__(self, correction: Correction, place: str, batch_rows: int = BATCH_ROWS) -> None:
        self.correction = correction
        self.place = place
        self.batch_rows = check_count(batch_rows, "batch_rows")
        self.dim = correction.dim_out
        self.metric = correction.metric
        self._note: dict[str, Any] | None = None
        self._resuming = False
        self._replacing = False
        self._locked = False
        self._next_id: dict[str, int] = {}

    # What a database must do. ------------------------------------------------------------------

    @abstractmethod
    def _load_note(self) -> Mapping[str, Any] | None:
        """The note kept with the vectors; {} if something else is there; None if nothing is."""

    @abstractmethod
    def _save_note(self, note: Mapping[str, Any]) -> None:
        """Replace the note."""

    @abstractmethod
    def _make(self, note: Mapping[str, Any], ids: Literal["int", "str"]) -> None:
        """Make the empty table and keep the note with it."""

    @abstractmethod
    def _add(self, rows: np.ndarray, modality: str, ids: Sequence[Id]) -> None:
        """Store corrected rows for good, all of them or none."""

    @abstractmethod
    def _known(self, modality: str, ids: Sequence[Id]) -> set[Id]:
        """Which of the ids are stored already."""

    @abstractmethod
    def _nearest(self, queries: np.ndarray, k: int, only: str | None) -> list[list[Hit]]:
        """The k best documents of each corrected query."""

    @abstractmethod
    def _count(self, only: str | None) -> int:
        """How many documents are stored."""

    @abstractmethod
    def _drop(self) -> None:
        """Remove the table and all that belongs to it."""

    def _check_may_drop(self) -> None:  # noqa: B027
        """Refuse to drop what modgap did not make."""

    def _lock(self) -> None:  # noqa: B027
        """Refuse to write where another process is writing."""

    def _finish(self) -> None:  # noqa: B027
        """What is left to do once everything is written."""

    def close(self) -> None:  # noqa: B027
        """Let go of files and connections."""

    # What all of them share. -------------------------------------------------------------------

    def open(self, *, create: bool = False, replace: bool = False) -> Self:
        """Look at what is there: it must be this correction's, or with ``create`` nothing yet.

        ``create`` goes on with an index that was not finished; ``replace`` drops a finished one.
        """
        with self._one_sentence():
            if create:
                self._lock()
                self._locked = True
            found = self._load_note()
            if found is not None and replace and found.get("modgap") == "index":
                self._check_may_drop()
                # Dropped by the first write, once what is to take its place has been checked.
                self._replacing = True
                return self
        if found is None:
            if not create:
                raise InputValueError(
                    f"There is no index at {self.place}. Build it with modgap index build, or "
                    "with open_index(…, create=True)."
                )
            return self
        self._check_note(found, create)
        self._note, self._resuming = dict(found), not found["finished"]
        return self

    def write(
        self,
        vectors: Any,
        modality: str,
        ids: Any = None,
        progress: Progress | None = None,
    ) -> int:
        """Store raw vectors of one modality as corrected documents; how many were stored.

        ``vectors`` is a matrix, or `Embeddings`, which are read in batches. Without ``ids`` they
        are those of the embeddings, else row numbers. Each batch is stored for good before the
        next is read.
        """
        source = self.check(vectors, modality)
        self._lock_to_add()
        keys, kind = self._keys(source, modality, ids)
        with self._one_sentence():
            if self._replacing:
                self._drop()
                self._replacing = False
            known = self._already(modality, keys, kind)
            if self._note is None:
                self._note = new_note(self.correction, kind)
                self._make(self._note, kind)
                self._resuming = True
            elif self._note["finished"]:
                # Run again after a kill, rows without ids are numbered from here, as they were.
                self._note["first"] = {name: self._count(name) for name in self.correction.names}
                self._mark(finished=False)
            written, done = 0, 0
            for batch in source.batches(self.batch_rows):
                part = keys[done : done + len(batch)]
                new = [place for place, key in enumerate(part) if key not in known]
                if new:
                    rows = self._map(batch[new], modality, "document")
                    self._add(rows, modality, [part[place] for place in new])
                written, done = written + len(new), done + len(batch)
                if progress is not None:
                    progress(f"storing {modality}", done, source.n_rows)
        self._next_id[modality] = self._next_id.get(modality, 0) + source.n_rows
        return written

    def search(
        self, queries: Any, modality: str | None = None, k: int = 10, only: str | None = None
    ) -> Hits:
        """The k best documents of each raw query, best first; (n, k) ids, scores and modalities.

        ``modality`` is that of the queries, ``only`` restricts the results to one modality. There
        are fewer than k columns where no query has k results. Where an approximate search finds
        fewer than for other queries, the id is None and the score minus infinity.
        """
        names = self.correction.names
        if modality is None:
            raise InputValueError(
                f"A query needs its modality, {' or '.join(map(repr, names))}: it says which map "
                "is applied to it."
            )
        check_choice(modality, "modality", names)
        if only is not None:
            check_choice(only, "only", names)
        k = check_count(k, "k")
        rows = to_numpy(queries) if is_torch(queries) else np.asarray(queries)
        rows = check_rows(rows[None] if rows.ndim == 1 else rows, "queries")
        mapped = self._map(rows, modality, "query")
        if self._note is None:
            return to_hits([[] for _ in mapped], "int")
        with self._one_sentence():
            return to_hits(self._nearest(mapped, k, only), self._note["ids"])

    def count(self, only: str | None = None) -> int:
        """How many documents are stored, of one modality or in all."""
        if only is not None:
            check_choice(only, "only", self.correction.names)
        if self._note is None:
            return 0
        with self._one_sentence():
            return self._count(only)

    def finish(self) -> None:
        """Everything is written: make what speeds up searching, and say so in the note."""
        if self._note is not None and not self._note["finished"]:
            with self._one_sentence():
                self._finish()
                self._mark(finished=True)

    def drop(self) -> None:
        """Remove the index and all its documents."""
        if self._note is not None:
            with self._one_sentence():
                self._drop()
        self._note, self._resuming = None, False
        self._next_id.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if kind is None:
                self.finish()
        finally:
            self.close()

    @contextmanager
    def _one_sentence(self) -> Iterator[None]:
        try:
            yield
        except InputError:
            raise
        except self.failures as error:
            raise InputValueError(f"{self.place} cannot be used: {one_line(error)}.") from error

    def _lock_to_add(self) -> None:
        """Rows are added to what is there now, which may not be what was there when it opened."""
        if self._locked:
            return
        with self._one_sentence():
            self._lock()
            self._locked = True
            found = self._load_note()
        if found is None:
            raise InputValueError(f"{self.place} has been removed since it was opened.")
        self._check_note(found, create=False)
        self._note = dict(found)

    def _map(self, rows: np.ndarray, modality: str, role: Role) -> np.ndarray:
        mapped = np.asarray(self.correction.apply(rows, modality, role))
        mapped = np.ascontiguousarray(mapped, dtype=np.float32)
        check_values(mapped, f"corrected {modality}", nonzero=self.metric == "cosine")
        return mapped

    def check(self, vectors: Any, modality: str) -> Embeddings:
        """Refuse vectors that cannot be stored, before the first row is."""
        check_choice(modality, "modality", self.correction.names)
        source = vectors
        if not isinstance(source, Embeddings):
            source = Embeddings.from_array(vectors, source=modality)
        if source.dim != self.correction.dim_in:
            raise InputValueError(
                f"The correction is for rows of {self.correction.dim_in} columns, but {modality} "
                f"has {source.dim}. It must be fitted on embeddings of the same model."
            )
        first = 0
        for batch in source.batches():
            check_values(batch, modality, first_row=first)
            first += len(batch)
        return source

    def _keys(
        self, source: Embeddings, modality: str, ids: Any
    ) -> tuple[list[Id], Literal["int", "str"]]:
        given = source.ids if ids is None else np.asarray(ids)
        if given is None:
            # A build that is run again numbers its rows as it did before.
            if self._note is None:
                start = 0
            elif self._resuming:
                start = self._note.get("first", {}).get(modality, 0)
            else:
                start = self.count(modality)
            first = self._next_id.setdefault(modality, start)
            return list(range(first, first + source.n_rows)), "int"
        if given.ndim != 1 or len(given) != source.n_rows:
            raise InputValueError(
                f"ids must have one entry per row of {modality}: {source.n_rows} rows, got shape "
                f"{given.shape}."
            )
        keys: list[Id] = given.tolist()
        if all(isinstance(key, int) and not isinstance(key, bool) for key in keys):
            kind: Literal["int", "str"] = "int"
            if given.dtype.kind == "u" and max(keys) >= 2**63:  # type: ignore[operator]
                raise InputValueError("ids must be below 2**63. Pass larger ones as text.")
        elif all(isinstance(key, str) for key in keys):
            kind = "str"
        else:
            raise InputTypeError(
                f"ids must all be whole numbers or all be text, got {given.dtype}."
            )
        if len(set(keys)) < len(keys):
            seen: set[Id] = set()
            twice = next(key for key in keys if key in seen or seen.add(key))  # type: ignore[func-returns-value]
            raise InputValueError(
                f"ids must be unique within {modality}, but {twice!r} comes more than once."
            )
        return keys, kind

    def _already(self, modality: str, keys: list[Id], kind: str) -> set[Id]:
        """The ids that are stored; refused, unless an unfinished index is being finished."""
        if self._note is None:
            return set()
        if kind != self._note["ids"]:
            words = {"int": "whole numbers", "str": "text"}
            raise InputTypeError(
                f"The ids of {self.place} are {words[self._note['ids']]}, got {words[kind]}."
            )
        known: set[Id] = set()
        for start in range(0, len(keys), self.batch_rows):
            known |= self._known(modality, keys[start : start + self.batch_rows])
        if known and not self._resuming:
            example = next(key for key in keys if key in known)
            raise InputValueError(
                f"{self.place} holds {len(known)} of these ids of {modality} already, {example!r} "
                "for instance. Leave them out, or give the rows other ids."
            )
        return known

    def _mark(self, *, finished: bool) -> None:
        assert self._note is not None
        self._note["finished"] = finished
        self._save_note(self._note)

    def _check_note(self, note: Mapping[str, Any], create: bool) -> None:
        if note.get("modgap") != "index":
            raise InputValueError(
                f"{self.place} exists already and is no index that modgap wrote whole. Choose "
                "another name, or remove it."
            )
        if note["format"] > FORMAT:
            raise InputValueError(
                f"{self.place} was written by modgap {note['version']}. Update modgap to use it."
            )
        check_note_fits(self.correction, note, self.place)
        if note["finished"] and create:
            raise InputValueError(
                f"{self.place} exists already. Choose another name, replace it (replace=True, "
                "--replace), or open it without create to add to it."
            )
        if not note["finished"] and not create:
            raise InputValueError(
                f"{self.place} was not finished. Run the same build again to finish it, or replace "
                "it (replace=True, --replace)."
            )
