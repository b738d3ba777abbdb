"""What each fixed correction does to one index of both modalities; tables of mixed-search.md.

    python benchmarks/mixed.py [--clip features_clip.npy] [--write]

Fitted on half of the groups, measured on the other half, mean of ten splits. ``--clip`` takes the
embeddings that the authors of Mind the Gap published, a (2, n, d) file. Flickr8k's are in the
repository, embedded by what ``modgap train flickr8k-pretrained`` trains. Both kinds of query are
asked at once, so calibration is in blocks, which score each as the d columns made for it do.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from case import unit
from modgap.corrections import Calibrate, Center
from modgap.evaluation import mixed_retrieval
from modgap.io import open_pair

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "evidence" / "mixed-search.md"
FLICKR8K = ROOT / "tests" / "data" / "flickr8k-pretrained.safetensors"
SPLITS = 10
METHODS = {
    "as it is": None,
    "`Center()`": Center(),
    '`Calibrate("keep")`': Calibrate("keep", "blocks"),
    '`Calibrate("mixed")`': Calibrate("mixed", "blocks"),
    '`Calibrate("keep", form="compromise")`': Calibrate("keep", "compromise"),
}


def splits(X, Y, gx, gy):
    """Fit rows, then held-out rows and their groups, for each split."""
    labels = np.unique(gx)
    for seed in range(SPLITS):
        half = np.random.default_rng(seed).permutation(labels)[: len(labels) // 2]
        x, y = np.isin(gx, half), np.isin(gy, half)
        yield seed, (X[x], Y[y]), (X[~x], Y[~y]), (gx[~x], gy[~y])


def fitted(method, rows):
    return None if method is None else method.fit(*rows).correction_


def table(X, Y, groups, targets: str) -> str:
    pairs = [("text", "image"), ("image", "text")]
    if targets == "both":
        pairs.append(("text", "text"))
    heads = [f"{asking} → {target}" for asking, target in pairs]
    lines = [
        f"| | {' | '.join(heads)} | overall | share off by |",
        "|---|" + "--:|" * (len(pairs) + 2),
    ]
    for name, method in METHODS.items():
        metrics = []
        for seed, fit, rest, kept in splits(X, Y, *groups):
            found = mixed_retrieval(
                *rest, groups=kept, correction=fitted(method, fit), targets=targets, seed=seed
            )
            by_pair = [found.ndcg_of(*pair) for pair in pairs]
            metrics.append([*by_pair, found.ndcg, found.share_off])
        cells = " | ".join(f"{value:.3f}" for value in np.mean(metrics, axis=0))
        lines.append(f"| {name} | {cells} |")
    return "\n".join(lines)


def put(text: str, name: str, content: str) -> str:
    start, end = f"<!-- {name}: start -->", f"<!-- {name}: end -->"
    before, rest = text.split(start)
    return f"{before}{start}\n{content}\n{end}{rest.split(end)[1]}"


def write_into(page: Path, name: str, content: str) -> None:
    """Put a table into its place in a page."""
    text = put(page.read_text(encoding="utf-8"), name, content)
    page.write_text(text, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clip", type=Path, help="the published CLIP embeddings")
    parser.add_argument("--write", action="store_true", help="put the tables into the page")
    options = parser.parse_args()
    tables = {}
    pair = open_pair(FLICKR8K)
    X, Y = (unit(side.rows().astype(np.float32)) for side in (pair.x, pair.y))
    two = np.arange(len(Y)) % 5 < 2  # five captions each, in the order of the images
    rows, groups = (X, Y[two]), (pair.groups[0], pair.groups[1][two])
    tables["flickr8k"] = table(*rows, groups, "both")
    if options.clip:
        X, Y = np.load(options.clip)
        tables["clip"] = table(X, Y, (np.arange(len(X)), np.arange(len(Y))), "other")
    page = PAGE.read_text(encoding="utf-8") if options.write else ""
    for name, content in tables.items():
        print(f"\n{name}\n\n{content}")
        page = put(page, name, content) if options.write else page
    if options.write:
        PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
