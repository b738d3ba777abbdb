"""The examples that are services or pages, as people run them."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

import modgap
from command_line import script
from modgap.corrections import ExpectedWrong
from modgap.embed import CallableModel
from modgap.index import open_index

EXAMPLES = Path(__file__).parents[1] / "examples"


def test_photo_search_answers_from_postgres(tmp_path, monkeypatch):
    pytest.importorskip("fastapi", reason="fastapi is not installed")
    from fastapi.testclient import TestClient

    from index_services import postgres_url

    spec = importlib.util.spec_from_file_location("photo_search", EXAMPLES / "photo_search.py")
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    digits = modgap.load_digits()
    images, texts = digits.X[:300], digits.Y[digits.wording == 0][:300]
    correction = ExpectedWrong().fit(images, texts).correction_
    place = {"table": "photo_search"}
    address = postgres_url()
    with open_index(address, correction, create=True, replace=True, **place) as index:
        index.write(images, "image", ids=[f"photo {row}" for row in range(300)])
        index.write(texts, "text", ids=[f"caption {row}" for row in range(300)])
        index.finish()
        expected = index.search(digits.Y[[7]], "text", k=5)
    # The captions of the digits have their rows; the model looks them up.
    rows = dict(zip(digits.captions, digits.Y, strict=True))
    model = CallableModel(
        images=lambda images: np.zeros((len(images), 64)),
        texts=lambda asked: np.stack([rows.get(text, digits.Y.mean(axis=0)) for text in asked]),
    )
    with TestClient(example.make_app(address, correction, model, **place)) as client:
        found = client.get("/search", params={"text": digits.captions[7], "k": 5}).json()
        assert [hit["id"] for hit in found["results"]] == list(expected.ids[0])
        assert {hit["modality"] for hit in found["results"]} == {"image", "text"}
        assert found["results"][0]["expected_wrong"] == pytest.approx(
            float(expected.expected_wrong[0, 0]), rel=1e-3
        )
        cut = client.get("/search", params={"text": "nothing that is there", "at_most": 0.5}).json()
        assert cut == {"results": [], "nothing_found": True}
        assert client.get("/search", params={"text": ""}).status_code == 422
        assert client.get("/search", params={"text": "a", "k": 0}).status_code == 422


def test_a_space_is_a_card_and_a_page(tmp_path):
    digits = modgap.load_digits()
    np.save(tmp_path / "image.npy", digits.X[:150])
    np.save(tmp_path / "text.npy", digits.Y[digits.wording == 0][:150])
    space = tmp_path / "space"
    script(EXAMPLES / "make_space.py", space, tmp_path / "image.npy", tmp_path / "text.npy")
    card = (space / "README.md").read_text(encoding="utf-8")
    assert card.startswith("---\ntitle: ")
    assert "\nsdk: static\napp_file: index.html\n" in card
    page = (space / "index.html").read_text(encoding="utf-8")
    assert 'src="http' not in page
    assert "modgap/report/" in page
