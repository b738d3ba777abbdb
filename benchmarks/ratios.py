"""What is tried first, over mixing ratios, with matches of both modalities as targets.

    python benchmarks/ratios.py [--splits 10] [--write]

--write puts the tables into docs/evidence/mixed-search.md.

Text queries with several captions of each item: a query's matches are the item's image, or its
other captions. Corrections are fitted on half of the groups and measured on the other half. The
sets are the digits and the held-out rows of the Flickr8k model with pretrained towers.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from mixed import write_into
from modgap import Modalities, load_digits
from modgap.corrections import Calibrate, Corrector, ExpectedWrong
from modgap.evaluation import MixedCurve, mixed_curve
from verdicts import flickr8k

PAGE = Path(__file__).parents[1] / "docs" / "evidence" / "mixed-search.md"
RATIOS = (0.1, 0.25, 0.5, 0.75, 0.9)
METHODS = {
    "as it is": None,
    "`Calibrate()`": Calibrate(),
    "`ExpectedWrong()`": ExpectedWrong(),
}


def digits() -> Modalities:
    """Scans with two captions each."""
    held = load_digits()
    two = held.wording < 2
    return Modalities.of(held.X, held.Y[two], groups=(held.groups[0], held.groups[1][two]))


def curves(data: Modalities, corrector: Corrector | None, splits: int) -> list[MixedCurve]:
    """One for each split, on the half that was not fitted on."""
    found = []
    for seed in range(splits):
        order = np.random.default_rng(seed).permutation(data.matched_groups)
        fit, held = (data.take_groups(half) for half in np.array_split(order, 2))
        correction = None if corrector is None else corrector.fit(fit, queries="text").correction_
        found.append(mixed_curve(held, None, RATIOS, correction=correction, queries="text"))
    return found


def table(data: Modalities, splits: int) -> str:
    """NDCG@10 and own-modality excess by the share of images, means over splits."""
    head = " | ".join(f"{share:.0%}" for share in RATIOS)
    lines = [f"| share of images | {head} |", "|---|" + "--:|" * len(RATIOS)]
    for title, corrector in METHODS.items():
        found = curves(data, corrector, splits)
        ndcg = np.mean([one.ndcg["text"] for one in found], axis=0)
        excess = np.mean([one.own_excess["text"] for one in found], axis=0)
        cells = (f"{n:.3f} ({e:+.3f})" for n, e in zip(ndcg, excess, strict=True))
        lines.append(f"| {title} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Print the tables, and put them into the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    for name, load in {"digits": digits, "flickr8k": flickr8k}.items():
        text = table(load(), given.splits)
        print(f"{name}\n{text}\n", flush=True)
        if given.write:
            write_into(PAGE, f"ratios-{name}", text)


if __name__ == "__main__":
    main()
