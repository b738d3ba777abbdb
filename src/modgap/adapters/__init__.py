"""A correction at the encoder: sentence-transformers, LangChain, LlamaIndex, Chroma and mteb."""

from modgap.core.lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    __file__,
    needs={
        "chromadb": ("chroma", "ChromaEmbeddingFunction"),
        "langchain_core": ("langchain", "LangChainEmbeddings"),
        "llama_index": ("llama-index", "LlamaIndexEmbedding"),
        "mteb": ("mteb", "MtebEncoder"),
        "sentence_transformers": ("st", "append_correction"),
    },
)
