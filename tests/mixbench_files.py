"""A small copy of MixBench: its published layout, filled with made-up rows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

DIM = 24
KINDS = ("text", "image", "fused")


def json_lines(path: Path, items: Iterable[Mapping[str, Any]]) -> None:
    path.write_text("".join(json.dumps(item) + "\n" for item in items), encoding="utf-8")


def item(name: str, kind: str, key: str) -> dict[str, Any]:
    """A query or document as the benchmark states it: null where it has no such part."""
    return {
        key: name,
        "text": None if kind == "image" else f"the text of {name}",
        "image": None if kind == "text" else f"images/{name}.jpg",
    }


def embedded(
    ids: Sequence[Any], text: np.ndarray | None, image: np.ndarray | None, key: str
) -> list[dict[str, Any]]:
    """What the benchmark's scripts save."""
    parts = {"text_embedding": text, "image_embedding": image}
    return [
        {
            key: one,
            **{p: None if rows is None else torch.tensor(rows[i]) for p, rows in parts.items()},
        }
        for i, one in enumerate(ids)
    ]


def make_subset(
    folder: Path,
    *,
    n: int = 60,
    seed: int = 0,
    asks: str = "text",
    prefix: str = "",
    mixed: bool = True,
    bank: int = 0,
) -> Path:
    """Query i is about document i; texts and images lie in two places, queries in a third."""
    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    gap = rng.normal(size=(4, DIM))
    latent = rng.normal(size=(n + bank, DIM))

    def rows(place: int, noise: float) -> np.ndarray:
        return latent + gap[place] + noise * rng.normal(size=latent.shape)

    text = (3 * rows(0, 0.6)).astype(np.float32)
    image = rows(1, 0.9)
    asked, asked_image = (2 * rows(2, 0.5)).astype(np.float32), rows(3, 0.9)
    image, asked_image = (
        (r / np.linalg.norm(r, axis=1, keepdims=True)).astype(np.float32)
        for r in (image, asked_image)
    )
    queries, documents = [f"q{i}" for i in range(n)], [str(i) for i in range(n)]
    kinds = [KINDS[i % 3] for i in range(n)]
    json_lines(folder / "queries.jsonl", (item(q, asks, "query_id") for q in queries))
    json_lines(folder / "corpus.jsonl", (item(d, "fused", "corpus_id") for d in documents))
    if mixed:
        shown = zip(documents, kinds, strict=True)
        json_lines(folder / "mixed_corpus.jsonl", (item(d, k, "corpus_id") for d, k in shown))
    (folder / "qrels").mkdir(exist_ok=True)
    pairs = zip(queries, documents, strict=True)
    lines = ["query_id\tcorpus_id\tscore", *(f"{q}\t{d}\t1" for q, d in pairs)]
    (folder / "qrels" / "qrels.tsv").write_text("\n".join(lines) + "\n")
    with_image = asked_image if asks == "fused" else None
    saved = {
        "query": embedded(queries, asked[:n], with_image, "query_id"),
        "corpus": embedded(documents, text[:n], image[:n], "corpus_id"),
    }
    if bank:
        names = [f"b{i}" for i in range(bank)]
        rest = None if with_image is None else with_image[n:]
        saved["bank"] = embedded(names, asked[n:], rest, "query_id")
    for what, entries in saved.items():
        torch.save(entries, folder / f"{prefix}{what}_embeddings.pt")
    return folder


def change(path: Path, entry: int, **values: Any) -> None:
    """Put other values into one entry of a file of embeddings."""
    saved = torch.load(path, weights_only=True)
    saved[entry] |= values
    torch.save(saved, path)


def judge(folder: Path, line: str, header: str = "query_id\tcorpus_id\tscore\n") -> None:
    """One line of qrels, under a header of its own or below all the others."""
    path = folder / "qrels" / "qrels.tsv"
    path.write_text((header or path.read_text()) + line + "\n")
