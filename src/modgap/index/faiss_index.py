"""A FAISS index in a file, its ids and modalities beside it."""

from __future__ import annotations

import json
import operator
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from modgap.arrays import unit
from modgap.core.checks import InputValueError, check_count, require
from modgap.core.files import atomic_path, file_to_write
from modgap.core.limits import parse_json
from modgap.core.locks import sole_writer_of
from modgap.core.tensor_file import read_tensors, write_tensors
from modgap.index.base import VectorIndex
from modgap.index.faiss_objects import (
    file_fingerprint,
    indexes_of,
    keep_rows,
    query_transforms,
    searched_index,
    write_indexes,
)
from modgap.index.hits import Hit, Id, IdType
from modgap.index.metadata import FORMAT, Note
from modgap.index.store import BATCH_ROWS
from modgap.index.stored_vectors import Corrections, StoredVector
from modgap.search import Hits

_KIND = "table of ids"
# Numbers in a factory: FAISS's own advice for a billion rows ends at IVF1048576.
_MOST = {"IVF": 1 << 20, "HNSW": 512, "NSG": 512, "x": 16} | dict.fromkeys(
    ("PCA", "PCAR", "PCAW", "PCAWR", "OPQ", "RR", "ITQ", "L"), 1 << 14
)


class FaissIndex(VectorIndex):
    """A FAISS index in memory, written when finished, in one step.

    ``x.faiss`` comes with ``x.faiss.ids.safetensors``. A cosine is the inner product of unit rows.
    A graph (HNSW) is one FAISS index for each modality; these, and those of several corrections,
    stand in the file one after the other.

    Parameters
    ----------
    path : path
        The file of the index.
    correction : Correction, path, or several
        What documents and queries are mapped with.
    factory : str
        What to build in FAISS's words (``HNSW32,Flat``, ``IVF256,PQ32``); flat and exact by
        default. What needs training is trained on all rows when the index is finished.
    ef_search : int, optional
        Candidates that a search of an HNSW graph keeps; 64 without it, 96 with hubs.
    nprobe : int, optional
        Cells that a search of an IVF index looks into; FAISS's default without it.
    one_graph : bool
        One graph of all modalities instead of one for each. Its recall is measured when it is
        finished, with a warning where that is low.
    batch_rows : int
        Rows corrected together.
    """

    metrics: ClassVar = {
        "cosine": ("METRIC_INNER_PRODUCT", operator.pos),
        "inner_product": ("METRIC_INNER_PRODUCT", operator.pos),
        "euclidean": ("METRIC_L2", operator.neg),  # it is squared already
    }

    def __init__(
        self,
        path: str | os.PathLike[str],
        correction: Corrections,
        *,
        factory: str = "Flat",
        ef_search: int | None = None,
        nprobe: int | None = None,
        one_graph: bool = False,
        batch_rows: int = BATCH_ROWS,
    ) -> None:
        super().__init__(
            correction, str(path), batch_rows, ef_search=ef_search, one_graph=one_graph
        )
        self._faiss = require("faiss", "faiss", "A FAISS index")
        self.path, self._table = Path(path), Path(f"{path}.ids.safetensors")
        # A table takes its name after its vectors do; a kill between the two leaves it here.
        self._next_table = Path(f"{path}.ids.safetensors.partial")
        self.factory = self._built_by = factory
        self.nprobe = None if nprobe is None else check_count(nprobe, "nprobe")
        self.failures = (RuntimeError,)
        self._forget()

    def _forget(self) -> None:
        # By the vector's name, and by modality where each has a graph of its own.
        self._indexes: dict[tuple[str, str | None], Any] = {}
        self._waiting: dict[tuple[str, str | None], list[np.ndarray]] = {}
        self._ids: list[Id | None] = []  # None where a document was removed, until _finish
        self._modalities: list[str] = []
        self._places_of: dict[str, np.ndarray] = {}
        self._as_arrays: tuple[np.ndarray, ...] = ()

    def export(self, path: str | os.PathLike[str], modality: str, only: str | None = None) -> None:
        """Write an ``IndexPreTransform`` that any FAISS program loads and searches as it is.

        Its queries are raw vectors of ``modality``: the query map is inside the file, and the
        documents are stored corrected. It answers with the ids where they are whole numbers and
        no two documents share one, else with the documents' places in the order written. Where
        each modality has a graph of its own, ``only`` says whose documents to write.
        """
        faiss = self._faiss
        vector, modality = self.vector_for(modality)
        if not self._indexes:
            raise InputValueError(f"{self.place} holds no documents to export.")
        if (only is None) == (self.graphs == "each"):
            others = " by score; or build it with one_graph=True"
            if any(one.background is not None for one in self._given):
                others = " (modgap.search.merge, with correction.background)"
            raise InputValueError(
                f"{self.place} has one FAISS index for each modality, and a file holds one: say "
                f"whose documents to export (only={self.names[0]!r}), export each, and merge what "
                f"they find{others}."
                if only is None
                else f"{self.place} holds all modalities in one FAISS index. Leave only out."
            )
        self._finish()
        inner = whole = self._indexes[vector.name, only]
        ids = [self._ids[place] for place in self._places(only)]
        if not any(isinstance(i, str) for i in ids) and len(set(ids)) == len(ids):
            # FAISS wants to add through the map; here the vectors are there before it.
            empty = faiss.IndexFlat(vector.dim, inner.metric_type)
            inner = faiss.IndexIDMap(empty)
            inner.index, inner.ntotal = whole, whole.ntotal
            faiss.copy_array_to_vector(np.array(ids, dtype=np.int64), inner.id_map)
        whole = faiss.IndexPreTransform(inner)
        for step in reversed(query_transforms(vector, modality)):
            whole.prepend_transform(step)
        with atomic_path(path) as temporary:
            write_indexes(temporary, [whole])

    def _lock(self) -> None:
        for path in (self.path, self._table):
            file_to_write(path)
        self._resources.enter_context(sole_writer_of(self.path))

    def _load_note(self) -> Note | None:
        if not self.path.exists():
            return None
        if not self._table.exists():
            return {}
        header, tensors = read_tensors(self._table, _KIND)
        found = file_fingerprint(self.path)
        if header.get("index_file") != found and self._next_table.exists():
            header, tensors = read_tensors(self._next_table, _KIND)
        note: Note = header["note"]
        if note["format"] != FORMAT:
            return note  # to be refused in words
        if header["index_file"] != found:
            return {}
        self._built_by = header["factory"]
        self._ids = tensors["ids"].tolist()
        if note["id_type"] == "str":
            self._ids = parse_json(tensors["ids"].tobytes(), f"The ids of {self._table}")
        self._modalities = [note["names"][code] for code in tensors["modality"]]
        self._places_of, self._as_arrays = {}, ()
        reader = self._faiss.FileIOReader(str(self.path))
        parts = [*indexes_of(note["vectors"], note["names"], note["graphs"])]
        self._indexes = {part: self._faiss.read_index(reader) for part in parts}
        held = [self._indexes[part].ntotal == len(self._places(part[1])) for part in parts]
        return note if all(held) else {}

    def _save_note(self, note: Note) -> None:
        if not note["finished"]:
            return  # what is on disk stays whole until the new file takes its place
        ids = np.frombuffer(json.dumps(self._ids).encode(), np.uint8)
        if note["id_type"] == "int":
            ids = np.array(self._ids, np.int64)
        codes = [note["names"].index(name) for name in self._modalities]
        tensors = {"ids": ids, "modality": np.array(codes, np.uint8)}
        assert self._note is not None
        parts = indexes_of(self._note["vectors"], self.names, self.graphs)
        with atomic_path(self.path) as vectors:
            write_indexes(vectors, [self._indexes[part] for part in parts])
            found = file_fingerprint(vectors)
            header = {"note": note, "index_file": found, "factory": self.factory}
            write_tensors(self._next_table, _KIND, tensors, header)
        self._next_table.replace(self._table)

    def _note_change(self, note: Note) -> None:
        pass  # it changes in memory, and so does what is on disk when it is finished

    def _new(self, dim: int) -> Any:
        for kind, number in re.findall(r"([A-Za-z]*)(\d+)", self.factory):
            most = _MOST.get(kind, _MOST["IVF"])
            if int(number) > most:
                raise InputValueError(
                    f"The factory {self.factory!r} would take all memory: {kind}{number} is more "
                    f"than {kind}{most}."
                )
        return self._faiss.index_factory(dim, self.factory, getattr(self._faiss, self._metric_name))

    def _builds_graphs(self) -> bool:
        # What each modality is searched for on its own has an index for each: filters are slow.
        return self._has_graphs() or any(one.background is not None for one in self._given)

    def _has_graphs(self) -> bool:
        held = [*self._indexes.values()] or [self._new(self._given[0].dim_out)]
        return isinstance(searched_index(held[0]), self._faiss.IndexHNSW)

    def _searches_graphs(self) -> bool:
        return True

    def _lifts(self) -> bool:
        # Codes of subspaces, and transforms before the graph, have their own idea of columns.
        built = self._faiss.downcast_index(self._new(self._given[0].dim_out))
        return isinstance(built, self._faiss.IndexHNSWFlat | self._faiss.IndexHNSWSQ)

    def _check_plan(self) -> None:
        self._check_options(self._new(next(iter(self.vectors.values())).dim))

    def _check_opened(self) -> None:
        self.factory = self._built_by
        self._check_options(next(iter(self._indexes.values())))

    def _make(self, note: Note, id_type: IdType) -> None:
        self._forget()
        for part in indexes_of(note["vectors"], self.names, self.graphs):
            self._indexes[part] = self._new(self.vectors[part[0]].dim)

    def _add(
        self, vectors: Mapping[str, np.ndarray], modality: str, ids: Sequence[Id], *, replace: bool
    ) -> None:
        if replace:
            self._remove(modality, ids)
        for name, given in vectors.items():
            part = (name, modality if self.graphs == "each" else None)
            rows = unit(given) if self.metric == "cosine" else given
            if self._indexes[part].is_trained:
                self._indexes[part].add(rows)
            else:
                self._waiting.setdefault(part, []).append(rows)
        self._ids += ids
        self._modalities += [modality] * len(ids)
        self._places_of.clear()
        self._as_arrays = ()

    def _remove(self, modality: str, ids: Sequence[Id]) -> None:
        gone = set(ids)
        for place in self._places(modality):
            if self._ids[place] in gone:
                self._ids[place] = None

    def _make_room(self, new: Sequence[str]) -> None:
        for part in indexes_of(self.vectors, self.names, self.graphs):
            if part not in self._indexes:
                self._indexes[part] = self._new(self.vectors[part[0]].dim)

    def _finish(self) -> None:
        for part, waiting in self._waiting.items():
            rows = np.concatenate(waiting)
            self._indexes[part].train(rows)
            self._indexes[part].add(rows)
        self._waiting.clear()
        kept = np.array([one is not None for one in self._ids], dtype=bool)
        if np.all(kept):
            return
        for part, index in self._indexes.items():
            keep_rows(index, kept[self._places(part[1])])
        self._ids = [one for one in self._ids if one is not None]
        self._modalities = [self._modalities[place] for place in np.flatnonzero(kept)]
        self._places_of.clear()
        self._as_arrays = ()

    def _known(self, modality: str, ids: Sequence[Id]) -> set[Id]:
        return {self._ids[place] for place in self._places(modality)} & set(ids)

    def _ids_of(self, modality: str) -> list[Id]:
        return [self._ids[place] for place in self._places(modality)]

    def _hits(
        self, vector: StoredVector, mapped: np.ndarray, k: int, only: str | None, *, exact: bool
    ) -> Hits:
        if self.graphs == "each" and only is None:
            return super()._hits(vector, mapped, k, only, exact=exact)
        # As arrays all the way: a batch of queries has very many hits.
        with self._one_sentence():
            scores, places = self._found(vector, mapped, k, only, exact)
        width = int(np.sum(places >= 0, axis=1).max(initial=0))
        scores, places = self._score(scores[:, :width].astype(np.float64)), places[:, :width]
        if not self._as_arrays:
            names = np.array(self._modalities, dtype=np.str_)
            self._as_arrays = np.array(self._ids, dtype=object), names
        ids, names = (held[places] for held in self._as_arrays)
        there = places >= 0
        if np.all(there):
            assert self._note is not None
            return Hits(ids.astype(self._note["id_type"]), scores, names)
        ids = np.where(there, ids, np.array(None))
        return Hits(ids, np.where(there, scores, -np.inf), np.where(there, names, ""))

    def _nearest(
        self, vector: StoredVector, queries: np.ndarray, k: int, only: str | None, exact: bool
    ) -> list[list[Hit]]:
        scores, places = self._found(vector, queries, k, only, exact)
        ids, names = self._ids, self._modalities
        return [
            [
                (ids[place], names[place], nearness)
                for nearness, place in zip(*line, strict=True)
                if place >= 0
            ]
            for line in zip(scores.tolist(), places.tolist(), strict=True)
        ]

    def _found(
        self, vector: StoredVector, queries: np.ndarray, k: int, only: str | None, exact: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        """Nearness and places in the lists of ids and modalities, −1 where one is missing."""
        self._finish()
        queries = unit(queries) if self.metric == "cosine" else queries
        part = only if self.graphs == "each" else None
        index = self._indexes[vector.name, part]
        if index.ntotal == 0:
            return np.empty((len(queries), 0)), np.empty((len(queries), 0), dtype=np.int64)
        wanted = None if part else only
        if exact and self.graphs == "one":
            stored = self._faiss.downcast_index(searched_index(index).storage)
            parameters = self._faiss.SearchParameters(**self._selected(wanted))
            scores, places = stored.search(queries, k, params=parameters)
        else:
            parameters = self._parameters(index, vector, wanted)
            scores, places = index.search(queries, k, params=parameters)
        if part is not None:  # a place that is missing stays below zero
            places = np.where(places < 0, -1, self._places(part)[places])
        return scores, places

    def _places(self, only: str | None) -> np.ndarray:
        """Where the documents of a FAISS index stand in the lists of ids and modalities."""
        if only is None:
            return np.arange(len(self._ids))
        if only not in self._places_of:
            held = [place for place, name in enumerate(self._modalities) if name == only]
            self._places_of[only] = np.array(held, dtype=np.int64)
        return self._places_of[only]

    def _check_options(self, index: Any) -> None:
        faiss, searched = self._faiss, searched_index(index)
        given = {"ef_search": self.ef_search, "nprobe": self.nprobe, "one_graph": self.one_graph}
        kinds = {"nprobe": faiss.IndexIVF}
        for option, value in given.items():
            kind = kinds.get(option, faiss.IndexHNSW)
            if value and not isinstance(searched, kind):
                raise InputValueError(
                    f"{option} is an option of {kind.__name__}, but {self.place} is an "
                    f"{type(searched).__name__}. Leave {option} out."
                )

    def _selected(self, only: str | None) -> dict[str, Any]:
        """A filter in FAISS's words; nothing where nothing is asked."""
        if only is None:
            return {}
        mask = np.array([name == only for name in self._modalities])
        return {"sel": self._faiss.IDSelectorBitmap(np.packbits(mask, bitorder="little"))}

    def _parameters(self, index: Any, vector: StoredVector, only: str | None) -> Any:
        """Filter, ef_search and nprobe in FAISS's words; None where nothing is asked."""
        faiss, searched = self._faiss, searched_index(index)
        given = self._selected(only)
        if isinstance(searched, faiss.IndexHNSW):
            ef_search = self.ef_search or vector.ef_search
            parameters = faiss.SearchParametersHNSW(efSearch=ef_search, **given)
        elif isinstance(searched, faiss.IndexIVF):
            nprobe = self.nprobe or searched.nprobe
            parameters = faiss.SearchParametersIVF(nprobe=nprobe, **given)
        else:
            return faiss.SearchParameters(**given) if given else None
        if isinstance(faiss.downcast_index(index), faiss.IndexPreTransform):
            return faiss.SearchParametersPreTransform(index_params=parameters)
        return parameters

    def _count(self, only: str | None) -> int:
        return sum(self._ids[place] is not None for place in self._places(only))

    def _make_way(self) -> None:
        self._forget()  # the file stays until the new one takes its place

    def _drop(self) -> None:
        self.path.unlink(missing_ok=True)
        self._table.unlink(missing_ok=True)
        self._next_table.unlink(missing_ok=True)
        self._forget()
