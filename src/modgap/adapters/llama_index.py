"""A correction inside LlamaIndex: an embedding around any other."""

from __future__ import annotations

from typing import Any

from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.embeddings import MultiModalEmbedding
from llama_index.core.vector_stores import SimpleVectorStore

from modgap.adapters.vectors import Store, VectorCorrection
from modgap.core.checks import InputTypeError
from modgap.corrections import Correction, Metric, one_query_modality


class LlamaIndexEmbedding(MultiModalEmbedding):
    """Corrected vectors of another embedding, of texts and, where it embeds them, of images.

    The store must rank by ``metric``: ``check_store(store)`` refuses one that says otherwise, and
    LlamaIndex's own ``SimpleVectorStore``, which ranks by cosine.

    Parameters
    ----------
    embedding : BaseEmbedding
        What embeds; a ``MultiModalEmbedding`` for images.
    correction : Correction
        Fitted on vectors of the same model.
    queries : str, optional
        The modality of the queries, where the correction serves several.
    trust_rows : bool
        Warn of documents of another model or modality where they would be refused.
    """

    _inner: BaseEmbedding = PrivateAttr()
    _vectors: VectorCorrection = PrivateAttr()
    _asking: str = PrivateAttr()

    def __init__(
        self,
        embedding: BaseEmbedding,
        correction: Correction,
        queries: str | None = None,
        *,
        trust_rows: bool = False,
    ) -> None:
        super().__init__(
            model_name=embedding.model_name, embed_batch_size=embedding.embed_batch_size
        )
        self._inner = embedding
        self._vectors = VectorCorrection(correction, trust_rows=trust_rows)
        self._asking = one_query_modality(queries, correction)

    @classmethod
    def class_name(cls) -> str:
        """The name that LlamaIndex logs."""
        return "LlamaIndexEmbedding"

    @property
    def metric(self) -> Metric:
        """What the store must rank by."""
        return self._vectors.metric

    def check_store(self, store: Store) -> Store:
        """The store itself, or an index, refused where it ranks by another metric."""
        held = getattr(store, "vector_store", store)
        self._vectors.check_store(held, "cosine" if isinstance(held, SimpleVectorStore) else None)
        return store

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._query(self._inner.get_query_embedding(query))

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._query(await self._inner.aget_query_embedding(query))

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._get_text_embeddings([text])[0]

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        found = self._inner.get_text_embedding_batch(texts)
        return self._vectors.documents(found, "text").tolist()

    async def _aget_text_embedding(self, text: str) -> list[float]:
        return (await self._aget_text_embeddings([text]))[0]

    async def _aget_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        found = await self._inner.aget_text_embedding_batch(texts)
        return self._vectors.documents(found, "text").tolist()

    def _get_image_embedding(self, img_file_path: Any) -> list[float]:
        return self._get_image_embeddings([img_file_path])[0]

    def _get_image_embeddings(self, img_file_paths: list[Any]) -> list[list[float]]:
        found = self._of_images().get_image_embedding_batch(img_file_paths)
        return self._vectors.documents(found, "image").tolist()

    async def _aget_image_embedding(self, img_file_path: Any) -> list[float]:
        found = await self._of_images().aget_image_embedding(img_file_path)
        return self._vectors.documents([found], "image")[0].tolist()

    def _of_images(self) -> MultiModalEmbedding:
        if not isinstance(self._inner, MultiModalEmbedding):
            raise InputTypeError(
                f"{type(self._inner).__name__} embeds no images: it is no MultiModalEmbedding."
            )
        return self._inner

    def _query(self, vector: list[float]) -> list[float]:
        return self._vectors.queries([vector], self._asking)[0].tolist()
