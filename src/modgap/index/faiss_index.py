"""A FAISS index in a file, its ids and modalities beside it."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from modgap._arrays import unit
from modgap._files import atomic_path
from modgap._validate import InputValueError, check_choice, check_count, require
from modgap.corrections import Correction
from modgap.index.answers import Hit, Id
from modgap.index.base import BATCH_ROWS, VectorIndex
from modgap.index.locking import lock_path

_TABLE = ".ids.safetensors"


class FaissIndex(VectorIndex):
    """A FAISS index, flat and exact, or what ``factory`` says (``HNSW32,Flat``, ``IVF256,PQ32``).

    Held in memory and written when finished, in one step; ``x.faiss`` comes with
    ``x.faiss.ids.safetensors``. ``effort`` is efSearch of HNSW or nprobe of IVF. A cosine is the
    inner product of unit rows. A factory that needs training is trained on all rows when finished.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        correction: Correction,
        *,
        factory: str = "Flat",
        effort: int | None = None,
        batch_rows: int = BATCH_ROWS,
    ) -> None:
        super().__init__(correction, str(path), batch_rows)
        self._faiss = require("faiss", "faiss", "A FAISS index")
        self.path = Path(path)
        self.factory = factory
        self.effort = None if effort is None else check_count(effort, "effort")
        self.failures = (RuntimeError, require("safetensors", "faiss", "An index").SafetensorError)
        self.index: Any = None
        self._held: sqlite3.Connection | None = None
        self._ids: list[Id] = []
        self._modalities: list[str] = []
        self._waiting: list[np.ndarray] = []

    def export(self, path: str | os.PathLike[str], modality: str) -> None:
        """Write an ``IndexPreTransform`` that any FAISS program loads and searches as it is.

        Its queries are raw vectors of ``modality``: the query map is inside the file, and the
        documents are stored corrected. It answers with the ids where they are whole numbers and
        no two documents share one, else with the documents' places in the order written.
        """
        faiss = self._faiss
        check_choice(modality, "modality", self.correction.names)
        if self.index is None:
            raise InputValueError(f"{self.place} holds no documents to export.")
        self._finish()
        inner = self.index
        if not any(isinstance(i, str) for i in self._ids) and len(set(self._ids)) == len(self._ids):
            # FAISS wants to add through the map; here the vectors are there before it.
            empty = faiss.IndexFlat(self.dim, inner.metric_type)
            inner = faiss.IndexIDMap(empty)
            inner.index, inner.ntotal = self.index, self.index.ntotal
            faiss.copy_array_to_vector(np.array(self._ids, dtype=np.int64), inner.id_map)
        steps = query_transforms(self.correction, modality)
        whole = faiss.IndexPreTransform(inner)
        for step in reversed(steps):
            whole.prepend_transform(step)
        with atomic_path(path) as temporary:
            faiss.write_index(whole, str(temporary))

    def _lock(self) -> None:
        self._held = lock_path(self.path)

    def close(self) -> None:
        """Let go of the lock."""
        if self._held is not None:
            self._held.close()
            self._held = None

    def _load_note(self) -> Mapping[str, Any] | None:
        table = Path(f"{self.path}{_TABLE}")
        if not self.path.exists():
            return None
        if not table.exists():
            return {}
        from safetensors import safe_open

        with safe_open(table, framework="numpy") as file:
            said = file.metadata() or {}
            codes, texts = file.get_tensor("modality"), said.get("texts")
            numbers = file.get_tensor("ids")
        note: dict[str, Any] = json.loads(said["modgap"])
        self.index = self._faiss.read_index(str(self.path))
        self._ids = json.loads(texts) if texts else numbers.tolist()
        self._modalities = [note["names"][code] for code in codes]
        return note if self.index.ntotal == len(self._ids) else {}

    def _save_note(self, note: Mapping[str, Any]) -> None:
        if not note["finished"]:
            return  # what is on disk stays whole until the new file takes its place
        from safetensors.numpy import save_file

        texts = [] if note["ids"] == "int" else self._ids
        numbers = self._ids if note["ids"] == "int" else []
        codes = [note["names"].index(name) for name in self._modalities]
        tensors = {"ids": np.array(numbers, np.int64), "modality": np.array(codes, np.uint8)}
        said = {"modgap": json.dumps(note), "texts": json.dumps(texts) if texts else ""}
        table = f"{self.path}{_TABLE}"
        with atomic_path(table) as ids, atomic_path(self.path) as vectors:
            self._faiss.write_index(self.index, str(vectors))
            save_file(tensors, ids, metadata=said)
            # Killed between the two: an index without ids, which is refused, never wrong ids.
            Path(table).unlink(missing_ok=True)

    def _make(self, note: Mapping[str, Any], ids: Literal["int", "str"]) -> None:
        faiss = self._faiss
        euclidean = self.metric == "euclidean"
        metric = faiss.METRIC_L2 if euclidean else faiss.METRIC_INNER_PRODUCT
        self.index = faiss.index_factory(self.dim, self.factory, metric)

    def _add(self, rows: np.ndarray, modality: str, ids: Sequence[Id]) -> None:
        rows = unit(rows) if self.metric == "cosine" else rows
        if self.index.is_trained:
            self.index.add(rows)
        else:
            self._waiting.append(rows)
        self._ids += ids
        self._modalities += [modality] * len(ids)

    def _finish(self) -> None:
        if self._waiting:
            rows = np.concatenate(self._waiting)
            self.index.train(rows)
            self.index.add(rows)
            self._waiting.clear()

    def _known(self, modality: str, ids: Sequence[Id]) -> set[Id]:
        held = zip(self._ids, self._modalities, strict=True)
        return {i for i, name in held if name == modality} & set(ids)

    def _nearest(self, queries: np.ndarray, k: int, only: str | None) -> list[list[Hit]]:
        self._finish()
        queries = unit(queries) if self.metric == "cosine" else queries
        scores, places = self.index.search(queries, k, params=self._parameters(only))
        sign = -1.0 if self.metric == "euclidean" else 1.0
        return [
            [
                (self._ids[place], self._modalities[place], sign * score)
                for place, score in zip(*line, strict=True)
                if place >= 0
            ]
            for line in zip(places.tolist(), scores.tolist(), strict=True)
        ]

    def _parameters(self, only: str | None) -> Any:
        faiss = self._faiss
        given: dict[str, Any] = {}
        if only is not None:
            mask = np.array([name == only for name in self._modalities])
            bits = np.packbits(mask, bitorder="little")
            given["sel"] = faiss.IDSelectorBitmap(bits)
        index = faiss.downcast_index(self.index)
        if isinstance(index, faiss.IndexPreTransform):
            inner = _search_parameters(faiss, faiss.downcast_index(index.index), self.effort, given)
            return faiss.SearchParametersPreTransform(index_params=inner) if inner else None
        return _search_parameters(faiss, index, self.effort, given)

    def _count(self, only: str | None) -> int:
        return len(self._ids) if only is None else self._modalities.count(only)

    def _drop(self) -> None:
        self.path.unlink(missing_ok=True)
        Path(f"{self.path}{_TABLE}").unlink(missing_ok=True)
        self.index, self._ids, self._modalities, self._waiting = None, [], [], []


def _search_parameters(faiss: Any, index: Any, effort: int | None, given: dict[str, Any]) -> Any:
    """Effort and filter in the words of the kind of index; None where nothing is asked."""
    if isinstance(index, faiss.IndexHNSW):
        effort = effort or index.hnsw.efSearch
        return faiss.SearchParametersHNSW(efSearch=effort, **given)
    if isinstance(index, faiss.IndexIVF):
        return faiss.SearchParametersIVF(nprobe=effort or index.nprobe, **given)
    return faiss.SearchParameters(**given) if given else None


def query_transforms(correction: Correction, modality: str) -> list[Any]:
    """The query map of a modality as FAISS transforms, to be applied in this order."""
    faiss = require("faiss", "faiss", "A FAISS transform")
    affine = correction.map(modality, "query").dense()
    steps: list[Any] = []
    if affine.matrix is not None or affine.offset is not None or affine.scale != 1.0:
        matrix = np.eye(affine.dim_in) if affine.matrix is None else affine.matrix
        step = faiss.LinearTransform(affine.dim_in, affine.dim_out, affine.offset is not None)
        scaled = np.ascontiguousarray(affine.scale * matrix, dtype=np.float32)
        faiss.copy_array_to_vector(scaled.ravel(), step.A)
        if affine.offset is not None:
            faiss.copy_array_to_vector(affine.offset.astype(np.float32), step.b)
        step.is_trained = True
        steps.append(step)
    if affine.renormalise or correction.metric == "cosine":
        steps.append(faiss.NormalizationTransform(affine.dim_out, 2.0))
    return steps
