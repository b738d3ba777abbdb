"""MixBench's published layout: read as it was written, or refused with file and line."""

from __future__ import annotations

import json
import random
import re
import shutil
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
from modgap.embed import CallableModel, embed
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


def taken(subset: Path, what: str) -> tuple[list[str], dict[str, np.ndarray]]:
    """Ids, and rows of texts and images, of what its scripts saved, which is gone then."""
    path = subset / f"{what}_embeddings.pt"
    entries = torch.load(path, weights_only=True)
    ids = [entry["corpus_id" if what == "corpus" else "query_id"] for entry in entries]
    rows = {
        part: np.stack([entry[f"{part}_embedding"].numpy() for entry in entries])
        for part in ("image", "text")
        if entries[0][f"{part}_embedding"] is not None
    }
    path.unlink()
    return ids, rows


def line_by_line(path: Path, ids: list[str], rows: dict[str, np.ndarray]) -> None:
    np.savez(path.with_suffix(".npz"), **rows)


def by_id(path: Path, ids: list[str], rows: dict[str, np.ndarray]) -> None:
    """Ids say whose a row is, so that rows may be in any order."""
    order = np.random.default_rng(1).permutation(len(ids))
    shuffled = {part: held[order] for part, held in rows.items()}
    np.savez(path.with_suffix(".npz"), id=np.array(ids)[order], **shuffled)


@pytest.mark.parametrize("write", [line_by_line, by_id])
@pytest.mark.parametrize("asks", ["text", "fused"])
def test_rows_of_other_formats_are_read_as_those_of_its_scripts(
    tmp_path: Path, asks: str, write: Any
) -> None:
    subset = make_subset(tmp_path / "OVEN", n=12, asks=asks, bank=5)
    (before,) = open_mixbench(subset).subsets
    for what in ("query", "corpus", "bank"):
        write(subset / f"clip_{what}_embeddings", *taken(subset, what))
    (after,) = open_mixbench(subset).subsets
    for name in ("queries", "documents"):
        old, new = getattr(before, name), getattr(after, name)
        assert (new.ids, new.kinds.tolist()) == (old.ids, old.kinds.tolist())
        for part in ("text", "image", "fused"):
            np.testing.assert_array_equal(getattr(new, part), getattr(old, part))
    for part in ("text", "image"):
        old, new = (np.sort(getattr(one.bank, part), axis=0) for one in (before, after))
        np.testing.assert_array_equal(new, old)
    assert after.qrels.tolist() == before.qrels.tolist()


def test_what_modgap_embed_writes_is_read(subset: Path) -> None:
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    (subset / "images").mkdir()
    for i in range(12):
        image.new("RGB", (i + 1, 4)).save(subset / "images" / f"{i}.jpg")
    model = CallableModel(
        images=lambda images: np.array([[*one.size, 1] for one in images], np.float32),
        texts=lambda texts: np.array([[1, int(re.sub(r"\D", "", t) or 0), 7.0] for t in texts]),
        name="sizes",
    )
    for what, source in (("corpus", subset), ("query", subset / "queries.jsonl")):
        (subset / f"{what}_embeddings.pt").unlink()
        embed(model, source, subset / f"{what}_embeddings")
    (found,) = open_mixbench(subset).subsets
    assert found.queries.text[:, 1].tolist() == list(range(12))
    assert found.documents.rows("image", "image")[:, 0].tolist() == [2, 5, 8, 11]
    assert found.documents.rows("text", "fused")[:, 1].tolist() == [2, 5, 8, 11]
    assert found.documents.rows("image", "fused")[:, 0].tolist() == [3, 6, 9, 12]


def test_one_matrix_has_a_row_of_all_that_an_item_shows(subset: Path) -> None:
    rng = np.random.default_rng(0)
    rows = {what: rng.normal(size=(12, 5)).astype(np.float32) for what in ("query", "corpus")}
    for what, held in rows.items():
        (subset / f"{what}_embeddings.pt").unlink()
        np.save(subset / f"{what}_embeddings.npy", held)
    (found,) = open_mixbench(subset).subsets
    np.testing.assert_array_equal(found.queries.text, rows["query"])
    assert (found.queries.joint, found.documents.joint) == (False, True)
    for first, kind in enumerate(("text", "image", "fused")):
        np.testing.assert_array_equal(getattr(found.documents, kind), rows["corpus"][first::3])
        np.testing.assert_array_equal(found.documents.rows(kind, kind), rows["corpus"][first::3])


def test_rows_that_its_script_for_vlm2vec_made_of_both_are_read(subset: Path) -> None:
    path = subset / "corpus_embeddings.pt"
    entries = torch.load(path, weights_only=True)
    joint = [{**entry, "vlm_mixed_embedding": torch.full((DIM,), i + 1.0)}
             for i, entry in enumerate(entries)]  # fmt: skip
    torch.save(joint, path)
    documents = open_mixbench(subset).subsets[0].documents
    assert documents.fused[:, 0].tolist() == [3.0, 6.0, 9.0, 12.0]
    assert len(documents.text) == len(documents.image) == 4
    torch.save([joint[0], *entries[1:]], path)
    with pytest.raises(ValueError, match="entry 2: '2' has no vlm_mixed_embedding, and its text"):
        open_mixbench(subset)


def saved(what: str, stored: Any) -> Any:
    """Something else in place of the embeddings of queries or documents."""
    return lambda folder: torch.save(stored, folder / f"{what}_embeddings.pt")


def entry(what: str, place: int, **values: Any) -> Any:
    """Other values in one entry of the embeddings."""
    return lambda folder: change(folder / f"{what}_embeddings.pt", place, **values)


def stated(name: str, lines: list[dict[str, Any]]) -> Any:
    """Other lines in a file of JSON objects."""
    return lambda folder: json_lines(folder / f"{name}.jsonl", lines)


def stored(name: str, content: bytes) -> Any:
    return lambda folder: (folder / name).write_bytes(content)


def away(name: str) -> Any:
    return lambda folder: (folder / name).unlink()


def arrays(what: str, **held: Any) -> Any:
    """Rows in another format in place of what its scripts save."""

    def spoil(folder: Path) -> None:
        (folder / f"{what}_embeddings.pt").unlink()
        np.savez(folder / f"{what}_embeddings.npz", **held)

    return spoil


def judged(line: str, **options: Any) -> Any:
    return lambda folder: judge(folder, line, **options)


def both(*spoils: Any) -> Any:
    return lambda folder: [spoil(folder) for spoil in spoils]


QUERIES = [f"q{i}" for i in range(12)]
ROWS = np.random.default_rng(7).normal(size=(12, DIM)).astype(np.float32)
TWO_KINDS = [item(q, "fused" if q == "q0" else "text", "query_id") for q in QUERIES]
NO_ID = [{"text_embedding": torch.ones(DIM), "image_embedding": None}]
NOT_JSON = b'{"query_id": "q0", "text": "a"}\n{"qu\n'
# The same as a query in a bank of other queries.
OWN_BANK = lambda f: shutil.copy(f / "query_embeddings.pt", f / "bank_embeddings.pt")  # noqa: E731
# What is spoilt, and what is said.
BAD = [
    (lambda f: f.rename(f.parent / "away"), "MSCOCO must be the folder of MixBench or of one of"),
    (
        both(away("query_embeddings.pt"), away("corpus_embeddings.pt")),
        r"MSCOCO must hold \*query_embeddings and \*corpus_embeddings",
    ),
    (away("corpus_embeddings.pt"), r"must hold \*corpus_embeddings; there is no such file"),
    (saved("siglip_query", []), "got query_embeddings.pt and siglip_query_embeddings.pt. Keep one"),
    (saved("query", {"a": torch.ones(3)}), "must hold a list of dicts with query_id, .* got dict"),
    (saved("corpus", []), "must hold a list of dicts with corpus_id, .* got none"),
    (
        saved("query", [Path("x")]),
        "could run code when loaded.* Save a list of dicts with query_id",
    ),
    (stored("query_embeddings.pt", b"hello"), "query_embeddings.pt"),
    (saved("query", [torch.ones(3)]), "query_embeddings.pt, entry 0: must be a dict, got Tensor"),
    (saved("query", NO_ID), "query_embeddings.pt, entry 0: has no query_id"),
    (entry("query", 3, query_id=None), "entry 3: query_id must be a string or a number, got None"),
    (entry("corpus", 4, corpus_id="2"), "entry 4: '2' is there already, in entry 2"),
    (entry("query", 1, text_embedding=None), "entry 1: has neither a text nor an image"),
    (
        entry("corpus", 5, image_embedding=torch.full((DIM,), torch.nan)),
        "corpus_embeddings.pt, entry 5: image_embedding holds NaN or infinity",
    ),
    (
        entry("corpus", 5, text_embedding=torch.zeros(DIM)),
        "corpus_embeddings.pt, entry 5: text_embedding has length zero",
    ),
    (
        entry("corpus", 6, text_embedding=torch.ones(DIM + 1)),
        f"entry 6: text_embedding must have {DIM} columns as the first one, got {DIM + 1}",
    ),
    (
        entry("corpus", 6, text_embedding=torch.ones(2, DIM)),
        rf"entry 6: text_embedding must be a tensor of floats .* got \(2, {DIM}\)",
    ),
    (
        saved("query", embedded(QUERIES, np.ones((12, 3)), None, "query_id")),
        f"must have the same number of columns, got 3 and {DIM}",
    ),
    (
        entry("corpus", 1, image_embedding=None),
        "corpus_embeddings.pt, entry 1: '1' has no image_embedding, and its image is searched",
    ),
    (
        both(away("mixed_corpus.jsonl"), entry("corpus", 1, image_embedding=None)),
        "corpus_embeddings.pt, entry 1: '1' must have a text_embedding and an image_embedding",
    ),
    (
        stated("mixed_corpus", [item(str(i), "text", "corpus_id") for i in range(13)]),
        "mixed_corpus.jsonl, line 13: .*corpus_embeddings.pt has no '12'",
    ),
    (
        stated("queries", [item(q, "text", "query_id") for q in QUERIES[:11]]),
        "query_embeddings.pt, entry 11: .*queries.jsonl has no 'q11'",
    ),
    (
        stated("corpus", [item(str(i % 11), "fused", "corpus_id") for i in range(12)]),
        "corpus.jsonl, line 12: '0' is there already, in line 1",
    ),
    (
        stated("mixed_corpus", [{"corpus_id": "0", "text": ""}]),
        "mixed_corpus.jsonl, line 1: has neither a text nor an image",
    ),
    (stored("queries.jsonl", NOT_JSON), "queries.jsonl, line 2: must be JSON"),
    (stored("queries.jsonl", b"[1]\n"), "line 1: must be a JSON object, got list"),
    (stored("queries.jsonl", b"\n\xff\xfe\xff\n"), "queries.jsonl, line 2: must be UTF-8"),
    (stored("mixed_corpus.jsonl", b"\n\n"), "mixed_corpus.jsonl is empty"),
    (
        both(stated("queries", TWO_KINDS), entry("query", 0, image_embedding=torch.ones(DIM))),
        "queries.jsonl must hold queries of one kind, got fused",
    ),
    (away("qrels/qrels.tsv"), "MSCOCO must hold qrels/qrels.tsv; there is no such file"),
    (judged("q99\t1\t1"), "qrels.tsv, line 2: no query has the id 'q99'"),
    (judged("q1\t99\t1"), "qrels.tsv, line 2: no document has the id '99'"),
    (judged("q1\t1\t1", header=""), "qrels.tsv, line 14: 'q1' and '1' are there already"),
    (
        judged("q1\t2\tyes", header=""),
        "qrels.tsv, line 14: score must be a whole number from 0 up, got 'yes'",
    ),
    (judged("q1", header=""), "qrels.tsv must have 3 fields, as its header has, but line 14 has 1"),
    (
        judged("q0\t1\t1"),
        "qrels.tsv must name a relevant document for every query, and has none for 'q1'",
    ),
    (
        arrays("query", rows=ROWS[:11]),
        "must have one row for each of the 12 items of .*queries.jsonl, got 11",
    ),
    (
        arrays("corpus", text=ROWS, image=ROWS[:11]),
        "must have one row for each of the 12 items of .*corpus.jsonl with image, got 11",
    ),
    (
        both(arrays("corpus", rows=ROWS), away("mixed_corpus.jsonl")),
        "must hold mixed_corpus.jsonl, which says what corpus_embeddings.npz has rows of",
    ),
    (
        both(arrays("query", rows=ROWS), away("queries.jsonl")),
        "must hold queries.jsonl, which says what query_embeddings.npz has rows of",
    ),
    (
        arrays("corpus", a=ROWS, b=ROWS),
        "must hold one matrix, or matrices called text, image and perhaps fused, got 'a'",
    ),
    (
        arrays("corpus", text=ROWS, image=ROWS[:, 1:]),
        f"must have as many columns, got {DIM} of text and {DIM - 1} of image",
    ),
    (
        arrays("query", rows=ROWS, id=np.array([*QUERIES[:11], "q3"])),
        "query_embeddings.npz, row 11: 'q3' is there already, in row 3",
    ),
    (
        arrays("query", rows=ROWS, id=np.array([*QUERIES[:11], "q99"])),
        "query_embeddings.npz, row 11: .*queries.jsonl has no 'q99'",
    ),
    (
        arrays("query", rows=ROWS[:11], id=np.array(QUERIES[1:])),
        "queries.jsonl, line 1: .*query_embeddings.npz has no row of 'q0'",
    ),
    (
        arrays("query", rows=np.where(np.arange(12)[:, None] == 4, np.nan, ROWS)),
        "query_embeddings.npz has 1 row with NaN or infinity",
    ),
    (arrays("query", rows=0 * ROWS), "query_embeddings.npz has 12 rows with length zero"),
    (OWN_BANK, "bank_embeddings.pt, entry 0: is a query of the benchmark"),
]


@pytest.mark.parametrize(("spoil", "sentence"), BAD, ids=[sentence[:40] for _, sentence in BAD])
def test_what_does_not_fit_is_refused_with_its_file_and_line(
    subset: Path, spoil: Any, sentence: str
) -> None:
    spoil(subset)
    with pytest.raises((ValueError, TypeError), match=sentence) as refused:
        open_mixbench(subset)
    assert "\n" not in str(refused.value)
