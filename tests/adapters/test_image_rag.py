"""The example of retrieval for a chat model: photos reach it, beside captions."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

import modgap

pytestmark = pytest.mark.integrations
for library in ("langchain_core", "langchain_chroma", "chromadb"):
    pytest.importorskip(library, reason=f"{library} is not installed")

EXAMPLE = Path(__file__).parents[2] / "examples" / "image_rag.py"


def test_photos_and_captions_reach_the_chat_model(tmp_path):
    from langchain_core.embeddings import Embeddings
    from langchain_core.language_models import FakeListChatModel
    from PIL import Image

    spec = importlib.util.spec_from_file_location("image_rag", EXAMPLE)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    digits = modgap.load_digits()
    images, texts = digits.X[:60], digits.Y[digits.wording == 0][:60]
    captions = digits.captions[:300:5]
    asked = digits.captions[16]  # of the fourth scan, in other words
    rows = dict(zip(captions, texts, strict=True)) | {asked: digits.Y[16]}
    for place in range(60):
        Image.fromarray(np.full((8, 8, 3), place, np.uint8)).save(tmp_path / f"{place:02}.png")
        (tmp_path / f"{place:02}.txt").write_text(captions[place], encoding="utf-8")

    class Rows(Embeddings):
        def embed_documents(self, texts):
            return [rows[text].tolist() for text in texts]

        def embed_query(self, text):
            return rows[text].tolist()

        def embed_image(self, uris):
            return [images[int(Path(uri).stem)].tolist() for uri in uris]

    correction = modgap.Calibrate().fit(images, texts).correction_
    store = example.build(tmp_path, Rows(), correction)
    chat = FakeListChatModel(responses=["a three"])
    assert example.answer(asked, store, chat) == "a three"
    found = store.similarity_search(asked, k=6)
    (content,) = [example.message(asked, found).content]
    kinds = [part["type"] for part in content[1:]]
    assert {*kinds} == {"image", "text"}
    photos = {document.metadata["photo"] for document in found if "photo" in document.metadata}
    assert str(tmp_path / "03.png") in photos
    assert asked in content[0]["text"]
