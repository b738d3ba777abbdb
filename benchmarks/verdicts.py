"""How stable the verdict is: ``diagnose`` with many seeds, judged on rows kept out of everything.

For each seed, groups are set aside before anything is looked at; the others are diagnosed, and the
recommended correction, as it would be written, is evaluated on what was set aside.

    python benchmarks/verdicts.py DATA_FOLDER [--seeds 50] [--sets clip,unsplash] [--jobs 2]

DATA_FOLDER holds ``liang2022/features_clip.npy`` and ``published/*.safetensors``.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file
from scipy.stats import t as student

from mixed import FLICKR8K
from modgap import load_digits
from modgap.corrections import Calibrate, Correction
from modgap.diagnosis import diagnose
from modgap.evaluation import evaluate_correction
from modgap.io import Modalities

# Groups set aside: 250 of 1,000 classes are 1,000 images.
KEPT_OUT = {"imagenet": 250, "flickr8k": 250, "videoclip": 25, "esc50": 12}
NDCG, EXCESS = "mixed_ndcg@10", "own_modality_excess@10"
SETS = ("digits", "clip", "unsplash", "imagenet", "flickr8k", "videoclip", "esc50")


def flickr8k() -> Modalities:
    """Photos with five captions each."""
    held = load_file(FLICKR8K)
    rows = (held[side].astype(np.float32) for side in ("image", "text"))
    return Modalities.of(*rows, groups=(held["image_group"], held["text_group"]))


def load(name: str, folder: Path) -> Modalities:
    """One of the sets, with its groups."""
    if name == "digits":
        digits = load_digits()
        return Modalities.of(digits.X, digits.Y, groups=digits.groups)
    if name in ("clip", "videoclip"):
        return Modalities.of(*np.load(folder / "liang2022" / f"features_{name}.npy"))
    if name == "flickr8k":
        return flickr8k()
    if name == "unsplash":
        held = load_file(folder / "published" / "unsplash-clip-b32.safetensors")
        return Modalities.of(held["image"], held["text"])
    file, side = {
        "imagenet": ("imagenet-clip-b32", "image"), "esc50": ("esc50-clap", "audio")
    }[name]  # fmt: skip
    held = load_file(folder / "published" / f"{file}.safetensors")
    labels = held["labels"].astype(np.int64)
    classes = np.arange(len(held["class_text"]))
    return Modalities.of(held[side], held["class_text"], (side, "text"), groups=(labels, classes))


def one(seed: int, name: str, folder: Path, queries: str) -> dict[str, object]:
    """The verdict of one seed, and what its correction does on the rows set aside."""
    data = load(name, folder)
    asking = data.names[0] if queries == "other" else "text"
    order = np.random.default_rng(seed).permutation(data.matched_groups)
    n_out = KEPT_OUT.get(name, 100)
    aside, rest = data.take_groups(order[:n_out]), data.take_groups(order[n_out:])
    found = diagnose(rest, queries=asking, seed=seed)
    keeps = on_rows_aside(aside, Calibrate().fit(rest, queries=asking).correction_)
    used = None if found.correction is None else on_rows_aside(aside, found.correction)
    return {
        "verdict": found.verdict,
        "recommended": found.recommended,
        "hubs": _hubs_weight(found.correction) > 0,
        "promised": promised(found),
        "keeps": keeps,
        "used": used,
    }


def _hubs_weight(correction: Correction | None) -> float:
    return 0.0 if correction is None or correction.hubs is None else correction.hubs.weight


def promised(found: object) -> float | None:
    """The goal that the verdict printed."""
    trials = {trial.method: trial for trial in found.trials}  # type: ignore[attr-defined]
    chosen = trials.get(found.recommended)  # type: ignore[attr-defined]
    return None if chosen is None else chosen.confirm.goal.value.value


def on_rows_aside(aside: Modalities, correction: Correction) -> dict[str, object]:
    """Recall, the mixed index and its fairness, and their changes."""
    scores = evaluate_correction(aside, None, correction).corrected
    assert scores is not None
    recall = next(name for name in scores.metrics if name.endswith("recall@1"))
    names = {"recall": recall, "ndcg": NDCG, "excess": EXCESS}
    return {key: scores.metrics[name].to_dict() for key, name in names.items()}


def row(name: str, runs: list[dict]) -> str:
    """One line of the table."""
    used = [run["used"] for run in runs if run["used"] is not None]
    falls = sum(u["recall"]["change"]["high"] < 0 for u in used)
    missed = sum(
        run["verdict"] == "leave it alone" and run["keeps"]["ndcg"]["change"]["low"] > 0
        for run in runs
    )
    methods = Counter(run["recommended"] or "leave it alone" for run in runs)
    chosen = ", ".join(f"{method} {count}" for method, count in methods.most_common())
    hubs = [run["used"] for run in runs if run["hubs"]]
    keeps = [run["keeps"] for run in runs]

    def mean(part: list[dict], key: str) -> str:
        return f"{np.nanmean([_number(one[key]['value']) for one in part]):.3f}"

    raw = np.mean([u["ndcg"]["value"]["value"] - u["ndcg"]["change"]["value"] for u in used])
    return (
        f"| {name} | {len(runs)} | {chosen} | {missed} | {falls} | {_gain(used)} | "
        f"{len(hubs)}: {_gain(hubs)} | {raw:.3f}, {mean(keeps, 'ndcg')}, {mean(used, 'ndcg')} | "
        f"{_raw_excess(used):.3f}, {mean(keeps, 'excess')}, {mean(used, 'excess')} |"
    )


def _gain(runs: list[dict]) -> str:
    """Mean change of recall@1 over seeds, with a 95 % interval."""
    if not runs:
        return "–"
    gains = np.array([run["recall"]["change"]["value"] for run in runs])
    error = gains.std(ddof=1) / len(gains) ** 0.5 if len(gains) > 1 else float("nan")
    half = student.ppf(0.975, len(gains) - 1) * error if len(gains) > 1 else float("nan")
    return f"{gains.mean():+.3f} ± {half:.3f}"


def _raw_excess(used: list[dict]) -> float:
    both = [u["excess"] for u in used]
    return float(np.nanmean([_number(one["value"]) - _number(one["change"]) for one in both]))


def _number(interval: dict) -> float:
    """NaN where no result is wrong, so that shares cannot be counted."""
    return float("nan") if interval["value"] is None else interval["value"]


def main() -> None:
    """Print the table, and keep every run as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--queries", choices=("text", "other"), default="text")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("-o", "--output", type=Path)
    given = parser.parse_args()
    print(
        "| set | seeds | recommended | a free gain missed | recall falls beyond chance | change of "
        "recall@1, all | with hubs | NDCG@10 as it is, calibrated, recommended | own-modality "
        "excess@10, the same |\n|---|---|---|---|---|---|---|---|---|"
    )
    every = {}
    with get_context("spawn").Pool(given.jobs) as pool:
        for name in given.sets.split(","):
            task = partial(one, name=name, folder=given.folder, queries=given.queries)
            every[name] = pool.map(task, range(given.seeds), chunksize=1)
            print(row(name, every[name]), flush=True)
            if given.output:
                given.output.write_text(json.dumps(every))


if __name__ == "__main__":
    main()
