"""What the adapters share: a correction of an encoder's vectors, and the metric of their store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

from modgap.core.checks import InputTypeError, InputValueError
from modgap.corrections import METRIC_NAMES, Correction, Metric, check_recognised, label
from modgap.corrections.recognition import MIN_ROWS
from modgap.search.scores import ranks_alike

Store = TypeVar("Store")
# How stores spell their metrics, in small letters.
_SPELLINGS: dict[str, Metric] = {
    "cosine": "cosine",
    "ip": "inner_product",
    "dot": "inner_product",
    "dot_product": "inner_product",
    "inner_product": "inner_product",
    "max_inner_product": "inner_product",
    "l2": "euclidean",
    "euclid": "euclidean",
    "euclidean": "euclidean",
    "euclidean_distance": "euclidean",
}
_SETTINGS = ("distance", "distance_strategy", "_distance_strategy")


class VectorCorrection:
    """Corrects vectors as an encoder gives them, and says which metric their store must use.

    Parameters
    ----------
    correction : Correction
        One whose vectors can be compared across modalities, as those of ``Calibrate`` can.
    trust_rows : bool
        Warn of documents of another model or modality where they would be refused.
    """

    def __init__(self, correction: Correction, *, trust_rows: bool = False) -> None:
        check_comparable(correction)
        self.correction, self._trust_rows = correction, trust_rows
        # Documents come in small batches, too few to tell whose they are.
        self._unjudged: dict[str, list[np.ndarray]] = {}

    @property
    def metric(self) -> Metric:
        """What the store must rank by."""
        return self.correction.metric

    def documents(self, vectors: Sequence[Any], modality: str) -> np.ndarray:
        """Corrected vectors (n, d) of documents; 20 or more of another model are refused."""
        if len(vectors) == 0:
            return np.empty((0, self.correction.dim_out), np.float32)
        rows = _matrix(vectors, modality)
        if rows.ndim == 2 and rows.shape[1] == self.correction.dim_in:
            self._recognise(rows, modality)
        return np.asarray(self.correction.apply(rows, modality))

    def _recognise(self, rows: np.ndarray, modality: str) -> None:
        """Judge the rows with those before them, once they are enough."""
        waiting = [*self._unjudged.pop(modality, []), rows]
        if sum(map(len, waiting)) < MIN_ROWS:
            self._unjudged[modality] = waiting
            return
        batch = np.concatenate(waiting)
        check_recognised(self.correction, batch, modality, trust_rows=self._trust_rows)

    def queries(self, vectors: Sequence[Any], modality: str) -> np.ndarray:
        """Corrected vectors (n, d) of queries."""
        if len(vectors) == 0:
            return np.empty((0, self.correction.dim_out), np.float32)
        rows = _matrix(vectors, modality)
        return np.asarray(self.correction.apply(rows, modality, "query"))

    def check_store(self, store: Store, metric: Metric | None = None) -> Store:
        """The store itself; refused where its settings say another metric.

        ``metric`` is that of a store which has no such setting.
        """
        found = metric or metric_of_store(store)
        if found not in (None, self.metric) and not ranks_alike(self.correction):
            raise InputValueError(
                f"The store must rank by {METRIC_NAMES[self.metric]}, and this "
                f"{type(store).__name__} ranks by {METRIC_NAMES[found]}, which undoes the "
                "correction. Make one with that metric."
            )
        return store


def check_comparable(correction: Correction) -> None:
    """Refuse a correction whose scores cannot be compared across modalities in one store."""
    if not isinstance(correction, Correction):
        raise InputTypeError(
            f"correction must be a Correction, got {type(correction).__name__}. Open one with "
            "Correction.load or Correction.from_pretrained."
        )
    if correction.background is not None:
        raise InputValueError(
            f"{label(correction)} merges modalities by expected wrong results, which one store of "
            "vectors cannot. Fit one for vectors (modgap fit, or Calibrate() in Python), or merge "
            "lists (modgap export)."
        )


def _matrix(vectors: Sequence[Any], modality: str) -> np.ndarray:
    """Vectors as an encoder gives them, in single precision."""
    try:
        with np.errstate(over="ignore"):  # infinity is refused with the row that has it
            return np.asarray(vectors, dtype=np.float32)
    except (ValueError, TypeError) as error:
        raise InputValueError(
            f"The encoder must give as many numbers for each {modality} item ({error})."
        ) from error


def metric_of_store(store: Any) -> Metric | None:
    """The metric that the settings of a vector store name; None where they name none."""
    # Chroma's own collections, and those inside the stores of LangChain and LlamaIndex.
    configuration = getattr(getattr(store, "_collection", store), "configuration", None)
    if isinstance(configuration, dict):
        spaces = [(configuration.get(kind) or {}).get("space") for kind in ("hnsw", "spann")]
        return next((_SPELLINGS.get(space) for space in spaces if space), None)
    for name in _SETTINGS:
        value = getattr(store, name, None)
        said = getattr(value, "value", value)  # of an enumeration
        if isinstance(said, str) and said.lower() in _SPELLINGS:
            return _SPELLINGS[said.lower()]
    return None
