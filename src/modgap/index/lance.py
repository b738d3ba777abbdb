"""A LanceDB table: a folder that ends in .lance."""

from __future__ import annotations

import json
import operator
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from modgap._files import sole_writer_of
from modgap._validate import InputValueError, require
from modgap.corrections import Correction
from modgap.index.answers import Hit, Id, IdType
from modgap.index.base import BATCH_ROWS, VectorIndex
from modgap.index.notes import Note, read_note


class LanceIndex(VectorIndex):
    """A LanceDB table, searched exactly. ``folder/name.lance`` is the table ``name`` of a database.

    LanceDB has no lock of its own, so one of ours keeps two builds on a machine apart.
    """

    metrics: ClassVar = {
        "cosine": ("cosine", lambda distance: 1.0 - distance),
        "inner_product": ("dot", lambda distance: 1.0 - distance),
        "euclidean": ("l2", operator.neg),  # it is squared already
    }

    def __init__(
        self, path: str | Path, correction: Correction, *, batch_rows: int = BATCH_ROWS
    ) -> None:
        super().__init__(correction, str(path), batch_rows)
        lancedb = require("lancedb", "lancedb", "A LanceDB table")
        self.failures = (ValueError, RuntimeError, OSError)
        self.path = Path(path)
        if self.path.suffix != ".lance":
            raise InputValueError(f"A LanceDB table must end in .lance, got {path}.")
        with self._one_sentence():
            self._database = lancedb.connect(str(self.path.parent))
        self._table: Any = None

    def _lock(self) -> None:
        self._resources.enter_context(sole_writer_of(self.path))

    def _load_note(self) -> Note | None:
        if not self.path.exists():
            return None
        self._table = self._database.open_table(self.path.stem)
        schema = self._table.schema
        metadata = schema.field("vector").metadata if "vector" in schema.names else None
        return read_note((metadata or {}).get(b"modgap"))

    def _save_note(self, note: Note) -> None:
        update = {"path": "vector", "metadata": {"modgap": json.dumps(note)}}
        self._table.update_field_metadata(update)

    def _make(self, note: Note, id_type: IdType) -> None:
        vector = pa.list_(pa.float32(), self.dim)
        schema = pa.schema(
            [
                pa.field("id", pa.int64() if id_type == "int" else pa.string()),
                pa.field("modality", pa.string()),
                pa.field("vector", vector, metadata={"modgap": json.dumps(note)}),
            ]
        )
        self._table = self._database.create_table(self.path.stem, schema=schema)

    def _add(self, rows: np.ndarray, modality: str, ids: Sequence[Id]) -> None:
        columns = {
            "id": list(ids),
            "modality": [modality] * len(ids),
            "vector": pa.FixedSizeListArray.from_arrays(rows.ravel(), self.dim),
        }
        self._table.add(pa.table(columns, schema=self._table.schema))

    def _known(self, modality: str, ids: Sequence[Id]) -> set[Id]:
        listed = ", ".join(_literal(key) for key in ids)
        found = self._table.search().where(f"{_only(modality)} AND id IN ({listed})")
        return set(found.select(["id"]).limit(len(ids)).to_arrow()["id"].to_pylist())

    def _nearest(self, queries: np.ndarray, k: int, only: str | None) -> list[list[Hit]]:
        found = []
        for query in queries:
            search = self._table.search(query).distance_type(self._metric_name)
            search = search.bypass_vector_index()
            if only is not None:
                search = search.where(_only(only), prefilter=True)
            columns = ["id", "modality", "_distance"]
            answer = search.select(columns).limit(k).to_arrow()
            found.append(list(zip(*(answer[c].to_pylist() for c in columns), strict=True)))
        return found

    def _count(self, only: str | None) -> int:
        count: int = self._table.count_rows(None if only is None else _only(only))
        return count

    def _finish(self) -> None:
        self._table.optimize()  # one fragment per batch would slow every search

    def _drop(self) -> None:
        self._database.drop_table(self.path.stem)
        shutil.rmtree(self.path, ignore_errors=True)


def _literal(value: Id) -> str:
    return str(value) if isinstance(value, int) else "'" + value.replace("'", "''") + "'"


def _only(modality: str) -> str:
    return f"modality = {_literal(modality)}"
