"""What every index shares: maps, checks and notes; a database only stores and finds vectors.

Scores are those of the correction's metric, larger is nearer: the cosine, the inner product, or
−‖q − d‖² for Euclidean distance. What is stored and compared is float32.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, ExitStack
from typing import Any, Self

import numpy as np

from modgap._arrays import to_numpy
from modgap._results import Progress
from modgap._validate import (
    InputTypeError,
    InputValueError,
    check_choice,
    check_count,
    check_values,
)
from modgap.corrections import Correction
from modgap.index.answers import Id, IdType, one_sentence, to_hits
from modgap.index.documents import as_embeddings, check_ids, check_query_modality
from modgap.index.notes import Note, check_note, new_note
from modgap.index.store import VectorStore
from modgap.io import Embeddings
from modgap.search import Hits

BATCH_ROWS = 4096


class VectorIndex(VectorStore):
    """One index that holds the documents of both modalities, corrected.

    ``write`` stores raw vectors as corrected documents, ``search`` takes raw queries. A document
    is known by its modality and its id together, so image 7 and text 7 are two documents. Ids are
    all whole numbers or all text.

    Used as a context manager, an index is finished when the block ends without an error. One that
    was not finished (the process was killed, say) is opened again with ``create=True``: ``write``
    then leaves out the ids that are there.
    """

    def __init__(self, correction: Correction, place: str, batch_rows: int = BATCH_ROWS) -> None:
        self.correction = correction
        self.place = place
        self.batch_rows = check_count(batch_rows, "batch_rows")
        self.dim = correction.dim_out
        self.metric = correction.metric
        self._metric_name, self._score = self.metrics[self.metric]
        self._resources = ExitStack()  # locks and connections, let go of by close
        self._note: Note | None = None
        self._resuming = False
        self._replacing = False
        self._locked = False
        self._numbered: dict[str, int] = {}

    def open(self, *, create: bool = False, replace: bool = False) -> Self:
        """Look at what is there: it must be this correction's, or with ``create`` nothing yet.

        ``create`` goes on with an index that was not finished; ``replace`` drops a finished one.
        """
        with self._one_sentence():
            if create:
                self._lock()
                self._locked = True
            found = self._load_note()
            if found and replace:
                self._check_may_change()
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
        check_note(found, self.correction, self.place, create=create)
        self._note, self._resuming = found, not found["finished"]
        return self

    def write(
        self, vectors: Any, modality: str, ids: Any = None, progress: Progress | None = None
    ) -> int:
        """Store raw vectors of one modality as corrected documents.

        Every row is checked before the first is stored. Each batch is stored for good before the
        next is read.

        Parameters
        ----------
        vectors : (n, d) array or Embeddings
            Rows as the model gives them; `Embeddings` are read in batches.
        modality : str
            Which modality of the correction they are.
        ids : sequence of int or str, optional
            What the documents are called; by default the ids of the embeddings, else row numbers.
        progress : callable, optional
            Called with what is being done, the rows done, and all rows.

        Returns
        -------
        int
            How many were stored; fewer than there are rows where an unfinished index is resumed.
        """
        return self._store(self._checked(vectors, modality), modality, ids, progress)

    def write_all(
        self, documents: Mapping[str, Any], progress: Progress | None = None
    ) -> dict[str, int]:
        """Store vectors of several modalities by name; how many of each were stored.

        All of them are checked before any is stored.
        """
        sources = {name: self._checked(rows, name) for name, rows in documents.items()}
        return {name: self._store(rows, name, None, progress) for name, rows in sources.items()}

    def search(
        self, queries: Any, modality: str | None = None, k: int = 10, only: str | None = None
    ) -> Hits:
        """The k best documents of each raw query, best first.

        Parameters
        ----------
        queries : (n, d) or (d,) array
            Query vectors as the model gives them.
        modality : str
            The modality of the queries: it says which map is applied to them.
        k : int
            How many documents to find.
        only : str, optional
            Restrict the results to documents of this modality.

        Returns
        -------
        Hits
            (n, k) ids, scores and modalities. There are fewer than k columns where no query has k
            results. Where an approximate search finds fewer than for other queries, the id is
            None and the score −∞.
        """
        modality = check_query_modality(self.correction, modality)
        if only is not None:
            check_choice(only, "only", self.correction.names)
        k = check_count(k, "k")
        rows = to_numpy(queries)
        rows = rows[None] if rows.ndim == 1 else rows
        mapped = self._stored_form(
            self.correction.map(modality, "query")(rows, "queries"), "corrected queries"
        )
        if self._note is None:
            return to_hits([[] for _ in mapped], k, self._score, "int")
        with self._one_sentence():
            found = self._nearest(mapped, k, only)
        return to_hits(found, k, self._score, self._note["id_type"])

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
                self._note["finished"] = True
                self._save_note(self._note)
            self._numbered.clear()

    def drop(self) -> None:
        """Remove the index and all its documents."""
        if self._note is not None:
            with self._one_sentence():
                self._drop()
        self._note, self._resuming = None, False
        self._numbered.clear()

    def close(self) -> None:
        """Let go of locks, files and connections."""
        self._resources.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        try:
            if error is None:
                self.finish()
        finally:
            self.close()

    def _one_sentence(self) -> AbstractContextManager[None]:
        return one_sentence(self.place, self.failures)

    def _checked(self, vectors: Any, modality: str) -> Embeddings:
        """Rows that can be stored; what cannot be used is refused before the first row is."""
        source = as_embeddings(vectors, modality, self.correction)
        first = 0
        for batch in source.batches():
            check_values(batch, modality, first_row=first)
            first += len(batch)
        return source

    def _store(self, source: Embeddings, modality: str, ids: Any, progress: Progress | None) -> int:
        self._lock_to_add()
        keys, id_type = self._keys(source, modality, ids)
        affine = self.correction.map(modality, "document")
        with self._one_sentence():
            if self._replacing:
                self._drop()
                self._replacing = False
            known = self._already(modality, keys, id_type)
            if self._note is None:
                self._note = new_note(self.correction, id_type)
                self._make(self._note, id_type)
                self._resuming = True
            elif self._note["finished"]:
                # Run again after a kill, rows without ids are numbered from here, as they were.
                first = {name: self._count(name) for name in self.correction.names}
                self._note |= {"first_ids": first, "finished": False}
                self._save_note(self._note)
            written, done = 0, 0
            for batch in source.batches(self.batch_rows):
                names = keys[done : done + len(batch)]
                new = [place for place, key in enumerate(names) if key not in known]
                if new:
                    rows = batch if len(new) == len(batch) else batch[new]
                    mapped = affine.map_checked(rows, modality, first_row=done)
                    self._add(
                        self._stored_form(mapped, f"corrected {modality}"),
                        modality,
                        [names[place] for place in new],
                    )
                written, done = written + len(new), done + len(batch)
                if progress is not None:
                    progress(f"storing {modality}", done, source.n_rows)
        self._numbered[modality] = self._numbered.get(modality, 0) + source.n_rows
        return written

    def _stored_form(self, mapped: np.ndarray, name: str) -> np.ndarray:
        rows = np.ascontiguousarray(mapped, dtype=np.float32)
        check_values(rows, name, nonzero=self.metric == "cosine")
        return rows

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
        check_note(found, self.correction, self.place)
        self._note = found

    def _keys(self, source: Embeddings, modality: str, ids: Any) -> tuple[list[Id], IdType]:
        given = source.ids if ids is None else ids
        if given is not None:
            return check_ids(given, source.n_rows, modality)
        # A build that is run again numbers its rows as it did before.
        if self._note is None:
            first = 0
        elif self._note["finished"]:
            first = self.count(modality)
        else:
            first = self._note["first_ids"].get(modality, 0)
        first += self._numbered.get(modality, 0)
        return list(range(first, first + source.n_rows)), "int"

    def _already(self, modality: str, keys: list[Id], id_type: IdType) -> set[Id]:
        """The ids that are stored; refused, unless an unfinished index is being finished."""
        if self._note is None:
            return set()
        if id_type != self._note["id_type"]:
            words = {"int": "whole numbers", "str": "text"}
            raise InputTypeError(
                f"The ids of {self.place} are {words[self._note['id_type']]}, got {words[id_type]}."
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
