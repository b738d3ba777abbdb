"""How documents come into an index and leave it: rows are checked first, then stored in batches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from modgap.core.checks import InputValueError, check_choice, check_values
from modgap.core.results import Progress
from modgap.corrections import check_recognised, own_keys
from modgap.index.documents import as_embeddings, check_id_types, check_ids
from modgap.index.graph_recall import SAMPLE_QUERIES
from modgap.index.hits import Id, IdType
from modgap.index.metadata import Note, background_marks, change_mark, check_note, made_by, new_note
from modgap.index.row_monitor import tell
from modgap.index.store import VectorStore
from modgap.index.stored_vectors import StoredVector, check_banks
from modgap.io import Embeddings

# Changes that were begun and not finished are known by the last so many marks.
_MARKS = 100


@dataclass(frozen=True, eq=False)
class _Rows:
    """Rows to be stored: what they are called, which are stored already, keys by vector, a mark."""

    source: Embeddings
    ids: list[Id]
    id_type: IdType
    keys: Mapping[str, np.ndarray | None]
    known: set[Id]
    upsert: bool
    mark: str


class ChangedStore(VectorStore):
    """A store that takes raw documents, and replaces and deletes them by id."""

    def write(
        self,
        vectors: Any,
        modality: str,
        ids: Any = None,
        progress: Progress | None = None,
        *,
        upsert: bool = False,
        trust_rows: bool = False,
    ) -> int:
        """Store raw vectors of one modality as corrected documents.

        Every row is checked before the first is stored, and that they look like rows of their
        modality. Each batch is stored for good before the next is read.

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
        upsert : bool
            Replace documents whose ids are stored; without it these are refused.
        trust_rows : bool
            Only warn of rows that look like another modality's or another model's.

        Returns
        -------
        int
            How many were stored; fewer than there are rows where something unfinished is resumed.
        """
        source = self._checked(vectors, modality, trust_rows)
        return self._write({modality: source}, ids, progress, upsert)[modality]

    def write_all(
        self,
        documents: Mapping[str, Any],
        progress: Progress | None = None,
        *,
        upsert: bool = False,
        trust_rows: bool = False,
    ) -> dict[str, int]:
        """Store vectors of several modalities by name; how many of each were stored.

        All of them are checked before any is stored.

        Parameters
        ----------
        documents : mapping of str to arrays or Embeddings
            The rows of each modality.
        progress, upsert, trust_rows
            As for ``write``.
        """
        sources = {name: self._checked(rows, name, trust_rows) for name, rows in documents.items()}
        return self._write(sources, None, progress, upsert)

    def delete(self, ids: Any, modality: str) -> int:
        """Remove documents of one modality by id; how many of them were there.

        Each batch is removed for good before the next. Ids that are not there change nothing.

        Parameters
        ----------
        ids : sequence of int or str
            What the documents are called.
        modality : str
            Which modality they are.
        """
        check_choice(modality, "modality", self.names)
        if np.size(ids) == 0:
            return 0
        every, id_type = check_ids(ids, np.size(ids), modality)
        self._lock_to_change()
        with self._one_sentence():
            known = self._stored(modality, every, id_type)
            gone = [one for one in every if one in known]
            if not gone:
                return 0
            mark = change_mark("delete", modality, every)
            self._begin_change(mark, modality, len(gone))
            for start in range(0, len(gone), self.batch_rows):
                self._remove(modality, gone[start : start + self.batch_rows])
        self._made.append(mark)
        return len(gone)

    def _checked(self, vectors: Any, modality: str, trust_rows: bool) -> Embeddings:
        """Rows that can be stored; what cannot be used is refused before the first row is."""
        source = as_embeddings(vectors, modality, self._given[0])
        check_banks(self._given)
        first, smallest, largest = 0, np.inf, 0.0
        for batch in source.batches():
            check_values(batch, modality, first_row=first)
            sizes = np.maximum(batch.max(axis=1), -batch.min(axis=1))
            smallest, largest = min(smallest, float(sizes.min())), max(largest, float(sizes.max()))
            first += len(batch)
        check_recognised(self._given[0], source, modality, trust_rows=trust_rows)
        for vector in self.vectors.values():
            if vector.may_refuse(modality, smallest, largest):  # then before the first is stored
                first = 0
                for batch in source.batches(self.batch_rows):
                    vector.document(batch, modality, first_row=first)
                    first += len(batch)
        return source

    def _write(
        self,
        sources: Mapping[str, Embeddings],
        ids: Any,
        progress: Progress | None,
        upsert: bool,
    ) -> dict[str, int]:
        """Store rows of several modalities; what cannot be stored is refused before any is."""
        self._lock_to_change()
        self._check_whole()
        plans = {name: self._plan_rows(rows, name, ids, upsert) for name, rows in sources.items()}
        check_id_types({name: plan.id_type for name, plan in plans.items()})
        return {name: self._store(plan, name, progress) for name, plan in plans.items()}

    def _plan_rows(self, source: Embeddings, modality: str, ids: Any, upsert: bool) -> _Rows:
        """What the rows are called, which are stored already, and whose queries are their own."""
        first = self._next_number(modality)
        every: list[Id] = list(range(first, first + source.n_rows))
        id_type: IdType = "int"
        given = source.ids if ids is None else ids
        if given is not None:
            every, id_type = check_ids(given, source.n_rows, modality)
        elif upsert:
            raise InputValueError(
                f"Documents are replaced by id, and the rows of {modality} have none. Give them "
                "(ids=…, --ids)."
            )
        named = source if ids is None else source.with_column("ids", ids)
        with self._one_sentence():
            known = self._stored(modality, every, id_type)
        if self._note is not None and modality not in self.names:
            self._check_extensible()
        mark = change_mark("write", modality, every, source)
        if known and not (upsert or self._resumes(mark)):
            example = next(one for one in every if one in known)
            if self._resuming:
                raise InputValueError(
                    f"{self.place} was not finished, and holds {len(known)} documents of other "
                    f"rows of {modality} by these ids, {example!r} for instance. Run the build "
                    "again on the same rows, or replace it (replace=True, --replace)."
                )
            raise InputValueError(
                f"{self.place} holds {len(known)} of these ids of {modality} already, {example!r} "
                "for instance. Leave them out, give the rows other ids, or replace the documents "
                "(upsert=True, --upsert)."
            )
        # Once it is built, a document that comes by its number has the number of that row.
        numbers = every if self._note is not None and self._note["finished"] else None
        first = self._written.get(modality, 0)
        keys = {
            name: own_keys(vector.correction, named, modality, first_row=first, numbers=numbers)
            for name, vector in self.vectors.items()
        }
        return _Rows(source, every, id_type, keys, known, upsert, mark)

    def _store(self, rows: _Rows, modality: str, progress: Progress | None) -> int:
        source, every, known = rows.source, rows.ids, rows.known
        with self._one_sentence():
            if self._replacing:
                self._make_way()
                self._replacing = False
            if self._note is None:
                self._note = new_note(self.vectors.values(), rows.id_type, graphs=self.graphs)
                self._note["changing"] = [rows.mark]
                self._make(self._note, rows.id_type)
                self._resuming = True
            else:
                self._begin_change(rows.mark, modality, len(every))
                if modality not in self.names:
                    self._extend()
            left_out = set() if rows.upsert else known
            written, done = 0, 0
            for batch in source.batches(self.batch_rows):
                places = [p for p in range(len(batch)) if every[done + p] not in left_out]
                if places:
                    new = batch if len(places) == len(batch) else batch[places]
                    numbers = done + np.array(places)
                    stored = {
                        name: vector.document(
                            new,
                            modality,
                            first_row=done,
                            keys=None if (own := rows.keys[name]) is None else own[numbers],
                        )
                        for name, vector in self.vectors.items()
                    }
                    ids = [every[number] for number in numbers]
                    self._add(stored, modality, ids, replace=not known.isdisjoint(ids))
                    tell(self.monitor, modality, new)
                written, done = written + len(places), done + len(batch)
                if progress is not None:
                    progress(f"storing {modality}", done, source.n_rows)
        self._made.append(rows.mark)
        self._written[modality] = self._written.get(modality, 0) + source.n_rows
        if rows.id_type == "int":
            self._next[modality] = max(self._next_number(modality), 1 + max(map(int, every)))
        if self.graphs == "one" and modality in self.corrections:
            some = np.linspace(0, source.n_rows - 1, min(SAMPLE_QUERIES, source.n_rows))
            self._sampled.setdefault(modality, []).append(source.take(np.unique(some.astype(int))))
        return written

    def _resumes(self, mark: str) -> bool:
        """Whether a change was begun before, and not finished."""
        begun = [] if self._note is None else self._note["changing"]
        if self._resuming:
            # Of a build in many writes the marks of the first ones are no longer kept.
            return mark in begun or len(begun) > _MARKS
        return mark in begun and mark not in self._made

    def _begin_change(self, mark: str, modality: str, n_documents: int) -> None:
        """Note a change; made again after a kill, it counts once."""
        note = self._note
        assert note is not None
        for name in [*note["documents"]]:
            if self._is_refitted(name):
                note["documents"][name] = (self._count(name), 0)
        if mark not in note["changing"]:
            note["changing"] = [*note["changing"][-_MARKS:], mark]
            if modality in note["documents"]:
                built, changed = note["documents"][modality]
                note["documents"][modality] = (built, changed + n_documents)
        for name, vector in self.vectors.items():
            note["vectors"][name]["backgrounds"] = background_marks(vector.correction)
        self._note_change(note)

    def _check_extensible(self) -> None:
        if self.graphs == "one" and any(one.lengths is not None for one in self.vectors.values()):
            raise InputValueError(
                f"{self.place} has one graph, in which documents of all modalities have one "
                "length. Build it again for a further modality."
            )

    def _extend(self) -> None:
        """Make room for documents of the modalities that were added to the correction."""
        assert self._note is not None
        new = [name for name in self._given[0].names if name not in self.names]
        self.names = (*self.names, *new)
        self._make_room(new)
        self._note |= made_by(self.vectors.values(), self.names)
        self._note_change(self._note)

    def _is_refitted(self, modality: str) -> bool:
        """Whether the background of a modality is not the one that its documents were noted by."""
        assert self._note is not None
        return any(
            background_marks(vector.correction).get(modality) != mark
            for name, vector in self.vectors.items()
            if (mark := self._note["vectors"][name]["backgrounds"].get(modality)) is not None
        )

    def _lock_to_change(self) -> None:
        """Rows are changed as they are now, which may not be what was there when it opened."""
        if self._locked:
            return
        with self._one_sentence():
            self._lock()
            self._locked = True
            found = self._load_note()
        if found is None:
            raise InputValueError(f"{self.place} has been removed since it was opened.")
        self._keep(found, check_note(found, self._given, self.place))

    def _keep(self, note: Note, vectors: dict[str, StoredVector]) -> None:
        self._note, self.vectors, self.graphs = note, vectors, note["graphs"]
        self.names = tuple(note["names"])

    def _check_whole(self) -> None:
        """Every document gets every vector."""
        held = {} if self._note is None or self._replacing else self._note["vectors"]
        missing = [name for name in held if name not in self.vectors]
        if missing or (held and len(self.vectors) < len(self._given)):
            wanted = " and ".join(
                f"{' and '.join(said['queries'])} queries ({name})" for name, said in held.items()
            )
            raise InputValueError(
                f"{self.place} stores vectors for {wanted}. Rows are added with the corrections of "
                "all of these and no others."
            )

    def _next_number(self, modality: str) -> int:
        """What the next row without an id is called; what is run again numbers rows as before."""
        before = 0 if self._note is None else self._note["numbers"].get(modality, 0)
        return max(int(before), self._next.get(modality, 0))

    def _stored(self, modality: str, ids: list[Id], id_type: IdType) -> set[Id]:
        """Which of the ids are stored; refused where they are of another type."""
        known: set[Id] = set()
        if self._note is None:
            return known
        check_id_types({self.place: self._note["id_type"], modality: id_type})
        if modality not in self.names:
            return known
        for start in range(0, len(ids), self.batch_rows):
            known |= self._known(modality, ids[start : start + self.batch_rows])
        return known
