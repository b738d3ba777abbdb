"""MixBench's published layout: read as it was written, or refused with file and line."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mixbench_files import (
    DIM,
    change,
    embedded,
    item,
    json_lines,
    judge,
    make_subset,
    torch,
)
from modgap.reproduce.mixbench import open_mixbench
from modgap.reproduce.mixbench.subsets import drawn_kinds


@pytest.fixture
def subset(tmp_path: Path) -> Path:
    return make_subset(tmp_path / "MSCOCO", n=12)


def test_a_subset_is_read_as_it_was_written(subset: Path) -> None:
    (found,) = open_mixbench(subset).subsets
    saved = torch.load(subset / "corpus_embeddings.pt", weights_only=True)
    assert (found.name, found.asks, found.drawn, found.bank) == ("MSCOCO", "text", False, None)
    assert found.documents.ids == tuple(str(i) for i in range(12))
    assert found.documents.kinds.tolist() == ["text", "image", "fused"] * 4
    assert found.documents.places("fused").tolist() == [2, 5, 8, 11]
    np.testing.assert_array_equal(
        found.documents.rows("text", "fused")[1], saved[5]["text_embedding"].numpy()
    )
    np.testing.assert_array_equal(
        found.documents.rows("image", "image")[3], saved[10]["image_embedding"].numpy()
    )
    assert found.documents.rows("image", "text").shape == (0, DIM)
    assert found.queries.text.shape == (12, DIM)
    assert found.qrels.tolist() == [[i, i, 1] for i in range(12)]


def test_a_folder_of_subsets_is_read_in_the_papers_order(tmp_path: Path) -> None:
    for name in ("VisualNews", "mine", "Google_WIT"):
        make_subset(tmp_path / name, n=6, prefix=f"{name.lower()}_")
    bare = make_subset(tmp_path / "OVEN", n=6)
    for path in bare.glob("*.pt"):
        path.unlink()
    (tmp_path / ".git").mkdir()
    found = open_mixbench(tmp_path)
    assert [one.name for one in found.subsets] == ["Google_WIT", "VisualNews", "mine"]
    assert found.not_embedded == ("OVEN",)


def test_without_a_mixed_corpus_kinds_are_drawn_as_its_script_draws_them(tmp_path: Path) -> None:
    (found,) = open_mixbench(make_subset(tmp_path / "MSCOCO", n=20, mixed=False)).subsets
    random.seed(42)  # the script's own way
    expected = [""] * 20
    for i, place in enumerate(random.sample(range(20), 20)):
        expected[place] = ("text", "image", "fused")[i % 3]
    assert found.drawn
    assert found.documents.kinds.tolist() == expected == drawn_kinds(20).tolist()


def test_ids_may_be_numbers_in_one_file_and_strings_in_another(subset: Path) -> None:
    saved = torch.load(subset / "corpus_embeddings.pt", weights_only=True)
    renamed = [{"id": int(e.pop("corpus_id")), **e} for e in saved]
    torch.save(renamed, subset / "corpus_embeddings.pt")
    lines = (subset / "mixed_corpus.jsonl").read_text().splitlines()
    shown = [json.loads(line) for line in lines]
    json_lines(
        subset / "mixed_corpus.jsonl", ({**s, "corpus_id": int(s["corpus_id"])} for s in shown)
    )
    assert open_mixbench(subset).subsets[0].documents.ids == tuple(str(i) for i in range(12))


def test_qrels_may_be_json_lines(subset: Path) -> None:
    (subset / "qrels" / "qrels.tsv").unlink()
    json_lines(
        subset / "qrels.jsonl",
        ({"query_id": f"q{i}", "corpus_id": str(i // 2), "score": i % 2 + 1} for i in range(12)),
    )
    assert open_mixbench(subset).subsets[0].qrels[:3].tolist() == [[0, 0, 1], [1, 0, 2], [2, 1, 1]]


def test_only_embeddings_and_qrels_are_needed(subset: Path) -> None:
    for name in ("queries.jsonl", "corpus.jsonl", "mixed_corpus.jsonl"):
        (subset / name).unlink()
    (found,) = open_mixbench(subset).subsets
    assert (found.asks, found.drawn) == ("text", True)


def test_queries_with_an_image_and_a_bank_are_read(tmp_path: Path) -> None:
    (found,) = open_mixbench(make_subset(tmp_path / "OVEN", n=9, asks="fused", bank=5)).subsets
    assert found.asks == "fused"
    assert found.queries.text.shape == found.queries.image.shape == (9, DIM)
    assert found.bank is not None
    assert found.bank.rows("image", "fused").shape == (5, DIM)


def _two_kinds(folder: Path) -> None:
    lines = [item(f"q{i}", "text" if i else "fused", "query_id") for i in range(12)]
    json_lines(folder / "queries.jsonl", lines)
    change(folder / "query_embeddings.pt", 0, image_embedding=torch.ones(DIM))


BAD = {
    "no folder": (
        lambda f: [p.rename(f.parent / "away") for p in [f]],
        "MSCOCO must be the folder of MixBench or of one of its subsets",
    ),
    "no embeddings": (
        lambda f: [p.unlink() for p in f.glob("*.pt")],
        r"MSCOCO must hold \*query_embeddings.pt and \*corpus_embeddings.pt",
    ),
    "one embedding": (
        lambda f: (f / "corpus_embeddings.pt").unlink(),
        r"MSCOCO must hold \*corpus_embeddings.pt; there is no such file",
    ),
    "two models": (
        lambda f: torch.save([], f / "siglip_query_embeddings.pt"),
        "got query_embeddings.pt and siglip_query_embeddings.pt. Keep one",
    ),
    "no list": (
        lambda f: torch.save({"a": torch.ones(3)}, f / "query_embeddings.pt"),
        "query_embeddings.pt must hold a list of dicts with query_id, .* got dict",
    ),
    "empty list": (
        lambda f: torch.save([], f / "corpus_embeddings.pt"),
        "corpus_embeddings.pt must hold a list of dicts with corpus_id, .* got none",
    ),
    "code": (
        lambda f: torch.save([Path("x")], f / "query_embeddings.pt"),
        "could run code when loaded.* Save a list of dicts with query_id",
    ),
    "no torch file": (
        lambda f: (f / "query_embeddings.pt").write_bytes(b"hello"),
        "query_embeddings.pt",
    ),
    "no dict": (
        lambda f: torch.save([torch.ones(3)], f / "query_embeddings.pt"),
        "query_embeddings.pt, entry 0: must be a dict, got Tensor",
    ),
    "no id": (
        lambda f: torch.save(
            [{"text_embedding": torch.ones(DIM), "image_embedding": None}],
            f / "query_embeddings.pt",
        ),
        "query_embeddings.pt, entry 0: has no query_id",
    ),
    "strange id": (
        lambda f: change(f / "query_embeddings.pt", 3, query_id=None),
        "query_embeddings.pt, entry 3: query_id must be a string or a number, got None",
    ),
    "the same id twice": (
        lambda f: change(f / "corpus_embeddings.pt", 4, corpus_id="2"),
        "corpus_embeddings.pt, entry 4: '2' is there already, in entry 2",
    ),
    "no part": (
        lambda f: change(f / "query_embeddings.pt", 1, text_embedding=None),
        "query_embeddings.pt, entry 1: has neither a text nor an image",
    ),
    "NaN": (
        lambda f: change(
            f / "corpus_embeddings.pt", 5, image_embedding=torch.full((DIM,), torch.nan)
        ),
        "corpus_embeddings.pt, entry 5: image_embedding holds NaN or infinity",
    ),
    "zeros": (
        lambda f: change(f / "corpus_embeddings.pt", 5, text_embedding=torch.zeros(DIM)),
        "corpus_embeddings.pt, entry 5: text_embedding has length zero",
    ),
    "ragged": (
        lambda f: change(f / "corpus_embeddings.pt", 6, text_embedding=torch.ones(DIM + 1)),
        f"entry 6: text_embedding must have {DIM} columns as the first one, got {DIM + 1}",
    ),
    "a matrix": (
        lambda f: change(f / "corpus_embeddings.pt", 6, text_embedding=torch.ones(2, DIM)),
        rf"entry 6: text_embedding must be a tensor of floats .* got \(2, {DIM}\)",
    ),
    "another model": (
        lambda f: torch.save(
            embedded([f"q{i}" for i in range(12)], np.ones((12, 3)), None, "query_id"),
            f / "query_embeddings.pt",
        ),
        f"must have the same number of columns, got 3 and {DIM}",
    ),
    "an absent part": (
        lambda f: change(f / "corpus_embeddings.pt", 1, image_embedding=None),
        "corpus_embeddings.pt, entry 1: '1' has no image_embedding, and its image is searched",
    ),
    "an absent part, nothing stated": (
        lambda f: (
            (f / "mixed_corpus.jsonl").unlink(),
            change(f / "corpus_embeddings.pt", 1, image_embedding=None),
        ),
        "corpus_embeddings.pt, entry 1: '1' must have a text_embedding and an image_embedding",
    ),
    "a document without embedding": (
        lambda f: json_lines(
            f / "mixed_corpus.jsonl", [item(str(i), "text", "corpus_id") for i in range(13)]
        ),
        "mixed_corpus.jsonl, line 13: .*corpus_embeddings.pt has no '12'",
    ),
    "an embedding without document": (
        lambda f: json_lines(
            f / "queries.jsonl", [item(f"q{i}", "text", "query_id") for i in range(11)]
        ),
        "query_embeddings.pt, entry 11: .*queries.jsonl has no 'q11'",
    ),
    "a document stated twice": (
        lambda f: json_lines(
            f / "corpus.jsonl", [item(str(i % 11), "fused", "corpus_id") for i in range(12)]
        ),
        "corpus.jsonl, line 12: '0' is there already, in line 1",
    ),
    "nothing shown": (
        lambda f: json_lines(f / "mixed_corpus.jsonl", [{"corpus_id": "0", "text": ""}]),
        "mixed_corpus.jsonl, line 1: has neither a text nor an image",
    ),
    "no JSON": (
        lambda f: (f / "queries.jsonl").write_text('{"query_id": "q0", "text": "a"}\n{"qu\n'),
        "queries.jsonl, line 2: must be JSON",
    ),
    "no object": (
        lambda f: (f / "queries.jsonl").write_text("[1]\n"),
        "queries.jsonl, line 1: must be a JSON object, got list",
    ),
    "no UTF-8": (
        lambda f: (f / "queries.jsonl").write_bytes(b"\n\xff\xfe\xff\n"),
        "queries.jsonl, line 2: must be UTF-8",
    ),
    "an empty file": (
        lambda f: (f / "mixed_corpus.jsonl").write_text("\n\n"),
        "mixed_corpus.jsonl is empty",
    ),
    "two kinds of query": (_two_kinds, "queries.jsonl must hold queries of one kind, got fused"),
    "no qrels": (
        lambda f: (f / "qrels" / "qrels.tsv").unlink(),
        "MSCOCO must hold qrels/qrels.tsv; there is no such file",
    ),
    "an unknown query": (
        lambda f: judge(f, "q99\t1\t1"),
        "qrels.tsv, line 2: no query has the id 'q99'",
    ),
    "an unknown document": (
        lambda f: judge(f, "q1\t99\t1"),
        "qrels.tsv, line 2: no document has the id '99'",
    ),
    "a pair twice": (
        lambda f: judge(f, "q1\t1\t1", header=""),
        "qrels.tsv, line 14: 'q1' and '1' are there already",
    ),
    "a bad score": (
        lambda f: judge(f, "q1\t2\tyes", header=""),
        "qrels.tsv, line 14: score must be a whole number from 0 up, got 'yes'",
    ),
    "a short line": (
        lambda f: judge(f, "q1", header=""),
        "qrels.tsv, line 14: must have 3 columns as the header, got 1",
    ),
    "a query without an answer": (
        lambda f: judge(f, "q0\t1\t1"),
        "qrels.tsv must name a relevant document for every query, and has none for 'q1'",
    ),
    "a bank of its own queries": (
        lambda f: (f / "bank_embeddings.pt").write_bytes((f / "query_embeddings.pt").read_bytes()),
        "bank_embeddings.pt, entry 0: is a query of the benchmark",
    ),
}


@pytest.mark.parametrize(("spoil", "sentence"), BAD.values(), ids=BAD.keys())
def test_what_does_not_fit_is_refused_with_its_file_and_line(
    subset: Path, spoil: Any, sentence: str
) -> None:
    spoil(subset)
    with pytest.raises((ValueError, TypeError), match=sentence) as refused:
        open_mixbench(subset)
    assert "\n" not in str(refused.value)
