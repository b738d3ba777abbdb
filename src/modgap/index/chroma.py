"""Collections of Chroma in a folder: one for each modality, and for each vector a document has.

Chroma makes a graph of every collection and has no exact search. Without ``ef_search`` modgap reads
the vectors of a collection back, some at a time, and scores them itself: right, but slow.

A folder that is there already is opened only with ``trust``: Chroma keeps its graphs as pickles. It
also makes functions that a collection names for embedding, when documents are added to it.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from modgap.core.checks import require
from modgap.core.files import folder_to_write
from modgap.core.locks import sole_writer_of
from modgap.index.addresses import check_collection, check_trusted
from modgap.index.base import VectorIndex
from modgap.index.errors import one_sentence
from modgap.index.hits import Hit, Id, IdType
from modgap.index.metadata import Note, read_note
from modgap.index.store import BATCH_ROWS
from modgap.index.stored_vectors import Corrections, StoredVector
from modgap.search.exact import best_documents

_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{1,253}[A-Za-z0-9]"


class ChromaIndex(VectorIndex):
    """Collections ``TABLE.0.0`` and so on, numbered by vector and modality; ``TABLE`` has the note.

    Searches are exact unless ``ef_search`` is given, when it is built and when it is searched: then
    Chroma's own graphs are searched.

    Parameters
    ----------
    folder : path
        The folder of Chroma's embedded mode.
    correction : Correction, path, or several
        What documents and queries are mapped with.
    table : str
        The name of the collection with the note, with which those of the documents begin.
    ef_search : int, optional
        Candidates that a search of a graph keeps; exact search without it.
    batch_rows : int
        Rows stored together.
    trust : bool
        Open a folder that is there already.
    """

    metrics: ClassVar = {
        "cosine": (("cosine", lambda distance: 1.0 - distance), float),
        "inner_product": (("ip", lambda distance: 1.0 - distance), float),
        "euclidean": (("l2", operator.neg), float),  # it is squared already
    }

    graphs_on_request = True

    def __init__(
        self,
        folder: str | Path,
        correction: Corrections,
        *,
        table: str = "modgap",
        ef_search: int | None = None,
        batch_rows: int = BATCH_ROWS,
        trust: bool = False,
    ) -> None:
        place = f"collection {table!r} of {folder}"
        super().__init__(correction, place, batch_rows, ef_search=ef_search)
        check_collection(table, _NAME, "Chroma", "3 to 255 letters of ASCII, digits, . _ and -, "
                         "with a letter or digit first and last")  # fmt: skip
        if not trust:
            check_trusted(folder, "of Chroma, which holds pickles and names functions to make")
        self._chroma = require("chromadb", "chroma", "Chroma")
        self._errors = require("chromadb.errors", "chroma", "Chroma")
        self.failures = (self._errors.ChromaError, ValueError, RuntimeError, OSError)
        self.folder = Path(folder).absolute()
        self.table = table
        self._opened: Any = None

    @property
    def _client(self) -> Any:
        if self._opened is None:
            # Said here, so that neither the environment nor a file .env decides who reads pickles.
            settings = self._chroma.config.Settings(
                _env_file=None,
                chroma_api_impl="chromadb.api.rust.RustBindingsAPI",
                anonymized_telemetry=False,
            )
            # What cannot be opened once raises something else when it is tried again.
            with one_sentence(self.place, (Exception,)):
                self._opened = self._chroma.PersistentClient(str(self.folder), settings=settings)
            self._resources.callback(self._opened.close)
            self.batch_rows = min(self.batch_rows, self._opened.get_max_batch_size())
        return self._opened

    def _collection(self, name: str) -> Any:
        return self._client.get_collection(name, embedding_function=None)

    def _of(self, vector: str, modality: str) -> str:
        """The name of the collection that holds a vector of a modality."""
        assert self._note is not None
        return f"{self.table}.{[*self._note['vectors']].index(vector)}.{self.names.index(modality)}"

    def _held(self, modality: str) -> list[Any]:
        """The collections of a modality, by vector; the first says which documents there are."""
        assert self._note is not None
        return [self._collection(self._of(name, modality)) for name in self._note["vectors"]]

    def _lock(self) -> None:
        folder_to_write(self.folder)
        self._resources.enter_context(sole_writer_of(self.folder))

    def _load_note(self) -> Note | None:
        if not (self.folder / "chroma.sqlite3").exists():
            return None
        try:
            found = self._collection(self.table)
        except self._errors.NotFoundError:
            return None
        return read_note((found.metadata or {}).get("modgap"))

    def _save_note(self, note: Note) -> None:
        self._collection(self.table).modify(metadata={"modgap": json.dumps(note)})

    def _make(self, note: Note, id_type: IdType) -> None:
        self._delete_collections()  # of one whose making was killed
        self._make_room(self.names)
        said = {"modgap": json.dumps(note)}
        self._client.create_collection(self.table, metadata=said, embedding_function=None)

    def _make_room(self, new: Sequence[str]) -> None:
        graph: dict[str, Any] = {"space": self._metric_name[0]}
        if self.ef_search is not None:
            graph["ef_search"] = self.ef_search
        for modality in new:
            for vector in self.vectors:
                self._client.get_or_create_collection(
                    self._of(vector, modality), configuration={"hnsw": graph},
                    embedding_function=None,
                )  # fmt: skip

    def _add(
        self, vectors: Mapping[str, np.ndarray], modality: str, ids: Sequence[Id], *, replace: bool
    ) -> None:
        keys = [str(key) for key in ids]
        # The first comes last: a document is there once all its vectors are.
        for name, rows in reversed([*vectors.items()]):
            self._collection(self._of(name, modality)).upsert(ids=keys, embeddings=rows)

    def _remove(self, modality: str, ids: Sequence[Id]) -> None:
        for held in reversed(self._held(modality)):
            held.delete(ids=[str(key) for key in ids])

    def _known(self, modality: str, ids: Sequence[Id]) -> set[Id]:
        found = self._held(modality)[0].get(ids=[str(key) for key in ids], include=[])
        return {self._id(key) for key in found["ids"]}

    def _id(self, key: str) -> Id:
        return int(key) if self._note is not None and self._note["id_type"] == "int" else key

    def _ids_of(self, modality: str) -> list[Id]:
        return [self._id(key) for key in self._held(modality)[0].get(include=[])["ids"]]

    def _nearest(
        self, vector: StoredVector, queries: np.ndarray, k: int, only: str | None, exact: bool
    ) -> list[list[Hit]]:
        found: list[list[Hit]] = [[] for _ in queries]
        for modality in self.names if only is None else (only,):
            held = self._collection(self._of(vector.name, modality))
            for ids, scores in self._best(held, queries, k, exact):
                for line, keys, values in zip(found, ids, scores, strict=True):
                    line += [
                        (self._id(key), modality, value)
                        for key, value in zip(keys, values, strict=True)
                    ]
        return found

    def _best(self, held: Any, queries: np.ndarray, k: int, exact: bool) -> Any:
        """Ids and scores by query: of a graph, or of one part of a collection after another."""
        count = held.count()
        # A graph is searched at least as widely as results are asked for.
        width = max(k, self.ef_search or 0)
        if width < count and not exact:
            found = held.query(query_embeddings=queries, n_results=width, include=["distances"])
            score = self._metric_name[1]
            yield found["ids"], [[score(one) for one in line] for line in found["distances"]]
        else:
            for start in range(0, count, self.batch_rows):
                part = held.get(limit=self.batch_rows, offset=start, include=["embeddings"])
                rows = np.asarray(part["embeddings"], dtype=np.float32)
                places, scores = best_documents(queries, rows, k, self.metric)
                yield np.array(part["ids"], dtype=object)[places], scores.tolist()

    def _count(self, only: str | None) -> int:
        names = self.names if only is None else (only,)
        return sum(int(self._held(name)[0].count()) for name in names)

    def _drop(self) -> None:
        self._client.delete_collection(self.table)
        self._delete_collections()

    def _delete_collections(self) -> None:
        pattern = re.compile(re.escape(self.table) + r"\.[0-9]+\.[0-9]+")
        for one in self._client.list_collections():
            if pattern.fullmatch(one.name):
                self._client.delete_collection(one.name)
