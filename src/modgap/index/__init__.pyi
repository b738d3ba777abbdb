from .base import VectorIndex
from .faiss_index import FaissIndex
from .hnsw import hnsw_recall, lift_documents, lift_queries
from .lance import LanceIndex
from .milvus import MilvusIndex
from .opening import open_index
from .pgvector import PgvectorIndex
from .pgvector_column import add_column, drop_column
from .qdrant import QdrantIndex
from .quantised import QuantisedIndex
from .quantised_gap import close_quantised_gap
from .quantised_recall import recall_retained
from .recall import IndexEvaluation, evaluate_index

__all__ = [
    "FaissIndex",
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
    "hnsw_recall",
    "lift_documents",
    "lift_queries",
    "open_index",
    "recall_retained",
]
