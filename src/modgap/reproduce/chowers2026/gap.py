"""The gap as it is seen, moved and measured on trained models (figs 1, 2, 13)."""

from __future__ import annotations

import numpy as np

from modgap.datasets import load_digits
from modgap.datasets.digits import WORDINGS
from modgap.measures import gap_orthogonality, linear_separability
from modgap.measures.projection import projection
from modgap.reproduce.chowers2026 import PAPER
from modgap.reproduce.chowers2026.tasks import class_texts, digits_task, tasks
from modgap.reproduce.entry import Number, Outcome, check
from modgap.reproduce.setting import Setting


@PAPER.run("fig1")
def fig1(setting: Setting) -> Outcome:
    """CLIP in three principal components, and scans that each wording reads differently."""
    X, Y = setting.arrays("clip")
    drawn = projection(X, Y, dims=3)
    apart = linear_separability(drawn.x, drawn.y, seed=setting.seed).all_features
    scans = load_digits("test")
    answers = np.stack(
        [np.argmax(scans.X @ class_texts(w).T, axis=1) for w in range(len(WORDINGS))]
    )
    right = (answers == scans.labels).mean(axis=1)
    changed = np.flatnonzero((answers != answers[0]).any(axis=0))
    shown = changed[:6]
    captions = [
        f"{first}, or {next(answer for answer in others if answer != first)}"
        for first, *others in answers[:, shown].T.tolist()
    ]
    measured: dict[str, Number] = {
        "held-out accuracy of a line between the modalities, 3 components": apart,
        "share of the spread in 3 components": None
        if drawn.share is None
        else float(drawn.share.sum()),
        "largest loss of accuracy by wording": np.ptp(right),
        "accuracy in the best wording": right.max(),
        "share of scans whose digit changes with the wording": len(changed) / len(scans.labels),
    }
    return Outcome(
        measured,
        [
            check(
                "In three principal components a plane tells the modalities apart (above 0.99 "
                "on held-out rows).",
                apart > 0.99,
            ),
            check(
                "Some scans are taken for another digit when only the wording changes.",
                len(changed) > 0,
            ),
        ],
        {
            "components": {
                f"1 and {k + 1}": {"x": drawn.x[:, [0, k]], "y": drawn.y[:, [0, k]]} for k in (1, 2)
            },
            "images": scans.images[shown],
            "captions": captions,
        },
    )


@PAPER.run("fig2")
def fig2(setting: Setting) -> Outcome:
    """Accuracy while the texts move along the whole gap, beyond the point where the means meet."""
    amounts = np.linspace(-1, 2, 13).tolist()
    digits, *paired = tasks(setting)
    worded = {"all wordings": digits, "wording 1": digits_task(0), "wording 2": digits_task(1)}
    zero_shot = {name: task.accuracy(amounts, task.gap) for name, task in worded.items()}
    retrieval = {task.name: task.accuracy(amounts, task.gap) for task in paired}
    sweeps = {"digits": zero_shot["all wordings"], **retrieval}
    best = {name: amount for name, (amount, _) in _bests(amounts, sweeps).items()}
    here = amounts.index(0)
    one_for_all = len(set(best.values())) == 1
    measured: dict[str, Number] = {
        "one best amount for all": "yes" if one_for_all else "no",
        **{f"best amount, {name}": v for name, v in best.items()},
        **{f"accuracy at the best, {name}": v.max() for name, v in sweeps.items()},
        **{f"accuracy as trained, {name}": v[here] for name, v in sweeps.items()},
    }
    return Outcome(
        measured,
        [
            check(
                "Accuracy neither rises nor falls throughout as the gap closes, on any task.",
                all(np.diff(v).min() < 0 < np.diff(v).max() for v in sweeps.values()),
            ),
            check("The best amount differs between tasks.", not one_for_all),
        ],
        {
            "amounts": amounts,
            "zero_shot": zero_shot,
            "retrieval": retrieval,
            "zero_shot_best": _bests(amounts, zero_shot),
            "retrieval_best": _bests(amounts, retrieval),
        },
    )


def _bests(amounts: list[float], sweeps: dict[str, np.ndarray]) -> dict[str, tuple[float, float]]:
    """The amount of the best accuracy of each sweep, and that accuracy."""
    return {name: (amounts[int(np.argmax(v))], v.max()) for name, v in sweeps.items()}


@PAPER.run("fig13")
def fig13(setting: Setting) -> Outcome:
    """Cosines between the gap and the centred rows of three systems."""
    digits = load_digits("test")
    rows = {
        "CLIP": setting.arrays("clip"),
        "VideoCLIP": setting.arrays("videoclip"),
        "digits": (digits.X, digits.Y),
    }
    measured: dict[str, Number] = {}
    data, checks = {}, []
    for name, (X, Y) in rows.items():
        found = gap_orthogonality(X, Y, bins=80)
        sides = {"images": found.x, "texts": found.y}
        for side, cosines in sides.items():
            measured[f"mean cosine, {name} {side}"] = cosines.mean
            measured[f"mean absolute cosine, {name} {side}"] = cosines.mean_abs
        checks.append(
            check(
                f"{name}: the mean absolute cosine is below 0.1 in both modalities (above 84°).",
                max(cosines.mean_abs for cosines in sides.values()) < 0.1,
            )
        )
        data[name] = {"edges": found.x.edges, "counts": {k: c.counts for k, c in sides.items()}}
    return Outcome(measured, checks, data)
