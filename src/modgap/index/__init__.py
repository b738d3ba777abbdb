"""One index for both modalities: a correction inside FAISS and the databases people have.

`open_index` chooses by address; each database is one file and one extra. Names are resolved when
first used, so that no database's library is looked for before it is needed.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from modgap.correct.hits import Hits
from modgap.index.base import VectorIndex
from modgap.index.opening import open_index
from modgap.index.recall import IndexEvaluation, evaluate_index, exact_search

if TYPE_CHECKING:
    from modgap.index.faiss_index import FaissIndex
    from modgap.index.hnsw import hnsw_recall, lift_documents, lift_queries
    from modgap.index.lance import LanceIndex
    from modgap.index.milvus import MilvusIndex
    from modgap.index.pgvector import PgvectorIndex
    from modgap.index.pgvector_column import add_column, drop_column
    from modgap.index.qdrant import QdrantIndex
    from modgap.index.quantised import QuantisedIndex
    from modgap.index.quantised_gap import close_quantised_gap
    from modgap.index.quantised_recall import recall_retained

_HOME = {
    "FaissIndex": "faiss_index",
    "LanceIndex": "lance",
    "MilvusIndex": "milvus",
    "PgvectorIndex": "pgvector",
    "QdrantIndex": "qdrant",
    "QuantisedIndex": "quantised",
    "add_column": "pgvector_column",
    "close_quantised_gap": "quantised_gap",
    "drop_column": "pgvector_column",
    "hnsw_recall": "hnsw",
    "lift_documents": "hnsw",
    "lift_queries": "hnsw",
    "recall_retained": "quantised_recall",
}

__all__ = [
    "FaissIndex",
    "Hits",
    "IndexEvaluation",
    "LanceIndex",
    "MilvusIndex",
    "PgvectorIndex",
    "QdrantIndex",
    "QuantisedIndex",
    "VectorIndex",
    "add_column",
    "close_quantised_gap",
    "drop_column",
    "evaluate_index",
    "exact_search",
    "hnsw_recall",
    "lift_documents",
    "lift_queries",
    "open_index",
    "recall_retained",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'modgap.index' has no attribute {name!r}")
    return getattr(importlib.import_module(f"modgap.index.{_HOME[name]}"), name)
