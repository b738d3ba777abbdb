"""A correction inside LangChain: ``Embeddings`` around any other."""

from __future__ import annotations

from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import InMemoryVectorStore

from modgap.adapters.vectors import Store, VectorCorrection
from modgap.core.checks import InputTypeError, check_choice
from modgap.corrections import Correction, Metric, one_query_modality


class LangChainEmbeddings(Embeddings):
    """Corrected vectors of another ``Embeddings``; any store then holds all modalities.

    The store must rank by ``metric``: ``check_store(store)`` refuses one that says otherwise.

    Parameters
    ----------
    embeddings : Embeddings
        What embeds: for documents of another modality than text, one whose ``embed_documents``
        takes their paths, or that has ``embed_image``.
    correction : Correction
        Fitted on vectors of the same model.
    modality : str
        Of what ``embed_documents`` gets.
    queries : str, optional
        The modality of what ``embed_query`` gets, where the correction serves several.
    trust_rows : bool
        Warn of documents of another model or modality where they would be refused.
    """

    def __init__(
        self,
        embeddings: Embeddings,
        correction: Correction,
        modality: str = "text",
        queries: str | None = None,
        *,
        trust_rows: bool = False,
    ) -> None:
        self.embeddings = embeddings
        self._vectors = VectorCorrection(correction, trust_rows=trust_rows)
        self._modality = check_choice(modality, "modality", correction.names)
        self._asking = one_query_modality(queries, correction)

    @property
    def metric(self) -> Metric:
        """What the store must rank by."""
        return self._vectors.metric

    def check_store(self, store: Store) -> Store:
        """The store itself, refused where it ranks by another metric."""
        in_memory = isinstance(store, InMemoryVectorStore)
        return self._vectors.check_store(store, "cosine" if in_memory else None)

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Corrected vectors of documents."""
        found = self.embeddings.embed_documents(texts)
        return self._vectors.documents(found, self._modality).tolist()

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        """Corrected vectors of documents."""
        found = await self.embeddings.aembed_documents(texts)
        return self._vectors.documents(found, self._modality).tolist()

    def embed_query(self, text: str) -> list[float]:
        """The corrected vector of a query."""
        return self._query(self.embeddings.embed_query(text))

    async def aembed_query(self, text: str) -> list[float]:
        """The corrected vector of a query."""
        return self._query(await self.embeddings.aembed_query(text))

    def embed_image(self, uris: list[str]) -> list[list[float]]:
        """Corrected vectors of images, which LangChain's Chroma asks for in ``add_images``."""
        if not hasattr(self.embeddings, "embed_image"):
            raise InputTypeError(
                f"{type(self.embeddings).__name__} embeds no images: it has no embed_image."
            )
        return self._vectors.documents(self.embeddings.embed_image(uris), "image").tolist()

    def _query(self, vector: list[float]) -> list[float]:
        return self._vectors.queries([vector], self._asking)[0].tolist()
