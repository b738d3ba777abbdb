"""Recall of quantised and approximate search, raw and corrected: the tables of quantised.md.

    python benchmarks/quantised.py [--only recall|gap|hnsw] [--write]

Needs modgap[faiss], and the embeddings published with Mind the Gap in the folder that
MODGAP_PUBLISHED names.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from hnsw import hnsw_recall
from mixed import write_into
from modgap import load_digits
from modgap.evaluation import close_quantised_gap
from quantised_recall import RecallRetained, recall_retained

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "evidence" / "quantised.md"
PUBLISHED = Path(os.environ.get("MODGAP_PUBLISHED", ROOT.parent / "shared" / "data" / "liang2022"))
CLIP = PUBLISHED / "features_clip.npy"

SETTINGS = ("raw", "rotated", "corrected", "corrected+8")
LEARNED = {
    "raw": {"centre": False, "rotate": "none"},
    "corrected, no rotation": {"centre": True, "rotate": "none"},
    "corrected, random": {"centre": True, "rotate": "random"},
    "corrected, learned": {"centre": True, "rotate": "learned"},
}


def made_up(n: int, dim: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Pairs like CLIP's: means 0.73 long, their cosine 0.31, residuals 0.68 long,
    whose cosine within a pair is 0.31, with a spectrum of variance ∝ 1/i and 200 topics.
    """
    rng = np.random.default_rng(seed)
    spread = (1.0 + np.arange(dim)) ** -0.5
    spread /= np.linalg.norm(spread)
    topics = rng.normal(size=(200, dim)) * spread
    shared = topics[rng.integers(200, size=n)] + rng.normal(size=(n, dim)) * spread
    axes = np.linalg.qr(rng.normal(size=(dim, 2)))[0].T
    means = 0.725 * np.stack([axes[0], 0.31 * axes[0] + (1 - 0.31**2) ** 0.5 * axes[1]])
    sides = []
    for mean in means:
        own = rng.normal(size=(n, dim)) * spread
        rows = mean + 0.685 * (0.31**0.5 * shared / 2**0.5 + 0.69**0.5 * own)
        sides.append((rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32))
    return sides[0], sides[1]


def recall_table(result: RecallRetained) -> str:
    lines = [
        "| bits | documents | bytes | image→text R@1 | text→image R@1 | of float R@1 "
        "| of float R@10 | same first |",
        "|---|---|--:|--:|--:|--:|--:|--:|",
        f"| float | raw | {result.float_bytes} "
        f"| {result.float_recall['text_retrieval_recall@1']:.3f} "
        f"| {result.float_recall['image_retrieval_recall@1']:.3f} | 1 | 1 | 1 |",
    ]
    for code in result.codes:
        lines.append(
            f"| {code.bits} | {code.setting} | {code.bytes_per_vector} "
            f"| {code.recall['text_retrieval_recall@1']:.3f} "
            f"| {code.recall['image_retrieval_recall@1']:.3f} "
            f"| **{code.retained['recall@1']:.3f}** ± {code.standard_error['recall@1']:.3f} "
            f"| {code.retained['recall@10']:.3f} | {code.agreement:.3f} |"
        )
    return "\n".join(lines)


def say(what: str, done: int, total: int) -> None:
    if done == 0:
        print(f"  {what}", file=sys.stderr, flush=True)


def recall_section() -> str:
    X, Y = np.load(CLIP)
    clip = recall_retained(X, Y, settings=SETTINGS, progress=say)
    video = recall_retained(
        *np.load(PUBLISHED / "features_videoclip.npy"), ("4bit", "1bit"), progress=say
    )
    digits = load_digits()
    scans = recall_retained(
        digits.X, digits.Y, groups=digits.groups, settings=LEARNED, n_splits=3, progress=say
    )
    draws = {
        name: [
            recall_retained(X, Y, ("1bit",), settings=(name,), seed=seed).codes[0]
            for seed in (0, 100, 200, 300)
        ]
        for name in SETTINGS
    }
    kept = "; ".join(
        f"{name} " + ", ".join(f"{code.retained['recall@1']:.3f}" for code in codes)
        for name, codes in draws.items()
    )
    return (
        f"CLIP ViT-B/16, 512 columns, {clip.n_queries['image']} documents of each modality, mean "
        f"of {clip.n_splits} splits:\n\n{recall_table(clip)}\n\n"
        "Other splits and rotations give other numbers. 1-bit, share of the float recall@1 in "
        f"four draws of ten (the first is the table's): {kept}.\n\n"
        f"VideoCLIP, 768 columns, {video.n_queries['image']} documents of each modality (learned "
        f"from as few), mean of {video.n_splits} splits:\n\n{recall_table(video)}\n\n"
        f"Digits, 64 columns, {scans.n_queries['image']} scans and {scans.n_queries['text']:,} "
        f"captions, mean of {scans.n_splits} splits:\n\n{recall_table(scans)}"
    )


def gap_section() -> str:
    X, Y = np.load(CLIP)
    lines = [
        "| moved along | search | levels | least gap at | open (0) | closed (1) | least gap |",
        "|---|---|--:|--:|--:|--:|--:|",
    ]
    for direction in ("gap", "orthogonal"):
        for search, queries, candidates in (("image→text", X, Y), ("text→image", Y, X)):
            for found in close_quantised_gap(
                queries, candidates, (32, 64, 128, 256, 512), direction=direction
            ):
                lines.append(
                    f"| {direction} | {search} | {found.levels} | {found.amount:.2f} "
                    f"| {found.robustness_open:.3f} | {found.robustness_closed:.3f} "
                    f"| {found.robustness_least:.3f} |"
                )
    return "\n".join(lines)


def hnsw_table(X: np.ndarray, Y: np.ndarray, **options: int) -> str:
    results = hnsw_recall(X, Y, ef_search=(16, 64, 256), **options)
    lines = [
        "| correction | graph holds | queries | efSearch 16 | 64 | 256 | compared at 64 |",
        "|---|---|---|--:|--:|--:|--:|",
    ]
    for r in sorted(results, key=lambda r: (r.documents != "mixed", r.documents, r.queries)):
        cells = " | ".join(f"{value:.3f}" for value in r.recall)
        lines.append(
            f"| {r.correction} | {r.documents}, {r.n_documents:,} | {r.queries} | {cells} "
            f"| {r.comparisons[1]:,.0f} |"
        )
    return "\n".join(lines)


def hnsw_section() -> str:
    X, Y = made_up(20_500, 256)
    digits = load_digits()
    return (
        "Made-up embeddings, 256 columns (M 32, efConstruction 80, 500 queries):\n\n"
        f"{hnsw_table(X, Y)}\n\n"
        "Digits, 64 columns (M 8, efConstruction 40, 200 queries):\n\n"
        f"{hnsw_table(digits.X, digits.Y, M=8, ef_construction=40, n_queries=200)}"
    )


SECTIONS: dict[str, Callable[[], str]] = {
    "recall": recall_section,
    "gap": gap_section,
    "hnsw": hnsw_section,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=list(SECTIONS))
    parser.add_argument("--write", action="store_true", help="put the tables into the page")
    options = parser.parse_args()
    for name in [options.only] if options.only else SECTIONS:
        print(f"measuring {name} …", file=sys.stderr, flush=True)
        text = SECTIONS[name]()
        print(text, flush=True)
        if options.write:
            write_into(PAGE, name, text)


if __name__ == "__main__":
    main()
