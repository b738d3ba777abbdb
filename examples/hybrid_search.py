"""One ranked list from words and from vectors: BM25 over captions beside vectors of images.

    python examples/hybrid_search.py
    python examples/hybrid_search.py flickr8k-112.parquet tests/data/flickr8k-pretrained.safetensors

It needs pip install bm25s. Without arguments it uses the digits that come with modgap; with two,
the test photos of Flickr8k and their vectors. Some photos stand in the index as images, others by a
caption only. Queries are other captions. A score of BM25 and a cosine cannot be compared, but both
say how many wrong results to expect that are at least as good. No labels are needed for that, only
200 queries like those of your users, run through both engines.
"""

from __future__ import annotations

import sys

import bm25s
import numpy as np

import modgap
from modgap.io import open_pair
from modgap.search import Background, Hits, merge, search

BANK, SHOWN = 200, 6
# Which caption is a document, and which a query.
DOCUMENT, QUERY = 0, 2


class Engines:
    """A lexical engine over captions, and exact search in vectors of images."""

    def __init__(self, images: dict[str, np.ndarray], captions: dict[str, str]) -> None:
        self.images, self.captions = images, captions
        self.bm25 = bm25s.BM25()
        self.bm25.index(tokens(list(captions.values())), show_progress=False)

    def lists(self, words: list[str], vectors: np.ndarray) -> dict[str, Hits]:
        """The best 60 of both for each query; a caption that shares no word with it is missing."""
        names, k = list(self.captions), min(60, len(self.captions))
        rows, scores = self.bm25.retrieve(tokens(words), k=k, show_progress=False)
        lexical = [
            {names[row]: score for row, score in zip(*found, strict=True) if score > 0}
            for found in zip(rows, scores, strict=True)
        ]
        names = list(self.images)
        rows, scores = search(vectors, np.stack(list(self.images.values())), 60)
        near = [
            {names[row]: score for row, score in zip(*found, strict=True)}
            for found in zip(rows, scores, strict=True)
        ]
        return {"bm25": Hits.of_scores(lexical, "text"), "vectors": Hits.of_scores(near, "image")}


def tokens(words: list[str]) -> bm25s.tokenization.Tokenized:
    """Words as BM25 wants them."""
    return bm25s.tokenize(words, show_progress=False)


def main(X: np.ndarray, Y: np.ndarray, captions: np.ndarray) -> Hits:
    """Images (n, d), their captions' vectors (n, c, d) and words (n, c)."""
    kept, asking = np.split(np.arange(len(X)), [BANK])
    half = len(asking) // 2
    images, described = asking[:half], asking[half:]
    engines = Engines(
        {f"photo {i}": X[i] for i in images},
        {f"caption {i}": captions[i, DOCUMENT] for i in described},
    )
    banked = engines.lists(captions[kept, QUERY].tolist(), Y[kept, QUERY])
    background = Background.of_scores(
        {name: hits.scores for name, hits in banked.items()},
        {"bm25": len(described), "vectors": len(images)},
    )
    questions = captions[asking, QUERY].tolist()
    lists = engines.lists(questions, Y[asking, QUERY])
    hits = merge(lists, 10, background)
    for query in (0, half):
        print(f"\n{questions[query]}")
        header, lines = hits.table()
        for line in [header, *(line for line in lines if line[0] == str(query))][: SHOWN + 1]:
            print("  ".join(f"{cell:14}" for cell in line[1:]).rstrip())
    right = [f"photo {i}" for i in images] + [f"caption {i}" for i in described]
    found = np.any(hits.ids == np.array(right)[:, None], axis=1)
    shares = (
        f"{found[:half].mean():.0%} of the photos and {found[half:].mean():.0%} of the captions"
    )
    print(f"\nAmong the first ten of a query are {shares} that it describes.")
    cut = merge(lists, 10, background, at_most=1)
    wrong = np.sum(np.isfinite(cut.scores), axis=1) - np.any(
        cut.ids == np.array(right)[:, None], axis=1
    )
    print(f"Cut at one expected wrong result: {wrong.mean():.1f} others a query; ", end="")
    print(f"nothing found for {cut.nothing_found.mean():.0%} of them.")
    return hits


def digits() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """1,000 scans of digits with five captions each."""
    data = modgap.load_digits()
    n = len(data.X)
    return data.X, data.Y.reshape(n, 5, -1), np.array(data.captions).reshape(n, 5)


def flickr8k(photos: str, rows: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The 1,000 test photos with five captions each."""
    import pyarrow.parquet as pq

    table = pq.read_table(photos, columns=["captions"], filters=[("split", "==", "test")])
    pair = open_pair(rows)
    X, Y = (side.rows().astype(np.float32) for side in (pair.x, pair.y))
    return X, Y.reshape(len(X), 5, -1), np.array(table.column("captions").to_pylist())


if __name__ == "__main__":
    if len(sys.argv) not in (1, 3):
        sys.exit(__doc__)
    main(*(flickr8k(*sys.argv[1:]) if len(sys.argv) == 3 else digits()))
