from .addresses import open_index
from .base import VectorIndex
from .chroma import ChromaIndex
from .documents import open_documents
from .duckdb_index import DuckdbIndex
from .faiss_index import FaissIndex
from .generations import Generations, open_generations
from .graph_recall import LowRecallWarning
from .lance import LanceIndex
from .milvus import MilvusIndex
from .pgvector import PgvectorIndex, WrongOperatorsWarning
from .pgvector_column import add_column, drop_column
from .postgres import UncorrectedRowsWarning
from .qdrant import QdrantIndex
from .quantised import QuantisedIndex
from .recall import IndexEvaluation, evaluate_index
from .row_monitor import RowMonitor
from .sqlite_index import SqliteIndex

__all__ = [
    "ChromaIndex",
    "DuckdbIndex",
    "FaissIndex",
    "Generations",
    "IndexEvaluation",
    "LanceIndex",
    "LowRecallWarning",
    "MilvusIndex",
    "PgvectorIndex",
    "QdrantIndex",
    "QuantisedIndex",
    "RowMonitor",
    "SqliteIndex",
    "UncorrectedRowsWarning",
    "VectorIndex",
    "WrongOperatorsWarning",
    "add_column",
    "drop_column",
    "evaluate_index",
    "open_documents",
    "open_generations",
    "open_index",
]
