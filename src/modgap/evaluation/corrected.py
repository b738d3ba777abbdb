"""Documents and queries after a correction, each mapped once however often they are searched."""

from __future__ import annotations

from collections.abc import Mapping

from modgap._validate import Array
from modgap.corrections import Correction, Metric
from modgap.io import Modalities


class Corrected:
    """The rows of some modalities after a correction; without one, as they are.

    What is mapped is kept for as long as this is. ``documents`` and ``queries`` are those that are
    mapped already, by the name of their modality.
    """

    def __init__(
        self,
        data: Modalities,
        correction: Correction | None = None,
        *,
        documents: Mapping[str, Array] | None = None,
        queries: Mapping[str, Array] | None = None,
    ) -> None:
        self.data, self.correction = data, correction
        self._documents, self._queries = dict(documents or {}), dict(queries or {})

    @property
    def metric(self) -> Metric:
        """What they are ranked by: cosine, unless the correction is meant for another metric."""
        return "cosine" if self.correction is None else self.correction.metric

    def documents(self, name: str) -> Array:
        """The documents of a modality."""
        if name not in self._documents:
            rows, correction = self.data.sides[name].rows(), self.correction
            if correction is not None:
                keys = self.data.keys_of(name) if correction.hubs else None
                rows = correction.apply(rows, name, keys=keys)
            self._documents[name] = rows
        return self._documents[name]

    def queries(self, name: str) -> Array:
        """The rows of a modality that ask."""
        if name not in self._queries:
            rows = self.data.queries_of(name).rows()
            if self.correction is not None:
                rows = self.correction.apply(rows, name, "query")
            self._queries[name] = rows
        return self._queries[name]
