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
    from modgap.index.lance import LanceIndex
    from modgap.index.milvus import MilvusIndex
    from modgap.index.pgvector import PgvectorIndex
    from modgap.index.pgvector_column import add_column, drop_column
    from modgap.index.qdrant import QdrantIndex

_HOME = {
    "FaissIndex": "faiss_index",
    "LanceIndex": "lance",
    "MilvusIndex": "milvus",
    "PgvectorIndex": "pgvector",
    "QdrantIndex": "qdrant",
    "add_column": "pgvector_column",
    "drop_column": "pgvector_column",
}

__all__ = [
    "FaissIndex",
    "Hits",
    "IndexEvaluation",
    "LanceIndex",
    "MilvusIndex",
    "PgvectorIndex",
    "QdrantIndex",
    "VectorIndex",
    "add_column",
    "drop_column",
    "evaluate_index",
    "exact_search",
    "open_index",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'modgap.index' has no attribute {name!r}")
    return getattr(importlib.import_module(f"modgap.index.{_HOME[name]}"), name)
