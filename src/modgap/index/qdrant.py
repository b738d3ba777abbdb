"""A Qdrant collection: on a server, or in Qdrant's embedded mode.

The embedded mode (a folder, or ``:memory:``) is a reimplementation of Qdrant in Python that the
client brings along: exact, in memory, good for trying things out and for tests, not the server.
It keeps its points in a folder as pickles, which can run any code when they are read: a folder that
is there already is opened only with ``trust``.
"""

from __future__ import annotations

import json
import os
import sqlite3
import uuid
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np

from modgap.core.checks import require
from modgap.core.secrets import without_secrets
from modgap.index.addresses import check_collection, check_server, check_trusted
from modgap.index.base import VectorIndex
from modgap.index.errors import one_sentence
from modgap.index.hits import Hit, Id, IdType
from modgap.index.metadata import Note, read_note
from modgap.index.stored_vectors import Corrections, StoredVector

# Edges of a point in a graph; Qdrant's own default.
_M = 16
# What a server takes, and what a folder of the embedded mode can be called.
_NAME = r"""(?!\.{1,2}$)[^<>:"/\\|?*\x00-\x1f\x7f-\x9f]{1,255}"""


class QdrantIndex(VectorIndex):
    """A collection whose points carry ``modality`` and ``id``, the note in its metadata.

    A server keeps one HNSW graph for each modality: ``modality`` is its tenant key, and there is no
    graph over all points (``m=0, payload_m=16``). Searches are exact unless ``ef_search`` is given.

    Parameters
    ----------
    where : str
        The URL of a server, whose key is taken from QDRANT_API_KEY; a folder; or ``:memory:``.
    correction : Correction, path, or several
        What documents and queries are mapped with.
    table : str
        The name of the collection.
    ef_search : int, optional
        Let a server search its HNSW graphs with this ``hnsw_ef``; exact search without it.
    one_graph : bool
        Let a server keep one graph of all modalities instead of one for each. Its recall is
        measured when it is finished, with a warning where that is low.
    batch_rows : int
        Points stored together.
    trust : bool
        Open a folder that is there already, with its pickles.
    """

    metrics: ClassVar = {
        "cosine": ("COSINE", float),
        "inner_product": ("DOT", float),
        "euclidean": ("EUCLID", lambda distance: -(distance**2)),
    }

    def __init__(
        self,
        where: str,
        correction: Corrections,
        *,
        table: str = "modgap",
        ef_search: int | None = None,
        one_graph: bool = False,
        batch_rows: int = 512,
        trust: bool = False,
    ) -> None:
        place = f"collection {table!r} of {without_secrets(where)}"
        super().__init__(correction, place, batch_rows, ef_search=ef_search, one_graph=one_graph)
        self._address = where
        self.is_server = check_server(where, "qdrant")
        check_collection(table, _NAME, "Qdrant", "at most 255 letters, digits and other characters "
                         r'but no < > : " / \ | ? * and none that cannot be printed')  # fmt: skip
        if not (self.is_server or trust):
            check_trusted(where, "of Qdrant's embedded mode, whose points are pickles")
        qdrant = require("qdrant_client", "qdrant", "Qdrant")
        self.table = table
        self._models = qdrant.models
        raised = require("qdrant_client.http.exceptions", "qdrant", "Qdrant")
        self.failures = (raised.ApiException, sqlite3.Error, ValueError, RuntimeError, OSError)
        # A damaged folder raises whatever its pickles and its JSON do.
        with one_sentence(place, (Exception,), where):
            if self.is_server:
                key = os.environ.get("QDRANT_API_KEY")
                target = {"url": where, "api_key": key, "check_compatibility": False}
            else:
                target = {"location" if where == ":memory:" else "path": where}
            self._client = qdrant.QdrantClient(**target)
        self._resources.callback(self._client.close)

    def _load_note(self) -> Note | None:
        if not self._client.collection_exists(self.table):
            return None
        found = self._client.get_collection(self.table).config.metadata or {}
        return read_note(found.get("modgap"))

    def _save_note(self, note: Note) -> None:
        self._client.update_collection(self.table, metadata={"modgap": json.dumps(note)})

    def _make(self, note: Note, id_type: IdType) -> None:
        models = self._models
        distance = models.Distance[self._metric_name]
        shapes = {
            name: models.VectorParams(size=vector.dim, distance=distance)
            for name, vector in self.vectors.items()
        }
        # Without m, edges join only points that share a tenant.
        each = models.HnswConfigDiff(m=0, payload_m=_M) if self.graphs == "each" else None
        self._client.create_collection(
            self.table,
            vectors_config=shapes,
            hnsw_config=each,
            metadata={"modgap": json.dumps(note)},
        )
        if self.is_server:  # without it a search for one modality looks at every point
            tenant = models.KeywordIndexParams(
                type=models.KeywordIndexType.KEYWORD, is_tenant=self.graphs == "each"
            )
            self._client.create_payload_index(self.table, "modality", tenant)

    def _builds_graphs(self) -> bool:
        return self.is_server

    def _add(
        self, vectors: Mapping[str, np.ndarray], modality: str, ids: Sequence[Id], *, replace: bool
    ) -> None:
        points = self._models.Batch(
            ids=[_point(modality, key) for key in ids],
            vectors={name: rows.tolist() for name, rows in vectors.items()},
            payloads=[{"modality": modality, "id": key} for key in ids],
        )
        with warnings.catch_warnings():
            # Embedded mode says from 20,000 points on that it is not meant for so many.
            warnings.simplefilter("ignore", UserWarning)
            with self._one_flush():
                self._client.upsert(self.table, points=points, wait=True)

    def _remove(self, modality: str, ids: Sequence[Id]) -> None:
        gone = self._models.PointIdsList(points=[_point(modality, key) for key in ids])
        with self._one_flush():
            self._client.delete(self.table, points_selector=gone, wait=True)

    @contextmanager
    def _one_flush(self) -> Iterator[None]:
        """Flush a folder once a batch: the embedded mode commits, and would flush, each point.

        SQLite's write-ahead log keeps the folder whole however it ends. Where a file system cannot
        have one, each point is flushed as before.
        """
        held = getattr(getattr(self._client, "_client", None), "collections", {}).get(self.table)
        points = getattr(getattr(held, "storage", None), "storage", None)
        if not isinstance(points, sqlite3.Connection):
            yield
            return
        (mode,) = points.execute("PRAGMA journal_mode = WAL").fetchone()
        points.execute(f"PRAGMA synchronous = {'NORMAL' if mode == 'wal' else 'FULL'}")
        yield
        points.execute("PRAGMA wal_checkpoint(FULL)")

    def _known(self, modality: str, ids: Sequence[Id]) -> set[Id]:
        wanted = [_point(modality, key) for key in ids]
        found = self._client.retrieve(self.table, ids=wanted, with_payload=["id"])
        return {record.payload["id"] for record in found}

    def _ids_of(self, modality: str) -> list[Id]:
        ids: list[Id] = []
        place: Any = None
        while True:
            found, place = self._client.scroll(
                self.table,
                self._filter(modality),
                limit=self.batch_rows,
                offset=place,
                with_payload=["id"],
            )
            ids += [record.payload["id"] for record in found]
            if place is None:
                return ids

    def _nearest(
        self, vector: StoredVector, queries: np.ndarray, k: int, only: str | None, exact: bool
    ) -> list[list[Hit]]:
        models, parameters = self._models, None
        if self.is_server:
            parameters = models.SearchParams(exact=exact, hnsw_ef=self.ef_search)
        requests = [
            models.QueryRequest(
                query=query,
                using=vector.name,
                limit=k,
                filter=self._filter(only),
                params=parameters,
                with_payload=True,
            )
            for query in queries.tolist()
        ]
        answers = self._client.query_batch_points(self.table, requests=requests)
        return [
            [(p.payload["id"], p.payload["modality"], p.score) for p in answer.points]
            for answer in answers
        ]

    def _filter(self, only: str | None) -> Any:
        if only is None:
            return None
        match = self._models.MatchValue(value=only)
        return self._models.Filter(must=[self._models.FieldCondition(key="modality", match=match)])

    def _count(self, only: str | None) -> int:
        count = self._client.count(self.table, count_filter=self._filter(only), exact=True)
        return int(count.count)

    def _drop(self) -> None:
        self._client.delete_collection(self.table)


def _point(modality: str, key: Id) -> str:
    """Qdrant's points are named by numbers or UUIDs: one for each modality and id."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, f"modgap/{modality}/{key!r}"))
