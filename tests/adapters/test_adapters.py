"""A correction inside the released libraries: saved, opened again, stored, and refused."""

from __future__ import annotations

import asyncio
import pickle
import subprocess
import sys

import numpy as np
import pytest

from embedders import TEXTS, pictures, write_model
from exported import calibrated_case
from modgap import Calibrate, Correction
from modgap.core.checks import InputTypeError, InputValueError
from modgap.corrections import Affine, Center, ExpectedWrong, RecognitionWarning, open_preset
from modgap.search import search_corrected
from row_models import (
    Items,
    chroma_model,
    langchain_model,
    llama_index_model,
    sentence_transformers_model,
)

pytestmark = pytest.mark.integrations
for library in ("langchain_core", "llama_index", "chromadb", "sentence_transformers"):
    pytest.importorskip(library, reason=f"{library} is not installed")

from modgap.adapters import (  # noqa: E402
    ChromaEmbeddingFunction,
    LangChainEmbeddings,
    LlamaIndexEmbedding,
    append_correction,
)


@pytest.fixture(scope="module")
def case():
    return calibrated_case(3, 60, 12, "single", True, 10, ("image", "text"))


@pytest.fixture(scope="module")
def items(case):
    return Items(case.documents, case.queries)


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    """The folder of a tiny CLIP of random weights."""
    return str(write_model(tmp_path_factory.mktemp("models") / "clip", "clip"))


@pytest.fixture(scope="module")
def wanted(case):
    """The ten nearest documents of the first query, and their scores, by modgap's search."""
    stored = {name: case.correction.apply(rows, name) for name, rows in case.documents.items()}
    hits = search_corrected(case.correction, case.queries[:1], stored, 10)
    ids = [f"{name} {place}" for name, place in zip(hits.modalities[0], hits.ids[0], strict=True)]
    return ids, hits.scores[0].astype(float)


def test_a_saved_model_gives_corrected_vectors_where_there_is_no_modgap(clip, case, tmp_path):
    from sentence_transformers import SentenceTransformer

    model, images = SentenceTransformer(clip), pictures(3)
    texts, pixels = model.encode(TEXTS), model.encode(images)
    assert append_correction(model, case.correction) is model
    model.save(str(tmp_path / "model"), create_model_card=False)
    again = SentenceTransformer(str(tmp_path / "model"))
    for one in (model, again):
        for found, rows, modality, role in (
            (one.encode_query(TEXTS), texts, "text", "query"),
            (one.encode_document(TEXTS), texts, "text", "document"),
            (one.encode_document(images), pixels, "image", "document"),
        ):
            expected = case.correction.apply(rows, modality, role)
            np.testing.assert_allclose(found, expected, atol=1e-5)
        assert one.similarity_fn_name == "dot"
        with pytest.raises(ValueError, match="No route found for task type 'query'"):
            one.encode_query(images)
        with pytest.raises(ValueError, match="Consider specifying the `task`"):
            one.encode(TEXTS)
    code = (
        "import sys; sys.modules['modgap'] = None\n"
        "from sentence_transformers import SentenceTransformer\n"
        f"model = SentenceTransformer({str(tmp_path / 'model')!r})\n"
        f"print(model.encode_query({TEXTS[0]!r}).tolist())"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    found = np.array(eval(ran.stdout.splitlines()[-1]))
    np.testing.assert_allclose(found, again.encode_query(TEXTS[0]), atol=1e-5)


def test_a_model_of_texts_alone_is_corrected_and_half_precision_stays(case):
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    from tokenizers import Tokenizer, models, pre_tokenizers

    tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0, "dog": 1, "beach": 2}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    weights = np.random.default_rng(0).normal(size=(3, 12)).astype(np.float32)
    module = StaticEmbedding(tokenizer, embedding_weights=weights)
    model = SentenceTransformer(modules=[module], device="cpu")
    raw = model.encode(["dog", "beach"])
    append_correction(model, case.correction)
    found = model.encode_document(["dog", "beach"])
    np.testing.assert_allclose(found, case.correction.apply(raw, "text"), atol=1e-5)
    half = append_correction(
        SentenceTransformer(modules=[module.to(torch.bfloat16)], device="cpu"), case.correction
    )
    assert half.encode_document("dog", convert_to_tensor=True).dtype == torch.bfloat16


def test_every_affine_map_has_its_modules(items):
    rng = np.random.default_rng(1)
    for affine in (
        Affine(12),
        Affine(12, scale=2.5),
        Affine(12, offset=rng.normal(size=12)),
        Affine(12, rng.normal(size=(5, 12)), normalise=True, renormalise=True),
        Affine(12, normalise=True, blocks=(1.0, -0.5)),
    ):
        maps = {(name, "document"): affine for name in ("image", "text")}
        correction = Correction(("image", "text"), maps, "euclidean")
        model = append_correction(sentence_transformers_model(items), correction)
        found = model.encode_document(items.texts())
        expected = correction.apply(items.documents["text"], "text")
        np.testing.assert_allclose(found, expected, atol=1e-5)
        assert model.similarity_fn_name == "euclidean"
        np.testing.assert_array_equal(model.encode_query(items.texts()), found)


def test_chroma_finds_what_modgap_finds_and_opens_with_its_correction(
    case, items, wanted, tmp_path
):
    import chromadb

    function = ChromaEmbeddingFunction(chroma_model(items), case.correction)
    client = chromadb.PersistentClient(str(tmp_path / "chroma"))
    collection = function.check_store(client.create_collection("all", embedding_function=function))
    collection.add(ids=items.paths(), images=items.pictures())
    collection.add(ids=items.texts(), documents=items.texts())
    for one in (collection, client.get_collection("all")):  # the second builds its function anew
        found = one.query(query_texts=["query 0"], n_results=10)
        assert found["ids"][0] == wanted[0]
        np.testing.assert_allclose(1 - np.array(found["distances"][0]), wanted[1], atol=1e-4)
    with pytest.raises(ValueError, match="serves text queries, not image queries"):
        collection.query(query_images=items.pictures()[:1])


def test_langchain_finds_what_modgap_finds(case, items, wanted):
    from langchain_chroma import Chroma

    embeddings = LangChainEmbeddings(langchain_model(items), case.correction)
    store = Chroma(
        "langchain",
        embeddings,
        collection_metadata={"hnsw:space": "ip"},
    )
    embeddings.check_store(store)
    store.add_texts(items.texts(), ids=items.texts())
    images = LangChainEmbeddings(langchain_model(items), case.correction, modality="image")
    store._collection.add(
        ids=items.paths(), embeddings=images.embed_documents(items.paths()), documents=items.paths()
    )
    found = store.similarity_search_with_score("query 0", k=10)
    assert [document.id for document, _ in found] == wanted[0]
    vector = asyncio.run(embeddings.aembed_query("query 0"))
    np.testing.assert_array_equal(vector, embeddings.embed_query("query 0"))
    some = asyncio.run(embeddings.aembed_documents(items.texts()))
    np.testing.assert_array_equal(some, embeddings.embed_documents(items.texts()))
    assert embeddings.embed_documents([]) == []


def test_llama_index_finds_what_modgap_finds(case, items, wanted):
    import chromadb
    from llama_index.core import StorageContext, VectorStoreIndex
    from llama_index.core.schema import TextNode
    from llama_index.vector_stores.chroma import ChromaVectorStore

    embedding = LlamaIndexEmbedding(llama_index_model(items), case.correction)
    client = chromadb.EphemeralClient()
    collection = client.create_collection("of-llama-index", configuration={"hnsw": {"space": "ip"}})
    store = embedding.check_store(ChromaVectorStore(chroma_collection=collection))
    vectors = embedding.get_image_embedding_batch(items.paths())
    nodes = [TextNode(id_=text, text=text) for text in items.texts()]
    nodes += [
        TextNode(id_=path, text=path, embedding=vector)
        for path, vector in zip(items.paths(), vectors, strict=True)
    ]
    index = VectorStoreIndex(
        nodes,
        storage_context=StorageContext.from_defaults(vector_store=store),
        embed_model=embedding,
    )
    embedding.check_store(index)
    found = index.as_retriever(similarity_top_k=10).retrieve("query 0")
    assert [one.node_id for one in found] == wanted[0]
    texts = asyncio.run(embedding.aget_text_embedding_batch(items.texts()))
    np.testing.assert_allclose(texts, embedding.get_text_embedding_batch(items.texts()))
    image = asyncio.run(embedding.aget_image_embedding("image 1"))
    np.testing.assert_allclose(image, embedding.get_image_embedding("image 1"))
    asked = asyncio.run(embedding.aget_query_embedding("query 0"))
    assert asked == embedding.get_query_embedding("query 0")


def test_a_store_that_ranks_by_another_metric_is_refused(case, items):
    import chromadb
    from langchain_core.vectorstores import InMemoryVectorStore
    from langchain_qdrant import QdrantVectorStore
    from llama_index.core import VectorStoreIndex
    from qdrant_client import QdrantClient, models

    langchain = LangChainEmbeddings(langchain_model(items), case.correction)
    llama = LlamaIndexEmbedding(llama_index_model(items), case.correction)
    chroma = ChromaEmbeddingFunction(chroma_model(items), case.correction)
    assert langchain.metric == llama.metric == chroma.metric == "inner_product"
    client = chromadb.EphemeralClient()
    with pytest.warns(UserWarning, match="space cosine is not supported by modgap"):
        collection = client.create_collection(
            "cosine", embedding_function=chroma, configuration={"hnsw": {"space": "cosine"}}
        )
    qdrant = QdrantClient(":memory:")
    for distance in (models.Distance.COSINE, models.Distance.DOT):
        config = models.VectorParams(size=12, distance=distance)
        qdrant.create_collection(distance.value, vectors_config=config)
    of_qdrant = {
        distance: QdrantVectorStore(
            qdrant, distance.value, langchain, distance=distance, validate_collection_config=False
        )
        for distance in (models.Distance.COSINE, models.Distance.DOT)
    }
    for one, store in (
        (langchain, InMemoryVectorStore(langchain)),
        (langchain, of_qdrant[models.Distance.COSINE]),
        (llama, VectorStoreIndex([], embed_model=llama)),
        (chroma, collection),
        (chroma, client.create_collection("squares", configuration={"hnsw": {"space": "l2"}})),
    ):
        with pytest.raises(
            InputValueError,
            match=r"must rank by inner product, and this .* which undoes the correction",
        ):
            one.check_store(store)
    right = of_qdrant[models.Distance.DOT]
    assert langchain.check_store(right) is right
    # Unit vectors rank alike by every metric.
    unit = Center().fit(*case.documents.values()).correction_
    store = InMemoryVectorStore(langchain)
    assert LangChainEmbeddings(langchain_model(items), unit, queries="text").check_store(store)


def test_a_collection_of_vectors_alone_has_the_metric_of_the_correction(case, items):
    import chromadb

    function = ChromaEmbeddingFunction(chroma_model(items), case.correction)
    for metric, space in (("cosine", "cosine"), ("euclidean", "l2"), ("inner_product", "ip")):
        maps = {(name, "document"): Affine(12) for name in ("image", "text")}
        one = ChromaEmbeddingFunction(
            function.function, Correction(("image", "text"), maps, metric)
        )
        made = chromadb.EphemeralClient().create_collection(f"one-{space}", embedding_function=one)
        assert made.configuration["hnsw"]["space"] == space
        one.check_store(made)


def wrapped(items, correction, **options):
    """The documents of every wrapper, to be embedded when called."""
    texts = items.texts()
    return [
        lambda: LangChainEmbeddings(langchain_model(items), correction, **options).embed_documents(
            texts
        ),
        lambda: LlamaIndexEmbedding(
            llama_index_model(items), correction, **options
        ).get_text_embedding_batch(texts),
        lambda: ChromaEmbeddingFunction(chroma_model(items), correction, **options)(texts),
    ]


def test_vectors_of_another_dimension_modality_or_model_are_refused(case, items):
    rng = np.random.default_rng(0)
    narrow = Calibrate().fit(rng.normal(size=(60, 8)), rng.normal(size=(60, 8))).correction_
    appended = lambda: append_correction(sentence_transformers_model(items), narrow)  # noqa: E731
    for call in (*wrapped(items, narrow), appended):
        with pytest.raises(ValueError, match="must be fitted on embeddings of the same model"):
            call()
    fit = Calibrate().fit({"photo": case.documents["image"], "caption": case.documents["text"]},
                          queries="caption")  # fmt: skip
    other = fit.correction_
    with pytest.raises(ValueError, match="modality must be one of 'photo', 'caption', got 'text'"):
        LangChainEmbeddings(langchain_model(items), other)
    for call in wrapped(items, other)[1:]:
        with pytest.raises(ValueError, match="must be one of 'photo', 'caption'"):
            call()
    with pytest.raises(ValueError, match="for photo and caption, and the model embeds text"):
        append_correction(sentence_transformers_model(items), other)
    preset = open_preset("clip-vit-b-32-captions")
    rows = {
        side: one.mean + np.sqrt(one.variance) * rng.normal(size=(60, 512))
        for side, one in preset.fitted.items()
    }
    turn, _ = np.linalg.qr(rng.normal(size=(512, 512)))
    turned = Items({side: one @ turn for side, one in rows.items()}, rows["text"])
    swapped = Items({"image": rows["text"], "text": rows["image"]}, rows["text"])
    for call in wrapped(Items(rows, rows["text"]), preset):
        assert len(call()) == 60
    for held, said in ((turned, "another model"), (swapped, "swapped")):
        for call in wrapped(held, preset):
            with pytest.raises(ValueError, match=said):
                call()
        for call in wrapped(held, preset, trust_rows=True):
            with pytest.warns(RecognitionWarning, match=said):
                assert len(call()) == 60


def test_a_correction_that_no_vectors_can_carry_is_refused(items):
    rng = np.random.default_rng(0)
    X, Y = (rng.normal(size=(150, 12)) + side for side in (1.0, -1.0))
    merging = ExpectedWrong().fit(X, Y).correction_
    appended = lambda: append_correction(sentence_transformers_model(items), merging)  # noqa: E731
    for call in (*wrapped(items, merging), appended):
        with pytest.raises(ValueError, match="which one store of vectors cannot"):
            call()
    hubs = Calibrate(hubs=0.5).fit(X, Y).correction_
    with pytest.raises(ValueError, match="needs its bank of queries beside the model"):
        append_correction(sentence_transformers_model(items), hubs)
    found = LangChainEmbeddings(langchain_model(items), hubs, trust_rows=True)
    assert len(found.embed_query("query 0")) == 13


def test_what_a_model_cannot_do_is_said_in_a_sentence(case, items, clip):
    from langchain_core.embeddings import DeterministicFakeEmbedding
    from llama_index.core import MockEmbedding
    from sentence_transformers import SentenceTransformer

    texts_alone = LangChainEmbeddings(DeterministicFakeEmbedding(size=12), case.correction)
    with pytest.raises(InputTypeError, match="DeterministicFakeEmbedding embeds no images"):
        texts_alone.embed_image(["photo.jpg"])
    texts_alone = LlamaIndexEmbedding(MockEmbedding(embed_dim=12), case.correction)
    with pytest.raises(InputTypeError, match="MockEmbedding embeds no images"):
        texts_alone.get_image_embedding("photo.jpg")
    model = SentenceTransformer(clip)
    append_correction(model, case.correction)
    with pytest.raises(ValueError, match="The model ends in a Router"):
        append_correction(model, case.correction)
    with pytest.raises(ValueError, match=r"cuts its rows \(truncate_dim\)"):
        append_correction(SentenceTransformer(clip, truncate_dim=12), case.correction)
    both = Calibrate(form="compromise").fit(*case.documents.values()).correction_
    with pytest.raises(ValueError, match=r"serves image and text queries\. Choose"):
        LangChainEmbeddings(langchain_model(items), both)
    function = ChromaEmbeddingFunction(chroma_model(items), case.correction)
    config = function.get_config() | {"function": "nobody's"}
    with pytest.raises(InputValueError, match="Chroma does not know the embedding function"):
        ChromaEmbeddingFunction.build_from_config(config)

    class Nameless(type(function.function)):
        name = staticmethod(lambda: NotImplemented)

    with pytest.raises(
        InputTypeError, match=r"Nameless must have name, get_config and build_from_config"
    ):
        ChromaEmbeddingFunction(Nameless(), case.correction)


def test_what_is_no_correction_and_no_vectors_is_said_in_a_sentence(case, items, clip):
    for call in (*wrapped(items, "correction.safetensors"), lambda: append_correction(clip, "it")):
        with pytest.raises(InputTypeError, match="must be a Correction, got str"):
            call()
    with pytest.raises(InputTypeError, match="must be a SentenceTransformer, got str"):
        append_correction(clip, case.correction)
    model = langchain_model(items)
    one = LangChainEmbeddings(model, case.correction)
    for vectors, said in (
        ([[1.0] * 12, [1.0] * 3], "as many numbers for each text item"),
        ([["a"] * 12], "as many numbers for each text item"),
        ([[float("nan")] * 12], "NaN or infinity, the first at row 0"),
        ([[1e300] * 12], "NaN or infinity, the first at row 0"),
        ([[0.0] * 12], "length zero"),
        ([1.0] * 12, "must be a matrix"),
    ):
        model.embed_documents = lambda texts, vectors=vectors: vectors
        with pytest.raises(InputValueError, match=said):
            one.embed_documents(["a dog"])


def test_a_collection_of_another_correction_is_refused(case, items, tmp_path):
    import chromadb

    client = chromadb.PersistentClient(str(tmp_path))
    function = ChromaEmbeddingFunction(chroma_model(items), case.correction)
    client.create_collection("all", embedding_function=function)
    other = Calibrate(mode="mixed").fit(*case.documents.values()).correction_
    second = ChromaEmbeddingFunction(chroma_model(items), other)
    for one in (function, second):
        opened = client.get_or_create_collection("all", embedding_function=one)
        if one is function:
            one.check_store(opened)
            continue
        with pytest.raises(InputValueError, match="were corrected by another correction"):
            one.check_store(opened)


def test_a_wrapped_embedding_travels_to_another_process(case):
    from llama_index.core import MockEmbedding

    one = LlamaIndexEmbedding(MockEmbedding(embed_dim=12), case.correction)
    again = pickle.loads(pickle.dumps(one))
    assert again.get_text_embedding("a dog") == one.get_text_embedding("a dog")
