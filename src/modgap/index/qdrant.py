"""A Qdrant collection: on a server, or in Qdrant's embedded mode.

The embedded mode (a folder, or ``:memory:``) is a reimplementation of Qdrant in Python that the
client brings along: exact, in memory, good for trying things out and for tests, not the server.
It keeps its points in a folder as pickles, so open only folders that you trust.
"""

from __future__ import annotations

import os
import uuid
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from modgap._validate import check_count, require
from modgap.corrections import Correction
from modgap.index.answers import Hit, Id
from modgap.index.base import VectorIndex

# Qdrant's name of the metric, and what turns its score into ours.
_METRICS = {
    "cosine": ("COSINE", lambda score: score),
    "inner_product": ("DOT", lambda score: score),
    "euclidean": ("EUCLID", lambda score: -(score**2)),
}
_BATCH_ROWS = 512


class QdrantIndex(VectorIndex):
    """A collection whose points carry ``modality`` and ``id``, the note in its metadata.

    ``where`` is a URL of a server, a folder, or ``:memory:``. A server searches exactly unless
    ``effort`` is given: hnsw_ef of its HNSW graph. Its key is taken from QDRANT_API_KEY.
    """

    def __init__(
        self,
        where: str,
        correction: Correction,
        *,
        table: str = "modgap",
        effort: int | None = None,
        batch_rows: int = _BATCH_ROWS,
    ) -> None:
        super().__init__(correction, f"collection {table!r} of {where}", batch_rows)
        qdrant = require("qdrant_client", "qdrant", "Qdrant")
        self.effort = None if effort is None else check_count(effort, "effort")
        self.table = table
        self._models = qdrant.models
        raised = require("qdrant_client.http.exceptions", "qdrant", "Qdrant")
        self.failures = (raised.ApiException, ValueError, RuntimeError, OSError)
        self.is_server = "://" in where
        with self._one_sentence():
            if self.is_server:
                key = os.environ.get("QDRANT_API_KEY")
                self._client = qdrant.QdrantClient(
                    url=where, api_key=key, check_compatibility=False
                )
            elif where == ":memory:":
                self._client = qdrant.QdrantClient(where)
            else:
                self._client = qdrant.QdrantClient(path=where)

    def _load_note(self) -> Mapping[str, Any] | None:
        if not self._client.collection_exists(self.table):
            return None
        return self._client.get_collection(self.table).config.metadata or {}

    def _save_note(self, note: Mapping[str, Any]) -> None:
        self._client.update_collection(self.table, metadata=dict(note))

    def _make(self, note: Mapping[str, Any], ids: Literal["int", "str"]) -> None:
        distance = self._models.Distance[_METRICS[self.metric][0]]
        shape = self._models.VectorParams(size=self.dim, distance=distance)
        self._client.create_collection(self.table, vectors_config=shape, metadata=dict(note))
        if self.is_server:  # without it a search for one modality looks at every point
            self._client.create_payload_index(self.table, "modality", "keyword")

    def _add(self, rows: np.ndarray, modality: str, ids: Sequence[Id]) -> None:
        points = self._models.Batch(
            ids=[_point(modality, key) for key in ids],
            vectors=rows.tolist(),
            payloads=[{"modality": modality, "id": key} for key in ids],
        )
        with warnings.catch_warnings():
            # Embedded mode says from 20,000 points on that it is not meant for so many.
            warnings.simplefilter("ignore", UserWarning)
            self._client.upsert(self.table, points=points, wait=True)

    def _known(self, modality: str, ids: Sequence[Id]) -> set[Id]:
        wanted = [_point(modality, key) for key in ids]
        found = self._client.retrieve(self.table, ids=wanted, with_payload=["id"])
        return {record.payload["id"] for record in found}

    def _nearest(self, queries: np.ndarray, k: int, only: str | None) -> list[list[Hit]]:
        models, score = self._models, _METRICS[self.metric][1]
        effort = None
        if self.is_server:
            effort = models.SearchParams(exact=self.effort is None, hnsw_ef=self.effort)
        requests = [
            models.QueryRequest(
                query=query, limit=k, filter=self._filter(only), params=effort, with_payload=True
            )
            for query in queries.tolist()
        ]
        answers = self._client.query_batch_points(self.table, requests=requests)
        return [
            [(p.payload["id"], p.payload["modality"], score(p.score)) for p in answer.points]
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

    def close(self) -> None:
        """Close the client; the embedded mode lets go of its folder."""
        self._client.close()


def _point(modality: str, key: Id) -> str:
    """Qdrant's points are named by numbers or UUIDs: one for each modality and id."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, f"modgap/{modality}/{key!r}"))
