from .chroma import ChromaEmbeddingFunction
from .langchain import LangChainEmbeddings
from .llama_index import LlamaIndexEmbedding
from .mteb import MtebEncoder
from .mteb_report import MtebPair, MtebReport
from .sentence_transformers import append_correction
from .vectors import VectorCorrection

__all__ = [
    "ChromaEmbeddingFunction",
    "LangChainEmbeddings",
    "LlamaIndexEmbedding",
    "MtebEncoder",
    "MtebPair",
    "MtebReport",
    "VectorCorrection",
    "append_correction",
]
