"""Whichever door a vector passes, the results are modgap's: the same order, scores to 1e-5."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from exported import (
    EXPECTED_WRONG,
    Answers,
    Case,
    calibrated_cases,
    json_answers,
    numpy_answers,
    sql_answers,
    typescript_answers,
)
from index_services import postgres_url
from row_models import (
    Items,
    chroma_model,
    langchain_model,
    llama_index_model,
    sentence_transformers_model,
)

pytestmark = pytest.mark.integrations
duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")
adapters = pytest.importorskip("modgap.adapters")


def of_langchain(items: Items, case: Case) -> tuple[dict[str, Any], Any]:
    one = adapters.LangChainEmbeddings(langchain_model(items), case.correction, queries="text")
    documents = {
        "image": one.embed_image(items.paths()),
        "text": one.embed_documents(items.texts()),
    }
    return documents, [one.embed_query(text) for text in items.asked()]


def of_llama_index(items: Items, case: Case) -> tuple[dict[str, Any], Any]:
    one = adapters.LlamaIndexEmbedding(llama_index_model(items), case.correction, "text")
    documents = {
        "image": one.get_image_embedding_batch(items.paths()),
        "text": one.get_text_embedding_batch(items.texts()),
    }
    return documents, [one.get_query_embedding(text) for text in items.asked()]


def of_chroma(items: Items, case: Case) -> tuple[dict[str, Any], Any]:
    one = adapters.ChromaEmbeddingFunction(chroma_model(items), case.correction)
    n_images = len(items.paths())
    both = one([*items.pictures(), *items.texts()])
    documents = {"image": both[:n_images], "text": both[n_images:]}
    return documents, one.embed_query(items.asked())


def of_sentence_transformers(items: Items, case: Case) -> tuple[dict[str, Any], Any]:
    one = adapters.append_correction(sentence_transformers_model(items), case.correction)
    documents = {
        "image": one.encode_document(items.pictures()),
        "text": one.encode_document(items.texts()),
    }
    return documents, one.encode_query(items.asked())


WRAPPERS = (of_langchain, of_llama_index, of_chroma, of_sentence_transformers)


def ranked(case: Case, documents: dict[str, Any], queries: Any) -> Answers:
    """What a store that ranks by inner product finds among these vectors."""
    assert case.correction.metric == "inner_product"
    every = [(f"d{place}", name) for name in documents for place in range(len(documents[name]))]
    scores = np.asarray(queries) @ np.vstack([*documents.values()]).T
    return [
        [(*every[place], line[place]) for place in np.argsort(-line, kind="stable")[: case.k]]
        for line in scores.astype(float)
    ]


@settings(
    max_examples=3,
    suppress_health_check=[HealthCheck.too_slow],
    deadline=None,
    phases=[Phase.generate],  # an example takes seconds, and a smaller one says no more
)
@given(st.tuples(*[calibrated_cases(("image", "text"))] * 5), st.tuples(*[EXPECTED_WRONG] * 3))
def test_every_door_gives_the_order_and_scores_of_modgap(tmp_path_factory, calibrated, by_e):
    import psycopg

    cases = [*calibrated, *by_e]
    for case in calibrated:
        items = Items(case.documents, case.queries)
        for wrapper in WRAPPERS:
            case.check_all(ranked(case, *wrapper(items, case)))
    compiled = typescript_answers(cases, tmp_path_factory.mktemp("typescript"))
    with (
        psycopg.connect(postgres_url(), autocommit=True) as postgres,
        duckdb.connect() as duck,
    ):
        for case, of_typescript in zip(cases, compiled, strict=True):
            case.check_all(of_typescript)
            case.check_all(sql_answers(case, "sql", postgres))
            case.check_all(sql_answers(case, "duckdb", duck))
            case.check_all(numpy_answers(case))
            if case.at_most is None:
                case.check_all(json_answers(case))
