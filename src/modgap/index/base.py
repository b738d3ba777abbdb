"""One index of all modalities: opened, changed, searched and finished as every database is.

Another database is one file: a subclass of `VectorIndex` with ``metrics`` and the abstract methods
of `modgap.index.store.VectorStore`.

Scores are those of the correction's metric, larger is nearer: the cosine, the inner product, or
−‖q − d‖² for Euclidean distance. What is stored and compared is float32.
"""

from __future__ import annotations

from typing import Self

from modgap.core.checks import InputValueError
from modgap.corrections.next_steps import changed_lines
from modgap.index.changing import ChangedStore
from modgap.index.equal_lengths import lifted_lengths
from modgap.index.metadata import Graphs, check_note
from modgap.index.searching import SearchedStore
from modgap.index.stored_vectors import StoredVector


class VectorIndex(SearchedStore, ChangedStore):
    """One index that holds the documents of both modalities, corrected.

    ``write`` stores raw vectors as corrected documents, ``search`` takes raw queries. A document
    is known by its modality and its id together, so image 7 and text 7 are two documents. Ids are
    all whole numbers or all text.

    Opened with several corrections, one for each query modality, it stores one vector a document
    for each, and a query searches those made for its modality. Where graphs are searched there is
    one for each modality, unless one for all was asked for, and their results are merged. With a
    correction that has a background, they are merged by expected wrong results.

    Used as a context manager, an index is finished when the block ends without an error. One that
    was not finished (the process was killed, say) is opened again with ``create=True``: ``write``
    of the same rows then leaves out the ids that are there. Documents of a finished index are
    added, replaced and deleted by id. Each batch is stored for good, so it can be searched at any
    time; a change that was interrupted is finished by making it again.

    Opened with a correction that was extended by a modality (`modgap.corrections.extend`), it takes
    documents of that too; those that are there stay as they are.

    ``monitor`` may be set to a `modgap.GapMonitor`: it sees every query that is searched and
    of every document that is stored, as the model gave them, and of the results in all modalities.
    """

    def open(self, *, create: bool = False, replace: bool = False) -> Self:
        """Look at what is there: it must be of these corrections, or with ``create`` nothing yet.

        ``create`` resumes an index that was not finished; ``replace`` drops a finished one.
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
            if self._replacing or (found is None and create):
                self._plan()
                return self
        if found is None:
            raise InputValueError(
                f"There is no index at {self.place}. Build it with modgap index build, or "
                "with open_index(…, create=True)."
            )
        self._keep(found, check_note(found, self._given, self.place, create=create))
        with self._one_sentence():
            self._check_opened()
        self._resuming = not found["finished"]
        return self

    def _plan(self) -> None:
        """What an index that is begun will hold."""
        if self.one_graph and any(one.background is not None for one in self._given):
            raise InputValueError(
                "This correction searches each modality on its own, which one graph of all "
                "modalities is slow at. Leave one_graph (--one-graph) out."
            )
        kept: Graphs = "one" if self.one_graph else "each"
        self.graphs = kept if self._builds_graphs() else None
        lifts = self.graphs is not None and self._lifts()
        self.vectors = {
            name: StoredVector(
                name,
                correction,
                lifted_lengths(correction, one_graph=self.graphs == "one") if lifts else None,
            )
            for name, correction in zip(self._vector_names(), self._given, strict=True)
        }
        self._check_plan()

    def changed_share(self) -> dict[str, float]:
        """By modality, the share of documents that changed since the index was built.

        They were added, replaced or deleted; the background of the correction, if it has one, was
        not fitted again since then.
        """
        shares = {}
        for name, (built, changed) in (self._note or {"documents": {}})["documents"].items():
            known = 0 if self._is_refitted(name) else changed
            shares[name] = min(1.0, known / max(1, built, self.count(name)))
        return shares

    def finish(self) -> None:
        """Everything is written: make what speeds up searching, and say so in the note.

        A program that keeps an index open calls it after its changes.
        """
        note = self._note
        if note is not None and (self._made or not note["finished"]):
            with self._one_sentence():
                self._finish()
                for name in self._written:
                    note["numbers"][name] = self._next_number(name)
                    note["documents"].setdefault(name, (self._count(name), 0))
                left = [mark for mark in note["changing"] if mark not in self._made]
                note |= {"finished": True, "changing": left}
                self._save_note(note)
            self._forget_session()
            self._resuming = False
            if self.graphs == "one":
                self._measure_graph()

    def holdings(self) -> list[str]:
        """What it holds, and how much of that changed since it was built, in lines."""
        lines = [
            f"one graph of all modalities: recall@10 {recall:.4f} for {name} queries"
            for name, recall in self.graph_recall.items()
        ]
        lines.append(f"{self.place} holds {self.count():,} documents")
        return lines + changed_lines(self.changed_share(), self._given)

    def demands(self) -> list[str]:
        """What it holds, what each vector is made by, and its graphs, in lines."""
        lines = self.holdings()
        for name, vector in self.vectors.items():
            lines.append(f"{name}, {vector.dim} columns: {vector.correction}")
        if self.graphs is not None:
            kind = "one for each modality" if self.graphs == "each" else "one of all modalities"
            longer = any(vector.lengths is not None for vector in self.vectors.values())
            more = "; one more column gives documents one length, as graphs need it"
            what = "graphs" if self._has_graphs() else "lists"
            lines.append(f"  {what:<10} {kind}{more if longer else ''}")
        return lines

    def drop(self) -> None:
        """Remove the index and all its documents."""
        if self._note is not None:
            self._lock_to_change()
            with self._one_sentence():
                self._drop()
        self._note, self._resuming = None, False
        self._forget_session()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        try:
            if error is None:
                self.finish()
        finally:
            self.close()
