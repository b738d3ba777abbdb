"""Models of other libraries' own interfaces that know the rows of items by their numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Items:
    """Raw rows of documents by modality and of queries, and the items that stand for them."""

    documents: Mapping[str, np.ndarray]
    queries: np.ndarray

    def texts(self) -> list[str]:
        return [f"text {place}" for place in range(len(self.documents["text"]))]

    def asked(self) -> list[str]:
        return [f"query {place}" for place in range(len(self.queries))]

    def paths(self) -> list[str]:
        return [f"image {place}" for place in range(len(self.documents["image"]))]

    def pictures(self) -> list[np.ndarray]:
        """An image for each row, whose pixels are its number."""
        return [np.full((4, 4, 3), place, np.uint8) for place in range(len(self.paths()))]

    def row(self, item: Any) -> np.ndarray:
        if not isinstance(item, str):
            return self.documents["image"][int(np.asarray(item).flat[0])]
        kind, _, place = item.partition(" ")
        rows = self.queries if kind == "query" else self.documents[kind]
        return rows[int(place)]


def langchain_model(items: Items) -> Any:
    from langchain_core.embeddings import Embeddings

    class Rows(Embeddings):
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            return [items.row(text).tolist() for text in texts]

        def embed_query(self, text: str) -> list[float]:
            return items.row(text).tolist()

        def embed_image(self, uris: list[str]) -> list[list[float]]:
            return self.embed_documents(uris)

    return Rows()


def llama_index_model(items: Items) -> Any:
    from llama_index.core.embeddings import MultiModalEmbedding

    class Rows(MultiModalEmbedding):
        def _get_text_embedding(self, text: Any) -> list[float]:
            return items.row(text).tolist()

        async def _aget(self, item: Any) -> list[float]:
            return items.row(item).tolist()

        _get_query_embedding = _get_image_embedding = _get_text_embedding
        _aget_query_embedding = _aget_text_embedding = _aget_image_embedding = _aget

    return Rows()


def chroma_model(items: Items) -> Any:
    from chromadb.api.types import EmbeddingFunction

    class Rows(EmbeddingFunction):
        def __init__(self) -> None:
            pass

        def __call__(self, input: Any) -> Any:  # noqa: A002
            return [items.row(item).astype(np.float32) for item in input]

        @staticmethod
        def name() -> str:
            return "rows"

        def get_config(self) -> dict[str, Any]:
            return {}

        @staticmethod
        def build_from_config(config: dict[str, Any]) -> Any:
            return Rows()

    return Rows()


def sentence_transformers_model(items: Items) -> Any:
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import InputModule

    class Rows(InputModule):
        modalities = ("text", "image")

        def preprocess(self, inputs: list[Any], prompt: Any = None, **more: Any) -> dict[str, Any]:
            rows = torch.tensor(np.array([items.row(item) for item in inputs]))
            modality = "text" if isinstance(inputs[0], str) else "image"
            return {"sentence_embedding": rows.float(), "modality": modality}

        def forward(self, features: dict[str, Any], **more: Any) -> dict[str, Any]:
            return features

        def get_embedding_dimension(self) -> int:
            return int(items.queries.shape[1])

        def save(self, output_path: str, **more: Any) -> None:
            raise NotImplementedError

    return SentenceTransformer(modules=[Rows()], device="cpu")
