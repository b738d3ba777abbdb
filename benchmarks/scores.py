"""What ScoreCalibrator's probabilities and cut-offs do: the tables of docs/evidence/scores.md.

    python benchmarks/scores.py precision --clip features_clip.npy
    python benchmarks/scores.py mixed
    python benchmarks/scores.py features --clip features_clip.npy
    python benchmarks/scores.py sizes

The file is CLIP ViT-B/16 on 500 MS-COCO pairs, published with Liang et al. 2022.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression

from modgap import load_digits
from modgap.arrays import top_k
from modgap.search import Background, ScoreCalibrator, judge_hits, merge, search

WANTED = (0.5, 0.7, 0.9)


def clip_halves(rows, seed):
    """Judged hits of both directions on two halves of the pairs."""
    X, Y = rows
    for part in np.array_split(np.random.default_rng(seed).permutation(len(X)), 2):
        yield [
            judge_hits(Y[part], X[part], pair=("text", "image")),
            judge_hits(X[part], Y[part], pair=("image", "text")),
        ]


def digit_halves(digits, seed):
    """The same for the digits; within a modality other captions and scans of the digit match."""
    gx, gy = digits.groups
    for part in np.array_split(np.random.default_rng(seed).permutation(gx), 2):
        x, y = np.isin(gx, part), np.isin(gy, part)
        X, Y, g, h = digits.X[x], digits.Y[y], gx[x], gy[y]
        yield [
            judge_hits(Y, X, (h, g), pair=("text", "image")),
            judge_hits(X, Y, (g, h), pair=("image", "text")),
            judge_hits(Y, groups=h, pair=("text", "text")),
            judge_hits(X, groups=digits.labels[x], pair=("image", "image")),
        ]


def outcome(values, threshold, hits):
    """Precision, and the share of the matches that is kept."""
    right = hits.matches[values >= threshold]
    return (right.mean() if right.size else np.nan), right.sum() / hits.matches.sum()


def lowest_raw(hits, wanted):
    """The lowest raw score at which every pair has the precision, with 20 hits or more."""
    scores = np.concatenate([part.scores.ravel() for part in hits])
    for threshold in np.unique(np.quantile(scores, np.linspace(0, 1, 501))):
        right = [part.matches[part.scores >= threshold] for part in hits]
        if all(r.size >= 20 and r.mean() >= wanted for r in right):
            return threshold
    return np.nan


def precision(rows, splits=10):
    """ECE, and precision and recall at three thresholds, of each pair of modalities."""
    digits = load_digits()
    sets = {"digits": lambda seed: digit_halves(digits, seed)}
    if rows is not None:
        sets["CLIP file"] = lambda seed: clip_halves(rows, seed)
    for name, halves in sets.items():
        for method in ("logistic", "isotonic"):
            one_method(name, method, halves, splits)


def one_method(name, method, halves, splits):
    ece, found = [], []
    for seed in range(splits):
        fit, test = halves(seed)
        calibrator = ScoreCalibrator(method).fit(fit)
        ece.append(
            [
                [calibrator.reliability(hits, strategy=s).ece for s in ("mass", "width")]
                for hits in test
            ]
        )
        raw = {wanted: lowest_raw(fit, wanted) for wanted in WANTED}
        found.append([])
        for hits in test:
            p = calibrator.predict(hits)
            found[-1].append(
                [
                    [
                        outcome(p, calibrator.cutoff(wanted, hits.pair).threshold, hits),
                        outcome(p, calibrator.cutoff(wanted).threshold, hits),
                        outcome(hits.scores, raw[wanted], hits),
                    ]
                    for wanted in WANTED
                ]
            )
    ece, found = np.mean(ece, axis=0), np.mean(found, axis=0)
    rules = ("own threshold", "one threshold", "one raw score")
    for i, hits in enumerate(test):
        print(name, method, "→".join(hits.pair), "ECE", ece[i].round(3))
        for rule, row in zip(rules, found[i].transpose(1, 0, 2), strict=True):
            cells = zip(WANTED, row, strict=True)
            print("   ", rule, *(f"{w}: {a:.2f} (keeps {b:.2f})" for w, (a, b) in cells), sep="  ")


def mixed(splits=10):
    """Captions ask one list of scans and captions, merged by expected wrong results."""
    digits = load_digits()
    X, held, asking = digits.X, digits.Y[0::5], digits.Y[2::5]

    def lists(queries, rows):
        return {"image": search(queries, X[rows], 60), "text": search(queries, held[rows], 60)}

    def merged(rows, bank):
        scores = {name: found[1] for name, found in lists(asking[bank], rows).items()}
        background = Background.of_scores(scores, dict.fromkeys(scores, len(rows)))
        hits = merge(lists(asking[rows], rows), 10, background)
        return hits, hits.ids == np.arange(len(rows))[:, None]

    ece, right = [], []
    for seed in range(splits):
        bank, fit, new = np.split(np.random.default_rng(seed).permutation(1000), [200, 600])
        calibrator = ScoreCalibrator().fit(*merged(fit, bank), modality="text")
        hits, matches = merged(new, bank)
        ece.append(calibrator.reliability(hits, matches=matches, modality="text").ece)
        p = calibrator.predict(hits)
        right.append([])
        for name in ("image", "text"):
            here = hits.modalities == name
            for least in WANTED:
                taken = here & (p >= least)
                right[-1] += [matches[taken].mean(), matches[taken].sum() / matches[here].sum()]
    print("ECE", np.mean(ece).round(3))
    cells = np.mean(right, axis=0).reshape(2, 3, 2)
    for name, line in zip(("text→image", "text→text"), cells, strict=True):
        print(name, *(f"{a:.2f} (keeps {b:.2f})" for a, b in line), sep=" | ")


TRIED = (
    "score",
    "z",
    "score rank",
    "score q·μ spread",
    "score margin",
    "z margin",
    "score margin mean",
    "score margin mean rank",
    "score margin mean q·μ spread",
)


def columns(queries, scores, mean, covariance):
    """What a probability might be read from, by name, one number per hit."""
    m = (queries @ mean)[:, None]
    spread = np.sqrt(np.sum(queries @ covariance * queries, axis=1))[:, None]
    margin = np.concatenate([scores[:, :1] - scores[:, 1:2], scores[:, 1:] - scores[:, :1]], axis=1)
    named = {
        "score": scores,
        "z": (scores - m) / spread,
        "margin": margin,
        "mean": scores.mean(1)[:, None],
        "rank": np.log(np.arange(1, 11)),
        "q·μ": m,
        "spread": np.log(spread),
    }
    return {name: np.broadcast_to(c, scores.shape).ravel() for name, c in named.items()}


def clip_search(rows, part):
    X, Y = (side[part].astype(float) for side in rows)
    best, scores = top_k(Y, X, 10)
    return Y, X, scores, best == np.arange(len(part))[:, None]


def digit_search(digits, part):
    """Text→text, a query left out of its own hits."""
    rows = np.flatnonzero(np.isin(digits.groups[1], digits.groups[0][part]))
    R, g = digits.Y[rows].astype(float), digits.groups[1][rows]
    scores = R @ R.T
    np.fill_diagonal(scores, -np.inf)
    best = np.argsort(-scores, axis=1)[:, :10]
    return R, R, np.take_along_axis(scores, best, 1), g[best] == g[:, None]


def features(rows, splits=10):
    """Log loss on the other half of a logistic regression on each choice of features."""
    digits = load_digits()
    sets = {"digits text→text": (lambda part: digit_search(digits, part), 1000)}
    if rows is not None:
        sets["CLIP text→image"] = (lambda part: clip_search(rows, part), len(rows[0]))
    for name, (found, n) in sets.items():
        losses = [one_split(found, n, seed) for seed in range(splits)]
        for chosen, loss in zip(TRIED, np.mean(losses, axis=0), strict=True):
            print(name, chosen.replace(" ", ", "), loss.round(3), sep="  ")


def one_split(found, n, seed):
    first, second = np.array_split(np.random.default_rng(seed).permutation(n), 2)
    _, documents, *_ = found(first)
    moments = documents.mean(0), np.cov(documents.T, bias=True)
    parts = [found(first), found(second)]
    (A, a), (B, b) = ((columns(Q, s, *moments), y.ravel()) for Q, _, s, y in parts)
    losses = []
    for names in map(str.split, TRIED):
        fit, new = (np.stack([F[c] for c in names], 1) for F in (A, B))
        centre, scale = fit.mean(0), fit.std(0)
        model = LogisticRegression(C=1e3).fit((fit - centre) / scale, a)
        p = model.predict_proba((new - centre) / scale)[:, 1]
        losses.append(-np.mean(np.log(np.where(b, p, 1 - p))))
    return losses


def sizes():
    """Digits, text→image: fitted on an index of one size, evaluated on one of 500 scans."""
    digits = load_digits()
    gx, gy = digits.groups

    def hits(scans):
        x, y = np.isin(gx, scans), np.isin(gy, scans)
        return judge_hits(digits.Y[y], digits.X[x], (gy[y], gx[x]), pair=("text", "image"))

    for n in (50, 100, 250, 500):
        calibrator = ScoreCalibrator().fit(hits(gx[:n]))
        new = hits(gx[500:])
        accepted = calibrator.predict(new) >= calibrator.cutoff(0.7).threshold
        ece = calibrator.reliability(new).ece
        print(n, round(ece, 3), round(new.matches[accepted].mean(), 2))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("table", choices=["precision", "mixed", "features", "sizes"])
    parser.add_argument("--clip", type=Path, help="the published CLIP embeddings")
    parser.add_argument("--splits", type=int, default=10)
    options = parser.parse_args()
    rows = np.load(options.clip) if options.clip else None
    if options.table == "sizes":
        sizes()
    elif options.table == "mixed":
        mixed(options.splits)
    else:
        {"precision": precision, "features": features}[options.table](rows, options.splits)


if __name__ == "__main__":
    main()
