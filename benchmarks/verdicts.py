"""How stable the verdict is: ``diagnose`` with many seeds, judged on rows kept out of everything.

For each seed, groups are set aside before anything is looked at; the others are diagnosed, and the
recommended correction, as it would be written, is evaluated on what was set aside.

python benchmarks/verdicts.py DATA_FOLDER [--seeds 50] [--sets clip,unsplash,imagenet,digits]

DATA_FOLDER holds ``liang2022/features_clip.npy`` and ``published/*.safetensors``.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

from modgap import load_digits
from modgap.corrections import Calibrate, Correction
from modgap.diagnosis import diagnose
from modgap.evaluation import evaluate_correction
from modgap.io import Modalities

KEPT_OUT = {"imagenet": 250}  # of 1,000 classes: 1,000 images
RECALL, NDCG = "image_retrieval_recall@1", "mixed_ndcg@10"


def load(name: str, folder: Path) -> Modalities:
    """One of the sets, with its groups."""
    if name == "digits":
        digits = load_digits()
        return Modalities.of(digits.X, digits.Y, groups=digits.groups)
    if name == "clip":
        return Modalities.of(*np.load(folder / "liang2022" / "features_clip.npy"))
    if name == "unsplash":
        held = load_file(folder / "published" / "unsplash-clip-b32.safetensors")
        return Modalities.of(held["image"], held["text"])
    held = load_file(folder / "published" / "imagenet-clip-b32.safetensors")
    labels = held["labels"].astype(np.int64)
    classes = np.arange(len(held["class_text"]))
    return Modalities.of(held["image"], held["class_text"], groups=(labels, classes))


def one(data: Modalities, n_out: int, seed: int) -> dict[str, object]:
    """The verdict of one seed, and what its correction does on the rows set aside."""
    order = np.random.default_rng(seed).permutation(data.matched_groups)
    aside, rest = data.take_groups(order[:n_out]), data.take_groups(order[n_out:])
    found = diagnose(rest, seed=seed)
    keeps = on_rows_aside(aside, Calibrate().fit(rest).correction_)
    used = None if found.correction is None else on_rows_aside(aside, found.correction)
    return {
        "verdict": found.verdict,
        "recommended": found.recommended,
        "promised": promised(found),
        "keeps": keeps,
        "used": used,
    }


def promised(found: object) -> float | None:
    """The goal that the verdict printed."""
    trials = {trial.method: trial for trial in found.trials}  # type: ignore[attr-defined]
    chosen = trials.get(found.recommended)  # type: ignore[attr-defined]
    return None if chosen is None else chosen.confirm.goal.value.value


def on_rows_aside(aside: Modalities, correction: Correction) -> dict[str, object]:
    """Recall, the mixed index and their changes, for text queries."""
    scores = evaluate_correction(aside, None, correction, queries="text").corrected
    assert scores is not None
    return {name: scores.metrics[name].to_dict() for name in (RECALL, NDCG)}


def row(name: str, runs: list[dict]) -> str:
    """One line of the table."""
    used = [run["used"] for run in runs if run["verdict"] == "use"]
    falls = sum(u[RECALL]["change"]["high"] < 0 for u in used)
    missed = sum(
        run["verdict"] == "leave it alone" and run["keeps"][NDCG]["change"]["low"] > 0
        for run in runs
    )
    methods = Counter(run["recommended"] for run in runs if run["verdict"] == "use")
    chosen = ", ".join(f"{method} {count}" for method, count in methods.most_common())
    mean = {
        key: np.mean([u[key]["value"]["value"] for u in used]) if used else float("nan")
        for key in (RECALL, NDCG)
    }
    was = np.mean([u[NDCG]["value"]["value"] - u[NDCG]["change"]["value"] for u in used])
    change = np.mean([u[RECALL]["change"]["value"] for u in used])
    return (
        f"| {name} | {len(runs)} | {len(used)} | {len(runs) - len(used)} | {missed} | {falls} | "
        f"{change:+.3f} | {was:.3f} | {np.mean([r['promised'] for r in runs if r['promised']]):.3f}"
        f" | {mean[NDCG]:.3f} | {chosen} |"
    )


def main() -> None:
    """Print the table, and keep every run as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--sets", default="digits,clip,unsplash,imagenet")
    parser.add_argument("-o", "--output", type=Path)
    given = parser.parse_args()
    print(
        "| set | seeds | use | leave it alone | of these, a free gain missed | recall falls "
        "beyond chance | mean change of recall@1 | NDCG@10 as it is | printed | on rows kept out "
        "| recommended |\n|---|---|---|---|---|---|---|---|---|---|---|"
    )
    every = {}
    for name in given.sets.split(","):
        data = load(name, given.folder)
        every[name] = [one(data, KEPT_OUT.get(name, 100), seed) for seed in range(given.seeds)]
        print(row(name, every[name]), flush=True)
    if given.output:
        given.output.write_text(json.dumps(every))


if __name__ == "__main__":
    main()
