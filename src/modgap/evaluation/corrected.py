"""Documents and queries after a correction, each mapped once however often they are searched."""

from __future__ import annotations

from collections.abc import Mapping

from modgap._validate import Array
from modgap.corrections import Correction, Metric, Role
from modgap.io import Modalities


class Corrected:
    """The checked rows of some modalities after a correction; without one, as they are.

    ``metric`` is what they are ranked by: by default the one that the correction is meant for, else
    cosine. What is mapped is kept for as long as this is. ``documents`` and ``queries`` are those
    that are mapped already, by the name of their modality.
    """

    def __init__(
        self,
        data: Modalities,
        correction: Correction | None = None,
        metric: Metric | None = None,
        *,
        documents: Mapping[str, Array] | None = None,
        queries: Mapping[str, Array] | None = None,
    ) -> None:
        self.data, self.correction = data, correction
        self.metric = metric or ("cosine" if correction is None else correction.metric)
        self._documents, self._queries = dict(documents or {}), dict(queries or {})

    def documents(self, name: str) -> Array:
        """The documents of a modality."""
        if name not in self._documents:
            keys = self.data.keys_of(name) if self.correction and self.correction.hubs else None
            rows = self.data.sides[name].rows()
            self._documents[name] = self._mapped(rows, name, "document", keys)
        return self._documents[name]

    def queries(self, name: str) -> Array:
        """The rows of a modality that ask."""
        if name not in self._queries:
            rows = self.data.queries_of(name).rows()
            self._queries[name] = self._mapped(rows, name, "query")
        return self._queries[name]

    def _mapped(self, rows: Array, name: str, role: Role, keys: Array | None = None) -> Array:
        if self.correction is None:
            return rows
        row_map = self.correction.map(name, role)
        return row_map.mapped(rows, name, keys=keys, nonzero=self.metric == "cosine")
