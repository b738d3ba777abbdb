from .chroma import ChromaEmbeddingFunction
from .langchain import LangChainEmbeddings
from .llama_index import LlamaIndexEmbedding
from .sentence_transformers import append_correction
from .vectors import VectorCorrection

__all__ = [
    "ChromaEmbeddingFunction",
    "LangChainEmbeddings",
    "LlamaIndexEmbedding",
    "VectorCorrection",
    "append_correction",
]
