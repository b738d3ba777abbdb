"""A Milvus collection: in Milvus Lite, a file of your own, or on a server.

Milvus Lite, from its version 3 on, is a reimplementation of Milvus in Python on top of FAISS.
"""

from __future__ import annotations

import json
import logging
import operator
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import ClassVar

import numpy as np

from modgap.core.checks import InputValueError, require
from modgap.core.secrets import without_secrets
from modgap.index.addresses import check_collection, check_server
from modgap.index.base import VectorIndex
from modgap.index.hits import Hit, Id, IdType
from modgap.index.metadata import Note, read_note
from modgap.index.stored_vectors import Corrections, StoredVector

_MAX_KEY = 1024
_MAX_HITS = 16384
_NAME = r"[A-Za-z_][0-9A-Za-z_]{0,254}"


class MilvusIndex(VectorIndex):
    """A collection with a flat, exact index; the note is one of its properties.

    ``where`` is a file that ends in .db, or the URL of a server, whose token is taken from
    MILVUS_TOKEN; ``table`` is the name of the collection. A document's key is the number of its
    modality and its id: ``0/7``.

    The first search after opening or writing waits until a server has taken in all that was written
    before, some 0.2 seconds. Later ones do not wait, and find what others write within seconds.
    """

    metrics: ClassVar = {
        "cosine": ("COSINE", float),
        "inner_product": ("IP", float),
        "euclidean": ("L2", operator.neg),  # it is squared already
    }

    def __init__(
        self, where: str, correction: Corrections, *, table: str = "modgap", batch_rows: int = 1024
    ) -> None:
        place = f"collection {table!r} of {without_secrets(where)}"
        super().__init__(correction, place, batch_rows)
        self._address = where
        is_server = check_server(where, "milvus")
        check_collection(table, _NAME, "Milvus", "at most 255 letters of ASCII, digits and _, no "
                         "digit first")  # fmt: skip
        pymilvus = require("pymilvus", "milvus", "Milvus")
        self.table = table
        self.failures = (pymilvus.MilvusException, ValueError, OSError)
        self._types = pymilvus.DataType
        self._waits = True
        with self._one_sentence():
            token = os.environ.get("MILVUS_TOKEN", "") if is_server else ""
            self._client = pymilvus.MilvusClient(where, token=token)
        self._resources.callback(self._client.close)

    @contextmanager
    def _one_sentence(self) -> Iterator[None]:
        # pymilvus logs a traceback of whatever it raises; the sentence is enough.
        loggers = [logging.getLogger(name) for name in ("pymilvus", "milvus_lite", "grpc")]
        before = [logger.level for logger in loggers]
        try:
            for logger in loggers:
                logger.setLevel(logging.CRITICAL + 1)
            with super()._one_sentence():
                yield
        finally:
            for logger, level in zip(loggers, before, strict=True):
                logger.setLevel(level)

    def _load_note(self) -> Note | None:
        if not self._client.has_collection(self.table):
            return None
        said = self._client.describe_collection(self.table).get("properties", {}).get("modgap")
        note = read_note(said)
        if note:
            self._load(note)
        return note

    def _save_note(self, note: Note) -> None:
        properties = {"modgap": json.dumps(note)}
        self._client.alter_collection_properties(self.table, properties=properties)

    def _make(self, note: Note, id_type: IdType) -> None:
        kinds = self._types
        schema = self._client.create_schema(auto_id=False, enable_dynamic_field=False)
        schema.add_field("key", kinds.VARCHAR, is_primary=True, max_length=_MAX_KEY)
        schema.add_field("modality", kinds.VARCHAR, max_length=_MAX_KEY)
        for name, vector in self.vectors.items():
            schema.add_field(name, kinds.FLOAT_VECTOR, dim=vector.dim)
        # With its note from the start: a collection without one is not modgap's to replace.
        said = {"modgap": json.dumps(note)}
        # By its default a server may leave out what was written in the last seconds.
        self._client.create_collection(
            self.table, schema=schema, properties=said, consistency_level="Strong"
        )
        self._load(note)

    def _load(self, note: Note) -> None:
        """Bring the collection into memory; one whose making was killed may lack its indexes."""
        if not self._client.list_indexes(self.table):
            index = self._client.prepare_index_params()
            for name in note["vectors"]:
                index.add_index(name, index_type="FLAT", metric_type=self._metric_name)
            self._client.create_index(self.table, index)
        self._client.load_collection(self.table)

    def _add(
        self, vectors: Mapping[str, np.ndarray], modality: str, ids: Sequence[Id], *, replace: bool
    ) -> None:
        keys = self._keys_of(modality, ids)
        data = [
            {"key": key, "modality": modality, **dict(zip(vectors, rows, strict=True))}
            for key, *rows in zip(keys, *vectors.values(), strict=True)
        ]
        self._client.upsert(self.table, data)
        self._waits = True

    def _remove(self, modality: str, ids: Sequence[Id]) -> None:
        self._client.delete(self.table, ids=self._keys_of(modality, ids))
        self._waits = True

    def _known(self, modality: str, ids: Sequence[Id]) -> set[Id]:
        # Not client.get, which puts ids between quotation marks as they are.
        wanted = json.dumps(self._keys_of(modality, ids), ensure_ascii=False)
        found = self._client.query(self.table, filter=f"key in {wanted}", output_fields=["key"])
        return {self._id(record["key"]) for record in found}

    def _ids_of(self, modality: str) -> list[Id]:
        found = self._client.query_iterator(
            self.table, batch_size=self.batch_rows, filter=_only(modality), output_fields=["key"]
        )
        ids: list[Id] = []
        while batch := found.next():
            ids += [self._id(record["key"]) for record in batch]
        found.close()
        return ids

    def _nearest(
        self, vector: StoredVector, queries: np.ndarray, k: int, only: str | None, exact: bool
    ) -> list[list[Hit]]:
        if k > _MAX_HITS:
            raise InputValueError(f"Milvus returns at most {_MAX_HITS} results, got k={k}.")
        level, self._waits = "Strong" if self._waits else "Bounded", False
        answers = self._client.search(
            self.table,
            data=list(queries),
            anns_field=vector.name,
            limit=k,
            filter=_only(only),
            output_fields=["key", "modality"],
            consistency_level=level,
        )
        found = [[(hit["entity"], hit["distance"]) for hit in answer] for answer in answers]
        return [[(self._id(e["key"]), e["modality"], near) for e, near in line] for line in found]

    def _count(self, only: str | None) -> int:
        found = self._client.query(self.table, filter=_only(only), output_fields=["count(*)"])
        return int(found[0]["count(*)"])

    def _keys_of(self, modality: str, ids: Sequence[Id]) -> list[str]:
        keys = [f"{self.names.index(modality)}/{key}" for key in ids]
        longest = max(keys, key=lambda key: len(key.encode()))
        if len(longest.encode()) > _MAX_KEY:
            raise InputValueError(
                f"Milvus takes ids of at most {_MAX_KEY - 2} bytes, got one of "
                f"{len(longest.encode()) - 2}."
            )
        return keys

    def _id(self, key: str) -> Id:
        text = key.partition("/")[2]
        return int(text) if self._note is not None and self._note["id_type"] == "int" else text

    def _drop(self) -> None:
        self._client.drop_collection(self.table)


def _only(only: str | None) -> str:
    return "" if only is None else f"modality == {json.dumps(only, ensure_ascii=False)}"
