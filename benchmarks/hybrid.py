"""One list from BM25 and from image vectors: by expected wrong results, and by what people use.

    python benchmarks/hybrid.py flickr8k-112.parquet [--splits 30] [--save FILE] [--write]

The 1,000 test photos of Flickr8k in the vectors of two towers trained on 6,000 others (preset
flickr8k-pretrained: EfficientNet-Lite2 and all-MiniLM-L6-v2). In each split 200 photos give the
bank, one caption each. The other 800 stand in the index: as an image, found by vectors, or as one
of their captions, found by BM25; with answers of both kinds, some as both. Queries are other
captions of them. Methods get the best 30 of each list, DBSF also the best 10 only. Equal scores are
broken by chance.
"""

from __future__ import annotations

import argparse
import json
from datetime import date
from pathlib import Path

import bm25s
import numpy as np
import pyarrow.parquet as pq
from safetensors.numpy import load_file

from mixed import write_into
from modgap.search import Background, merge, search
from results import commit, machine

ROOT = Path(__file__).parents[1]
ROWS = ROOT / "tests" / "data" / "flickr8k-pretrained.safetensors"
PAGE = ROOT / "docs" / "evidence" / "scores.md"
N_BANK, DEPTH, BANK_DEPTH, DEEP = 200, 30, 60, 10
# Lexical documents to images.
RATIOS = {"1:1": (1, 1), "10:1": (10, 1), "1:10": (1, 10)}
ASKED = (0.5, 1.0, 5.0)
DRAWS = 2000


class Photos:
    """Vectors of images (n, d) and of their captions (n, 5, d), and the words of these."""

    def __init__(self, parquet: Path) -> None:
        table = pq.read_table(parquet, columns=["captions"], filters=[("split", "==", "test")])
        held = load_file(ROWS)
        self.images = held["image"].astype(np.float32)
        n = len(self.images)
        self.vectors = held["text"].astype(np.float32).reshape(n, 5, -1)
        self.words = np.array(table.column("captions").to_pylist())

    def lists(self, asking, images, captions, documents, queries, depth):
        """Numbers of photos and scores, (n, depth) each, of both lists; −∞ where it has fewer."""
        rows, cosines = search(
            self.vectors[asking, queries[asking]], self.images[images], min(depth, len(images))
        )
        engine = bm25s.BM25()
        engine.index(tokens(self.words[captions, documents[captions]]), show_progress=False)
        found, scores = engine.retrieve(
            tokens(self.words[asking, queries[asking]]),
            k=min(depth, len(captions)),
            show_progress=False,
        )
        # A caption that shares no word with the query is not found.
        scores = np.where(scores > 0, scores.astype(np.float64), -np.inf)
        return {"image": (images[rows], cosines), "caption": (captions[found], scores)}


def tokens(words):
    return bm25s.tokenize(words.tolist(), show_progress=False)


def rrf(scores):
    """Reciprocal rank fusion, k = 60."""
    return np.broadcast_to(1 / (60 + np.arange(scores.shape[1])), scores.shape)


def dbsf(scores):
    """Distribution-based score fusion: mean ± 3 standard deviations of the results to 0 … 1."""
    known = np.ma.masked_invalid(scores)
    mean, spread = known.mean(axis=1).filled(0.0), known.std(axis=1).filled(0.0)
    low = (mean - 3 * spread)[:, None]
    width = np.where(spread > 0, 6 * spread, 1.0)[:, None]
    return np.where(spread[:, None] > 0, np.clip((scores - low) / width, 0, 1), 0.5)


def min_max(scores):
    """The worst result to 0, the best to 1."""
    known = np.ma.masked_invalid(scores)
    low, high = (edge.filled(0.0)[:, None] for edge in (known.min(axis=1), known.max(axis=1)))
    return np.where(high > low, (scores - low) / np.where(high > low, high - low, 1.0), 1.0)


def of_ten(method, scores):
    """A method that sees the ten best of a list, and finds only them."""
    found = np.full(scores.shape, -np.inf)
    found[:, :DEEP] = method(scores[:, :DEEP])
    return found


def split(photos, seed, answers, ratio, log=False):
    """One draw; with ``log`` the bank's own photos stand in the index, too.

    NDCG@10 of each query by method, which photos ask, where answers are, and wrong results.
    """
    rng = np.random.default_rng(seed)
    n = len(photos.images)
    order = rng.permutation(n)
    bank, held = (order[:N_BANK], rng.permutation(n)) if log else np.split(order, [N_BANK])
    lexical, visual = RATIOS[ratio]
    if answers == "one":
        captions, images = np.split(held, [round(len(held) * lexical / (lexical + visual))])
    else:
        captions, images = (held[: round(len(held) * min(1, one / other))]
                            for one, other in ((lexical, visual), (visual, lexical)))  # fmt: skip
    documents = rng.integers(0, 5, n)
    queries = (documents + rng.integers(1, 5, n)) % 5
    asking = held if answers == "one" else np.intersect1d(images, captions)
    asking = np.setdiff1d(asking, bank)
    where = images, captions, documents, queries
    sizes = {"image": len(images), "caption": len(captions)}
    banked = photos.lists(bank, *where, BANK_DEPTH)
    background = Background.of_scores({name: scores for name, (_, scores) in banked.items()}, sizes)
    lists = photos.lists(asking, *where, DEPTH)
    right = np.stack([np.isin(asking, images), np.isin(asking, captions)], axis=1)
    merged = merge(lists, 2 * DEPTH, background)
    by_documents = merge(lists, DEEP, background, weights=sizes)
    rankings = {
        **{title: {name: method(scores) for name, (_, scores) in lists.items()}
           for title, method in RIVALS.items()},
        "images alone": {"image": lists["image"][1]},
        "BM25 alone": {"caption": lists["caption"][1]},
    }  # fmt: skip
    matched = merged.ids == asking[:, None]
    scores = {
        "E": ndcg(matched[:, :DEEP], right),
        "E, by documents": ndcg(by_documents.ids == asking[:, None], right),
        **{title: ndcg(first_ten(lists, values, asking, rng), right)
           for title, values in rankings.items()},
    }  # fmt: skip
    wrong = {asked: np.sum((merged.expected_wrong <= asked) & ~matched, axis=1) for asked in ASKED}
    kept = {
        asked: np.sum((merged.expected_wrong <= asked) & matched, axis=1) / right.sum(axis=1)
        for asked in ASKED
    }
    return scores, asking, right, wrong, kept


def first_ten(lists, values, asking, rng):
    """Which of the first ten are matches, (n, 10), with equal values in an order of chance."""
    ids = np.hstack([lists[name][0] for name in values])
    ranks = np.hstack(
        [np.where(np.isneginf(lists[name][1]), -np.inf, of) for name, of in values.items()]
    )
    order = np.lexsort((rng.random(ranks.shape), -ranks), axis=1)[:, :DEEP]
    found = np.take_along_axis(ids == asking[:, None], order, axis=1)
    return found & np.isfinite(np.take_along_axis(ranks, order, axis=1))


def ndcg(found, right):
    """NDCG@10 of each query, from which of its results are matches."""
    gains = 1 / np.log2(np.arange(2, DEEP + 2))
    ideal = np.cumsum(gains)[right.sum(axis=1) - 1]
    return found @ gains[: found.shape[1]] / ideal


RIVALS = {
    "RRF": rrf,
    "DBSF of 30": dbsf,
    "DBSF of 10": lambda scores: of_ten(dbsf, scores),
    "min-max": min_max,
}


OURS = ("E", "E, by documents")
TITLES = (*OURS, *RIVALS, "images alone", "BM25 alone")


class Means:
    """Sums over splits by photo, for means over queries and intervals over photos."""

    def __init__(self, n):
        self.sums, self.counts = {}, np.zeros((2, n))

    def add(self, title, photos, side, values):
        held = self.sums.setdefault(title, np.zeros((2, self.counts.shape[1])))
        np.add.at(held, (side, photos), values)

    def count(self, photos, side):
        np.add.at(self.counts, (side, photos), 1)

    def of(self, title, against=None, weights=None, each="lists"):
        """The mean over queries, or over both lists' means; of a difference with ``against``."""
        sums = self.sums[title] - (0 if against is None else self.sums[against])
        counts = self.counts
        if weights is not None:
            sums, counts = sums * weights, counts * weights
        if each == "documents" or not counts[1].any():
            return float(sums.sum() / counts.sum())
        return float(np.mean(sums.sum(axis=1) / counts.sum(axis=1)))

    def interval(self, title, against, each, seed=0):
        """95 %, over photos drawn anew."""
        rng = np.random.default_rng(seed)
        n = self.counts.shape[1]
        drawn = [
            self.of(title, against, np.bincount(rng.integers(0, n, n), minlength=n), each)
            for _ in range(DRAWS)
        ]
        return [round(float(q), 4) for q in np.quantile(drawn, (0.025, 0.975))]


def of_log(photos, ratio, splits):
    """Wrong results asked for and got where the bank's queries have matches that nobody marked."""
    got = []
    for seed in range(splits):
        *_, wrong, _ = split(photos, seed, "one", ratio, log=True)
        got.append([wrong[asked].mean() / asked for asked in ASKED])
    return {
        "bank": "log",
        "ratio": ratio,
        "asked": ASKED,
        "got per asked": np.mean(got, axis=0).round(3).tolist(),
    }


def study(photos, answers, ratio, splits):
    """Rows of figures: means with what E is above them by, and wrong results asked for and got."""
    means, wrong, kept = Means(len(photos.images)), [], []
    for seed in range(splits):
        scores, asking, right, seen, matched = split(photos, seed, answers, ratio)
        # Answers of one kind are counted by their list, those of both together.
        side = np.where(right[:, 0], 0, 1) if answers == "one" else np.zeros(len(asking), int)
        means.count(asking, side)
        for title, values in scores.items():
            means.add(title, asking, side, values)
        wrong.append([seen[asked].mean() / asked for asked in ASKED])
        kept.append([matched[asked].mean() for asked in ASKED])
    case = {"answers": answers, "ratio": ratio}
    for alike in ("lists", "documents") if answers == "one" else ("documents",):
        for title in means.sums:
            row = {**case, "alike": alike, "method": title}
            row["ndcg@10"] = round(means.of(title, each=alike), 4)
            for ours in OURS if title not in OURS else ():
                row[f"{ours} above"] = round(means.of(ours, title, each=alike), 4)
                row[f"{ours} above, interval"] = means.interval(ours, title, alike)
            yield row
    yield {
        **case,
        "asked": ASKED,
        "got per asked": np.mean(wrong, axis=0).round(3).tolist(),
        "matches kept": np.mean(kept, axis=0).round(3).tolist(),
    }


def table(rows) -> str:
    """The table of the page."""
    lines = [
        f"| answers | lexical : images | {' | '.join(TITLES)} | above the best other merging |",
        f"|---|---|{'--:|' * len(TITLES)}--:|",
    ]
    for answers, ratio, alike in dict.fromkeys(
        (row["answers"], row["ratio"], row["alike"]) for row in rows if "alike" in row
    ):
        case = (answers, ratio, alike)
        found = {
            row["method"]: row
            for row in rows
            if "alike" in row and (row["answers"], row["ratio"], row["alike"]) == case
        }
        if answers == "one" and ratio == "1:1" and alike == "documents":
            continue  # the lists are alike
        ours = OURS[answers == "one" and alike == "documents"]
        best = max((found[name] for name in RIVALS), key=lambda row: row["ndcg@10"])
        low, high = best[f"{ours} above, interval"]
        cells = [
            f"{'**' * (title == ours)}{found[title]['ndcg@10']:.3f}{'**' * (title == ours)}"
            for title in TITLES
        ]
        kind = {"both": "both kinds"}.get(answers, f"one kind, {alike} alike")
        above = f"{best[f'{ours} above']:+.3f} [{low:+.3f}, {high:+.3f}]".replace("-", "−")
        lines.append(f"| {kind} | {ratio} | {' | '.join(cells)} | {above} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parquet", type=Path, help="flickr8k-112.parquet")
    parser.add_argument("--splits", type=int, default=30)
    parser.add_argument("--save", type=Path, help="a JSON file of all figures")
    parser.add_argument(
        "--write", action="store_true", help="put the table into docs/evidence/scores.md"
    )
    options = parser.parse_args()
    photos, rows = Photos(options.parquet), []
    for answers in ("one", "both"):
        for ratio in RATIOS:
            rows += study(photos, answers, ratio, options.splits)
            print(json.dumps(rows[-1]))
    rows += [of_log(photos, ratio, options.splits) for ratio in RATIOS]
    print(*map(json.dumps, rows[-len(RATIOS) :]), table(rows), sep="\n")
    if options.save:
        record = {"machine": machine(), "date": date.today().isoformat(), "commit": commit()}
        record["splits"] = options.splits
        options.save.write_text(json.dumps({**record, "rows": rows}, indent=1), encoding="utf-8")
    if options.write:
        write_into(PAGE, "hybrid", table(rows))


if __name__ == "__main__":
    main()
