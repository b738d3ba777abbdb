"""A LanceDB table: a folder that ends in .lance."""

from __future__ import annotations

import json
import operator
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from modgap.core.checks import InputValueError, require
from modgap.core.files import folder_to_write
from modgap.core.locks import sole_writer_of
from modgap.index.base import VectorIndex
from modgap.index.hits import Hit, Id, IdType
from modgap.index.metadata import Note, read_note
from modgap.index.store import BATCH_ROWS
from modgap.index.stored_vectors import Corrections, StoredVector


class LanceIndex(VectorIndex):
    """A LanceDB table. ``folder/name.lance`` is the table ``name`` of a database.

    Searches are exact unless ``ef_search`` is given: then an HNSW graph for each modality is made
    when the table is finished. Lance has one graph a column, so each modality then has a column
    of its own, ``embedding_of_image`` and so on, empty in the rows of the others.

    LanceDB has no lock of its own, so one of ours keeps two builds on a machine apart.

    Parameters
    ----------
    path : path
        The folder of the table.
    correction : Correction, path, or several
        What documents and queries are mapped with.
    ef_search : int, optional
        Candidates that a search of a graph keeps; exact search without it.
    one_graph : bool
        One graph of all modalities instead of one for each. Its recall is measured when it is
        finished, with a warning where that is low.
    batch_rows : int
        Rows stored together.
    """

    metrics: ClassVar = {
        "cosine": ("cosine", lambda distance: 1.0 - distance),
        "inner_product": ("dot", lambda distance: 1.0 - distance),
        "euclidean": ("l2", operator.neg),  # it is squared already
    }

    graphs_on_request = True

    def __init__(
        self,
        path: str | Path,
        correction: Corrections,
        *,
        ef_search: int | None = None,
        one_graph: bool = False,
        batch_rows: int = BATCH_ROWS,
    ) -> None:
        super().__init__(
            correction, str(path), batch_rows, ef_search=ef_search, one_graph=one_graph
        )
        lancedb = require("lancedb", "lancedb", "A LanceDB table")
        self.failures = (ValueError, RuntimeError, OSError)
        self.path = Path(path)
        if self.path.suffix != ".lance":
            raise InputValueError(f"A LanceDB table must end in .lance, got {path}.")
        with self._one_sentence():
            self._database = lancedb.connect(str(self.path.parent))
        self._table: Any = None
        # Two names may be spelled alike: the later one is then told apart by its place.
        plain = [re.sub(r"[^0-9A-Za-z]", "_", name) for name in self.names]
        self._spelled = {
            name: f"{one}_{place}" if one in plain[:place] else one
            for place, (name, one) in enumerate(zip(self.names, plain, strict=True))
        }

    def _lock(self) -> None:
        folder_to_write(self.path)
        self._resources.enter_context(sole_writer_of(self.path))

    def _load_note(self) -> Note | None:
        if not self.path.exists():
            return None
        self._table = self._database.open_table(self.path.stem)
        schema = self._table.schema
        if b"embedding_functions" in (schema.metadata or {}):
            return {}  # LanceDB would make these models when rows are added; modgap has none
        metadata = schema.field("modality").metadata if "modality" in schema.names else None
        return read_note((metadata or {}).get(b"modgap"))

    def _save_note(self, note: Note) -> None:
        update = {"path": "modality", "metadata": {"modgap": json.dumps(note)}}
        self._table.update_field_metadata(update)

    def _columns(self, vector: str, only: str | None = None) -> dict[str | None, str]:
        """The columns that hold a vector, by modality where each has one."""
        if self.graphs != "each":
            return {None: vector}
        names = self.names if only is None else (only,)
        return {name: f"{vector}_of_{self._spelled[name]}" for name in names}

    def _make(self, note: Note, id_type: IdType) -> None:
        schema = pa.schema(
            [
                pa.field("id", pa.int64() if id_type == "int" else pa.string()),
                pa.field("modality", pa.string(), metadata={"modgap": json.dumps(note)}),
                *(
                    pa.field(column, pa.list_(pa.float32(), vector.dim))
                    for name, vector in self.vectors.items()
                    for column in self._columns(name).values()
                ),
            ]
        )
        self._table = self._database.create_table(self.path.stem, schema=schema)

    def _add(
        self, vectors: Mapping[str, np.ndarray], modality: str, ids: Sequence[Id], *, replace: bool
    ) -> None:
        columns: dict[str, Any] = {"id": list(ids), "modality": [modality] * len(ids)}
        for name, rows in vectors.items():
            for held, column in self._columns(name).items():
                kind = self._table.schema.field(column).type
                columns[column] = (
                    pa.FixedSizeListArray.from_arrays(rows.ravel(), rows.shape[1])
                    if held in (None, modality)
                    else pa.nulls(len(ids), kind)
                )
        rows = pa.table(columns, schema=self._table.schema)
        if not replace:
            self._table.add(rows)
            return
        replaced = self._table.merge_insert(["modality", "id"]).when_matched_update_all()
        # Vectors that are missing, of the other modalities, stay so.
        replaced.when_not_matched_insert_all().execute(rows, on_bad_vectors="null")

    def _remove(self, modality: str, ids: Sequence[Id]) -> None:
        self._table.delete(_among(modality, ids))

    def _make_room(self, new: Sequence[str]) -> None:
        there = {*self._table.schema.names}
        added = [
            pa.field(column, pa.list_(pa.float32(), vector.dim))
            for name, vector in self.vectors.items()
            for column in self._columns(name).values()
            if column not in there
        ]
        if added:
            self._table.add_columns(added)

    def _known(self, modality: str, ids: Sequence[Id]) -> set[Id]:
        found = self._table.search().where(_among(modality, ids))
        return set(found.select(["id"]).limit(len(ids)).to_arrow()["id"].to_pylist())

    def _ids_of(self, modality: str) -> list[Id]:
        found = self._table.search().where(_only(modality)).select(["id"])
        ids: list[Id] = found.limit(self._count(modality)).to_arrow()["id"].to_pylist()
        return ids

    def _nearest(
        self, vector: StoredVector, queries: np.ndarray, k: int, only: str | None, exact: bool
    ) -> list[list[Hit]]:
        shown = ["id", "modality", "_distance"]
        found: list[list[Hit]] = [[] for _ in queries]
        for held, column in self._columns(vector.name, only).items():
            if held is not None and self._count(held) == 0:
                continue
            for line, query in zip(found, queries, strict=True):
                search = self._table.search(query, vector_column_name=column)
                search = search.distance_type(self._metric_name)
                if exact:
                    search = search.bypass_vector_index()
                else:
                    search = search.nprobes(1).ef(max(self.ef_search or 0, k))
                if held is None and only is not None:
                    search = search.where(_only(only), prefilter=True)
                answer = search.select(shown).limit(k).to_arrow()
                line += zip(*(answer[name].to_pylist() for name in shown), strict=True)
        return found

    def _count(self, only: str | None) -> int:
        count: int = self._table.count_rows(None if only is None else _only(only))
        return count

    def _finish(self) -> None:
        # Graphs are made anew: rows that came later would get a graph of their own.
        for index in self._table.list_indices():
            self._table.drop_index(index.name)
        self._table.optimize()  # one fragment per batch would slow every search
        if self.graphs is None:
            return
        graph = require("lancedb.index", "lancedb", "A LanceDB table").HnswFlat(
            distance_type=self._metric_name, num_partitions=1
        )
        for vector in self.vectors:
            for held, column in self._columns(vector).items():
                if self._count(held):
                    self._table.create_index(column, config=graph)

    def _drop(self) -> None:
        self._database.drop_table(self.path.stem)
        shutil.rmtree(self.path, ignore_errors=True)


def _literal(value: Id) -> str:
    return str(value) if isinstance(value, int) else "'" + value.replace("'", "''") + "'"


def _only(modality: str) -> str:
    return f"modality = {_literal(modality)}"


def _among(modality: str, ids: Sequence[Id]) -> str:
    return f"{_only(modality)} AND id IN ({', '.join(_literal(key) for key in ids)})"
