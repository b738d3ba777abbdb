"""Answers from photos and captions: retrieval with LangChain and Chroma, corrected.

    python examples/image_rag.py PHOTOS CORRECTION "which animals are on the beach?"

It needs pip install 'modgap[st,langchain,chroma]' langchain-chroma. PHOTOS is a folder of images,
each with a text file of its name beside it; CORRECTION comes from `modgap fit` on embeddings of the
same model. Without the correction the context would hold captions only.
"""

from __future__ import annotations

import base64
import sys
from pathlib import Path
from typing import Any

from langchain_chroma import Chroma
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.messages import HumanMessage

from modgap import Correction
from modgap.adapters import LangChainEmbeddings
from modgap.io.images import unpack_image

MODEL = "clip-ViT-B-32"
INSTRUCTION = "Answer from these photos and captions alone."


class Clip(Embeddings):
    """A CLIP of sentence-transformers as LangChain wants it."""

    def __init__(self) -> None:
        from sentence_transformers import SentenceTransformer

        self.model = SentenceTransformer(MODEL)

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Vectors of captions."""
        return self.model.encode(texts).tolist()

    def embed_query(self, text: str) -> list[float]:
        """The vector of a question."""
        return self.model.encode(text).tolist()

    def embed_image(self, uris: list[str]) -> list[list[float]]:
        """Vectors of photos."""
        return self.model.encode([unpack_image(Path(uri).read_bytes()) for uri in uris]).tolist()


def build(photos: Path, model: Embeddings, correction: Correction) -> Chroma:
    """A store of all photos and captions, ranked by inner product."""
    embeddings = LangChainEmbeddings(model, correction)
    store = Chroma("photos", embeddings, collection_metadata={"hnsw:space": "ip"})
    embeddings.check_store(store)
    images = sorted(path for path in photos.iterdir() if path.suffix in (".jpg", ".png"))
    store.add_images([str(path) for path in images], metadatas=[{"photo": str(p)} for p in images])
    captions = [path.with_suffix(".txt") for path in images if path.with_suffix(".txt").exists()]
    store.add_texts([path.read_text(encoding="utf-8") for path in captions])
    return store


def message(question: str, found: list[Document]) -> HumanMessage:
    """The question with what was found: captions as text, photos as pictures."""
    parts: list[Any] = [{"type": "text", "text": f"{INSTRUCTION}\n\n{question}"}]
    for document in found:
        if photo := document.metadata.get("photo"):
            data = base64.b64encode(Path(photo).read_bytes()).decode()
            mime = "image/png" if photo.endswith(".png") else "image/jpeg"
            parts.append({"type": "image", "base64": data, "mime_type": mime})
        else:
            parts.append({"type": "text", "text": document.page_content})
    return HumanMessage(content=parts)


def answer(question: str, store: Chroma, chat: Any, k: int = 6) -> str:
    """What a chat model of LangChain that sees pictures says."""
    found = store.similarity_search(question, k=k)
    return str(chat.invoke([message(question, found)]).content)


def main() -> None:
    """Print what would be sent to a chat model: pass yours to `answer`."""
    photos, correction, question = sys.argv[1:]
    store = build(Path(photos), Clip(), Correction.load(correction))
    for document in store.similarity_search(question, k=6):
        print(document.metadata.get("photo") or document.page_content)


if __name__ == "__main__":
    main()
