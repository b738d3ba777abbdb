"""Variants of calibration that were tried and left out; the last table of docs/mixed-search.md.

    python benchmarks/mixed_tried.py [--files features_clip.npy features_videoclip.npy] [--write]

Fitted on half of the groups, measured on the other half, mean of ten splits, half of the items in
the index as X and half as Y, the match of the other modality. Each cell is NDCG@10 of queries of Y
and of queries of X.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from mixed import PAGE, SPLITS, splits, write_into
from modgap import load_digits
from modgap.evaluation import ndcg

BANK = 10  # nearest queries of a bank that make a document's hubness


def spread(queries, covariance):
    """Within-query spread of the scores, over all queries: what Calibrate("keep") divides by."""
    return np.sqrt(np.mean(np.sum(queries @ covariance * queries, axis=1)))


def keep(Q, D, bank, fit):
    return Q @ (D - fit.mean(0)).T / spread(bank, np.cov(fit.T, bias=True))


def query_spread(Q, D, bank, fit):
    own = np.sqrt(np.sum(Q @ np.cov(fit.T, bias=True) * Q, axis=1))
    return Q @ (D - fit.mean(0)).T / own[:, None]


def document_length(Q, D, bank, fit):
    lengths = np.linalg.norm(D - fit.mean(0), axis=1)
    return keep(Q, D, bank, fit) / (lengths / lengths.mean())


def hubness(Q, D, bank, fit):
    hub = np.sort(keep(bank, D, bank, fit), axis=0)[-BANK:].mean(axis=0)
    return keep(Q, D, bank, fit) - 0.5 * hub


VARIANTS = {
    '`Calibrate("keep")`': keep,
    "a spread for each query": query_spread,
    "each document's own length": document_length,
    "half of a document's hubness subtracted": hubness,
}


def cell(X, Y, gx, gy, score) -> str:
    metrics = []
    for seed, fit, rest, kept in splits(X, Y, gx, gy):
        labels = np.random.default_rng(seed).permutation(np.unique(kept[0]))
        as_x = np.isin(kept[0], labels[: len(labels) // 2])
        as_y = ~np.isin(kept[1], labels[: len(labels) // 2])
        documents = rest[0][as_x], rest[1][as_y]
        groups = np.concatenate([kept[0][as_x], kept[1][as_y]])
        line = []
        for side, asks in ((1, ~as_y), (0, ~as_x)):
            Q, g, bank = rest[side][asks], kept[side][asks], fit[side]
            parts = [score(Q, D, bank, F) for D, F in zip(documents, fit, strict=True)]
            best = np.argsort(-np.hstack(parts), axis=1)[:, :10]
            counts = np.array([np.sum(groups == label) for label in g])
            line.append(ndcg(groups[best] == g[:, None], counts).mean())
        metrics.append(line)
    return " / ".join(f"{value:.3f}" for value in np.mean(metrics, axis=0))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=Path, nargs="*", default=[], help="(2, n, d) files")
    parser.add_argument("--write", action="store_true", help="put the table into the page")
    options = parser.parse_args()
    digits = load_digits()
    first = digits.wording == 0
    data = {"digits": (digits.X, digits.Y[first], digits.groups[0], digits.groups[1][first])}
    for path in options.files:
        X, Y = np.load(path)
        data[path.stem.removeprefix("features_")] = (X, Y, np.arange(len(X)), np.arange(len(Y)))
    lines = [f"| {SPLITS} splits | {' | '.join(data)} |", "|---|" + "--:|" * len(data)]
    for name, score in VARIANTS.items():
        cells = [
            cell(X.astype(np.float64), Y.astype(np.float64), gx, gy, score)
            for X, Y, gx, gy in data.values()
        ]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    table = "\n".join(lines)
    print(table)
    if options.write:
        write_into(PAGE, "tried", table)


if __name__ == "__main__":
    main()
