"""A correction inside Chroma: an embedding function around any other, kept with the collection."""

from __future__ import annotations

import base64
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from chromadb.api.types import Embeddable, EmbeddingFunction, Embeddings, Space
from chromadb.utils.embedding_functions import (
    known_embedding_functions,
    register_embedding_function,
)

from modgap.adapters.vectors import Store, VectorCorrection
from modgap.core.checks import InputTypeError, InputValueError
from modgap.corrections import Correction, Metric
from modgap.corrections.files import CORRECTION_FILE, correction_bytes
from modgap.corrections.fingerprints import fingerprint

_SPACES: dict[Metric, Space] = {"cosine": "cosine", "inner_product": "ip", "euclidean": "l2"}


@register_embedding_function
class ChromaEmbeddingFunction(EmbeddingFunction[Embeddable]):
    """Corrected vectors of another embedding function: texts are "text", arrays are "image".

    A new collection ranks by ``metric`` where nothing else is said; ``check_store(collection)``
    refuses one that does not. The correction is kept in the collection's configuration, so that
    a collection opened again has it, once ``modgap.adapters.ChromaEmbeddingFunction`` was imported.

    Parameters
    ----------
    function : EmbeddingFunction
        What embeds.
    correction : Correction
        Fitted on vectors of the same model.
    trust_rows : bool
        Warn of documents of another model or modality where they would be refused.
    """

    def __init__(
        self,
        function: EmbeddingFunction[Any],
        correction: Correction,
        *,
        trust_rows: bool = False,
    ) -> None:
        self.function, self._trust_rows = function, trust_rows
        self._vectors = VectorCorrection(correction, trust_rows=trust_rows)
        # Of a function that it cannot build again, Chroma takes no metric either.
        if NotImplemented in (function.name(), function.get_config()):
            raise InputTypeError(
                f"{type(function).__name__} must have name, get_config and build_from_config, with "
                "which Chroma keeps it."
            )
        register_embedding_function(type(function))

    def __call__(self, input: Embeddable) -> Embeddings:  # noqa: A002 - Chroma's name
        """Corrected vectors of documents."""
        return self._corrected(input, self.function, self._vectors.documents)

    def embed_query(self, input: Embeddable) -> Embeddings:  # noqa: A002
        """Corrected vectors of queries."""
        return self._corrected(input, self.function.embed_query, self._vectors.queries)

    def _corrected(
        self,
        items: Embeddable,
        embed: Callable[[Any], Any],
        correct: Callable[[Any, str], np.ndarray],
    ) -> Embeddings:
        """The vectors of items, which may be texts and arrays at once."""
        modalities = ["text" if isinstance(item, str) else "image" for item in items]
        vectors: dict[int, np.ndarray] = {}
        for modality in dict.fromkeys(modalities):
            places = [place for place, one in enumerate(modalities) if one == modality]
            found = correct(embed([items[place] for place in places]), modality)
            vectors.update(zip(places, found.astype(np.float32), strict=True))
        return [vectors[place] for place in range(len(vectors))]

    @property
    def metric(self) -> Metric:
        """What a collection must rank by; Chroma calls it ``default_space()``."""
        return self._vectors.metric

    def check_store(self, store: Store) -> Store:
        """The collection itself, refused where its metric or its correction is another."""
        kept = getattr(store, "configuration", {}).get("embedding_function")
        if isinstance(kept, ChromaEmbeddingFunction):
            corrections = [one._vectors.correction for one in (kept, self)]
            if len({*map(fingerprint, corrections)}) > 1:
                raise InputValueError(
                    "The documents of this collection were corrected by another correction. Use "
                    "the collection's own: client.get_collection(name)."
                )
        return self._vectors.check_store(store)

    @staticmethod
    def name() -> str:
        """The name that Chroma registers it by."""
        return "modgap"

    def default_space(self) -> Space:
        """The metric in Chroma's letters."""
        return _SPACES[self.metric]

    def supported_spaces(self) -> list[Space]:
        """That one only; Chroma warns of others."""
        return [self.default_space()]

    def is_legacy(self) -> bool:
        """Never; Chroma would build the function that embeds once more to find out."""
        return False

    def get_config(self) -> dict[str, Any]:
        """The function that embeds, and the correction's file."""
        return {
            "function": self.function.name(),
            "config": self.function.get_config(),
            "correction": base64.b64encode(correction_bytes(self._vectors.correction)).decode(),
            "trust_rows": self._trust_rows,
        }

    @staticmethod
    def build_from_config(config: dict[str, Any]) -> ChromaEmbeddingFunction:
        """What ``get_config`` described."""
        known = known_embedding_functions.get(config["function"])
        if known is None:
            raise InputValueError(
                f"Chroma does not know the embedding function {config['function']!r}. Import it, "
                "or register it (register_embedding_function)."
            )
        function = known.build_from_config(config["config"])
        with tempfile.TemporaryDirectory(prefix="modgap-") as folder:
            path = Path(folder) / CORRECTION_FILE
            path.write_bytes(base64.b64decode(config["correction"]))
            correction = Correction.load(path)
        return ChromaEmbeddingFunction(function, correction, trust_rows=config["trust_rows"])
