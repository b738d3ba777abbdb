"""A FAISS index in a file, its ids and modalities beside it."""

from __future__ import annotations

import json
import operator
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from modgap._arrays import unit
from modgap._files import atomic_path, sole_writer_of
from modgap._tensors import read_tensors, write_tensors
from modgap._validate import InputValueError, check_choice, check_count, require
from modgap.corrections import Correction
from modgap.index.answers import Hit, Id, IdType
from modgap.index.base import BATCH_ROWS, VectorIndex
from modgap.index.notes import Note

_KIND = "table of ids"


class FaissIndex(VectorIndex):
    """A FAISS index in memory, written when finished, in one step.

    ``x.faiss`` comes with ``x.faiss.ids.safetensors``. A cosine is the inner product of unit rows.

    Parameters
    ----------
    path : path
        The file of the index.
    correction : Correction
        What documents and queries are mapped with.
    factory : str
        What to build in FAISS's words (``HNSW32,Flat``, ``IVF256,PQ32``); flat and exact by
        default. What needs training is trained on all rows when the index is finished.
    ef_search : int, optional
        Candidates that a search of an HNSW graph keeps; FAISS's default without it.
    nprobe : int, optional
        Cells that a search of an IVF index looks into; FAISS's default without it.
    batch_rows : int
        Rows corrected together.
    """

    metrics: ClassVar = {
        "cosine": ("METRIC_INNER_PRODUCT", float),
        "inner_product": ("METRIC_INNER_PRODUCT", float),
        "euclidean": ("METRIC_L2", operator.neg),  # it is squared already
    }

    def __init__(
        self,
        path: str | os.PathLike[str],
        correction: Correction,
        *,
        factory: str = "Flat",
        ef_search: int | None = None,
        nprobe: int | None = None,
        batch_rows: int = BATCH_ROWS,
    ) -> None:
        super().__init__(correction, str(path), batch_rows)
        self._faiss = require("faiss", "faiss", "A FAISS index")
        self.path, self._table = Path(path), Path(f"{path}.ids.safetensors")
        self.factory = factory
        self.ef_search = None if ef_search is None else check_count(ef_search, "ef_search")
        self.nprobe = None if nprobe is None else check_count(nprobe, "nprobe")
        self.failures = (RuntimeError,)
        self._forget()

    def _forget(self) -> None:
        self.index: Any = None
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
        whole = faiss.IndexPreTransform(inner)
        for step in reversed(query_transforms(self.correction, modality)):
            whole.prepend_transform(step)
        with atomic_path(path) as temporary:
            faiss.write_index(whole, str(temporary))

    def _lock(self) -> None:
        self._resources.enter_context(sole_writer_of(self.path))

    def _load_note(self) -> Note | None:
        if not self.path.exists():
            return None
        if not self._table.exists():
            return {}
        header, tensors = read_tensors(self._table, _KIND)
        note: Note = header["note"]
        self.index = self._faiss.read_index(str(self.path))
        self._ids = tensors["ids"].tolist()
        if note["id_type"] == "str":
            self._ids = json.loads(tensors["ids"].tobytes())
        self._modalities = [note["names"][code] for code in tensors["modality"]]
        self._check_options()
        return note if self.index.ntotal == len(self._ids) else {}

    def _save_note(self, note: Note) -> None:
        if not note["finished"]:
            return  # what is on disk stays whole until the new file takes its place
        ids = np.array(self._ids, np.int64) if note["id_type"] == "int" else _as_bytes(self._ids)
        codes = [note["names"].index(name) for name in self._modalities]
        tensors = {"ids": ids, "modality": np.array(codes, np.uint8)}
        with atomic_path(self._table) as table, atomic_path(self.path) as vectors:
            self._faiss.write_index(self.index, str(vectors))
            write_tensors(table, _KIND, tensors, {"note": note})
            # Killed between the two: an index without ids, which is refused, never wrong ids.
            self._table.unlink(missing_ok=True)

    def _make(self, note: Note, id_type: IdType) -> None:
        metric = getattr(self._faiss, self._metric_name)
        self.index = self._faiss.index_factory(self.dim, self.factory, metric)
        self._check_options()

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
        found = self.index.search(queries, k, params=self._parameters(only))
        return [
            [
                (self._ids[place], self._modalities[place], nearness)
                for nearness, place in zip(*line, strict=True)
                if place >= 0
            ]
            for line in zip(*(part.tolist() for part in found), strict=True)
        ]

    def _searched(self) -> Any:
        """The index that is searched, behind its transforms where it has any."""
        index = self._faiss.downcast_index(self.index)
        if isinstance(index, self._faiss.IndexPreTransform):
            return self._faiss.downcast_index(index.index)
        return index

    def _check_options(self) -> None:
        faiss, searched = self._faiss, self._searched()
        for option, kind in (("ef_search", faiss.IndexHNSW), ("nprobe", faiss.IndexIVF)):
            if getattr(self, option) is not None and not isinstance(searched, kind):
                raise InputValueError(
                    f"{option} is an option of {kind.__name__}, but {self.place} is an "
                    f"{type(searched).__name__}. Leave {option} out."
                )

    def _parameters(self, only: str | None) -> Any:
        """Filter, ef_search and nprobe in FAISS's words; None where nothing is asked."""
        faiss, searched = self._faiss, self._searched()
        given: dict[str, Any] = {}
        if only is not None:
            mask = np.array([name == only for name in self._modalities])
            given["sel"] = faiss.IDSelectorBitmap(np.packbits(mask, bitorder="little"))
        if isinstance(searched, faiss.IndexHNSW):
            ef_search = self.ef_search or searched.hnsw.efSearch
            parameters = faiss.SearchParametersHNSW(efSearch=ef_search, **given)
        elif isinstance(searched, faiss.IndexIVF):
            nprobe = self.nprobe or searched.nprobe
            parameters = faiss.SearchParametersIVF(nprobe=nprobe, **given)
        elif given:
            parameters = faiss.SearchParameters(**given)
        else:
            return None
        if isinstance(faiss.downcast_index(self.index), faiss.IndexPreTransform):
            return faiss.SearchParametersPreTransform(index_params=parameters)
        return parameters

    def _count(self, only: str | None) -> int:
        return len(self._ids) if only is None else self._modalities.count(only)

    def _drop(self) -> None:
        self.path.unlink(missing_ok=True)
        self._table.unlink(missing_ok=True)
        self._forget()


def _as_bytes(ids: list[Id]) -> np.ndarray:
    return np.frombuffer(json.dumps(ids).encode(), np.uint8)


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
