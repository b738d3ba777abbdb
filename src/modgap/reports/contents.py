"""Everything the page shows, as one document of plain values. The page computes nothing but moves.

What cannot be shown is named in ``missing`` with the reason, and the rest is shown.
"""

from __future__ import annotations

import base64
import shlex
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from modgap._results import SCHEMA, Progress, document, plain, silent
from modgap._validate import InputError, check_choice
from modgap._version import __version__
from modgap.corrections import METRICS, Correction, Metric
from modgap.diagnosis import Diagnosis, GapPath, diagnose, gap_paths
from modgap.evaluation import GOAL_METRICS, Goal
from modgap.evaluation.metrics import OWN_EXCESS
from modgap.io import Modalities
from modgap.measures import Measurement, Profile, measure, profile
from modgap.measures.profile import Typical
from modgap.reports.picture import (
    choose_drawn,
    path_move,
    picture_document,
    projections,
    row_labels,
)
from modgap.reports.terms import terms
from modgap.reports.thumbnails import data_uri

CORRECTION_FILE = "correction.safetensors"
# A larger correction would make the page too heavy to mail; it has a file of its own.
_MOST_CORRECTION_BYTES = 300_000

_PATHS = {
    "Shift": ("shift", "Close the gap", "Both modalities move toward each other along the gap."),
    "Center": (
        "origin",
        "Subtract the means",
        "Each modality moves to the origin by its own mean, so that both are centred.",
    ),
    "OrthogonalShift": (
        "orthogonal",
        "Close what is orthogonal",
        "Only the second modality moves, along the part of the gap that is orthogonal to how its "
        "rows vary, so that hardly a neighbour changes.",
    ),
}


@dataclass
class _Notes:
    """What is noted on the way: what cannot be shown and why, and what was sampled."""

    missing: dict[str, str] = field(default_factory=dict)
    sampling: list[str] = field(default_factory=list)

    @contextmanager
    def noting(self, why: str, *sections: str) -> Iterator[None]:
        """Note as missing what the data does not allow, and go on."""
        try:
            yield
        except InputError as reason:
            self.missing.update(dict.fromkeys(sections, f"{why}{reason}"))


def contents(
    data: Modalities,
    *,
    goal: Goal = "mixed",
    metric: Metric = "cosine",
    model: str | None = None,
    title: str | None = None,
    diagnosis: Diagnosis | None = None,
    umap: bool | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> tuple[dict[str, Any], Diagnosis | None]:
    """The page's document, and the diagnosis it rests on where there could be one.

    The options are those of ``report``.
    """
    check_choice(goal, "goal", tuple(GOAL_METRICS))
    check_choice(metric, "metric", METRICS)
    say, page = progress or silent, _Notes()
    if diagnosis is None:
        with page.noting("No verdict: ", "verdict"):
            diagnosis = diagnose(
                data, goal=goal, metric=metric, model=model, seed=seed, progress=progress
            )
    say("measuring", 0, 1)
    measurement, known = diagnosis.measurement if diagnosis else None, None
    if measurement is None:
        with page.noting("The measures are missing: ", "landscapes"):
            measurement = measure(data, seed=seed)
    say("distributions of every row", 0, 1)
    with page.noting("Not shown: ", "picture", "cosines", "features", "shell", "conformity"):
        known = profile(data, seed=seed)
    if known is not None and known.cosines is None:
        for section in ("cosines", "shell", "conformity"):
            page.missing[section] = "Not shown: it takes at least two different rows of each side."
    picture, paths = None, []
    if known is not None and data.dim < 2:
        page.missing["picture"] = "Not shown: a picture takes at least two dimensions."
    elif known is not None:
        say("the picture", 0, 1)
        drawn = choose_drawn(data, seed)
        found = projections(drawn, known.moments, umap=umap, seed=seed)
        picture = picture_document(data, drawn, found)
        page.sampling.append(
            f"Drawn are {len(drawn.x):,} of {data.x.n_rows:,} {data.names[0]} rows and "
            f"{len(drawn.y):,} of {data.y.n_rows:,} {data.names[1]} rows"
            + (f", {drawn.n_pairs:,} of them as pairs." if drawn.n_pairs else ".")
        )
        if diagnosis is not None:
            made, failures = gap_paths(data, metric=metric, seed=seed, progress=progress)
            for method, reason in failures.items():
                page.missing["slider"] = f"{method} cannot be moved step by step: {reason}"
            paths = [_path_document(path, path_move(path, drawn, found)) for path in made]
    _say_what_is_missing(data, diagnosis, page)
    return plain(
        {
            "schema": f"modgap/report/{SCHEMA}",
            "version": __version__,
            "seed": seed,
            "title": title or _title(data),
            "names": data.names,
            "model": model,
            "source": [Path(side.source).name for side in data.sides.values()],
            "n": [side.n_rows for side in data.sides.values()],
            "dim": data.dim,
            "paired": data.paired,
            "sampling": [*_sampling(diagnosis, measurement, known), *page.sampling],
            "missing": page.missing,
            "terms": terms(data.names),
            "verdict": _verdict(diagnosis, page),
            "diagnosis": document("diagnose", diagnosis) if diagnosis else None,
            "measurement": measurement.to_dict() if measurement else None,
            "measures": [line.to_dict() for line in measurement.lines()] if measurement else [],
            "fix": _fix(diagnosis, data),
            "picture": picture,
            "paths": paths,
            **_geometry(data, known, measurement),
        }
    ), diagnosis


def _title(data: Modalities) -> str:
    names = [Path(side.source).name for side in data.sides.values()]
    return " and ".join(dict.fromkeys(names))


def _path_document(path: GapPath, move: dict[str, Any]) -> dict[str, Any]:
    key, label, about = _PATHS[path.method.partition("(")[0]]
    losses = None
    if path.losses is not None:
        losses = {f"{t:g}": row for t, row in zip(path.temperatures, path.losses, strict=True)}
    return {
        "key": key,
        "label": label,
        "about": about,
        "method_at_1": path.method,
        "renormalise": path.renormalise,
        "steps": path.steps,
        "metrics": path.metrics,
        "losses": losses,
        "n_groups": path.n_groups,
        "move": move,
    }


def _say_what_is_missing(data: Modalities, diagnosis: Diagnosis | None, page: _Notes) -> None:
    if diagnosis is None:
        page.missing.setdefault("slider", "Numbers on the way need a diagnosis.")
        page.missing["corrections"] = "Corrections are compared only where there is a diagnosis."
    without = [
        name
        for name, side in data.sides.items()
        if row_labels(side, np.zeros(0, dtype=np.int64)) is None
    ]
    if without:
        page.missing["captions"] = (
            f"The rows of {' and '.join(without)} have no captions or ids, so they are called by "
            "their numbers."
        )
    if not data.thumbnails:
        page.missing["thumbnails"] = (
            "No images are at hand. `modgap report --images FOLDER` shows them where the ids of "
            "the rows are their file names."
        )
    if not data.paired:
        page.missing["landscapes"] = "Losses and landscapes need pairs, and none are known."


def _verdict(diagnosis: Diagnosis | None, page: _Notes) -> dict[str, Any]:
    if diagnosis is None:
        return {"verdict": None, "sentences": [page.missing["verdict"]]}
    first, second = diagnosis.names
    gap = diagnosis.measurement.gap_distance
    said = f"The means of {first} and {second} are {gap:.3f} apart"
    own = diagnosis.raw.metrics[OWN_EXCESS].value.value
    if np.isfinite(own):
        said += (
            f"; in one index for both, a query's own modality takes {abs(100 * own):.0f} "
            f"percentage points {'more' if own >= 0 else 'less'} of the wrong results than its "
            "share of the index"
        )
    return {"verdict": diagnosis.verdict, "sentences": [f"{said}.", diagnosis.sentence]}


def _sampling(
    diagnosis: Diagnosis | None, measurement: Measurement | None, known: Profile | None
) -> list[str]:
    said = []
    if measurement is not None:
        said.append(measurement.sampling())
    if known is not None:
        said.append("Features, radii and conformity use every row.")
        if known.cosines is not None:
            n, m = known.cosines.n
            said.append(f"Cosine histograms hold all pairs of {n:,} and {m:,} rows.")
    if diagnosis is not None:
        counts = ", ".join(f"{count:,} to {split}" for split, count in diagnosis.n_groups.items())
        said.append(
            f"Corrections are evaluated on held-out groups: {counts}. Intervals are 95 %, "
            "from 1,000 resamples of the groups they were confirmed on."
        )
    return said


def _fix(diagnosis: Diagnosis | None, data: Modalities) -> dict[str, Any] | None:
    if diagnosis is None or diagnosis.correction is None:
        return None
    return {
        "method": diagnosis.recommended,
        "code": apply_lines(data.names),
        "command": (
            f"modgap apply {CORRECTION_FILE} EMBEDDINGS "
            f"--modality {shlex.quote(data.names[1])} --role query -o OUT"
        ),
        "file": CORRECTION_FILE,
        "data": _encoded(diagnosis.correction),
    }


def apply_lines(names: Sequence[str]) -> str:
    """The three lines of Python that apply a correction file."""
    return (
        f"correction = modgap.Correction.load({CORRECTION_FILE!r})\n"
        f"documents = correction.apply(rows, {names[0]!r})\n"
        f"query = correction.apply(rows, {names[1]!r}, role='query')"
    )


def _encoded(correction: Correction) -> str | None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / CORRECTION_FILE
        correction.save(path)
        if path.stat().st_size > _MOST_CORRECTION_BYTES:
            return None
        return base64.b64encode(path.read_bytes()).decode("ascii")


def _geometry(
    data: Modalities, known: Profile | None, measurement: Measurement | None
) -> dict[str, Any]:
    shown: dict[str, Any] = dict.fromkeys(("cosines", "features", "shell", "conformity"))
    if known is None:
        return shown
    features = known.features
    shown["features"] = {
        "separability": features.separability,
        "order": np.argsort(-features.separability, kind="stable"),
        **{
            f"{name}_{side}": getattr(features, name)[place]
            for name in ("variance", "offset", "dominance")
            for place, side in enumerate("xy")
        },
    }
    if known.cosines is not None:
        histograms = known.cosines.to_dict()
        shown["cosines"] = {**histograms, "mean": _means(histograms)}
    if known.radii is not None:
        spread = [side.given.variance for side in (known.moments.x, known.moments.y)]
        shells = [m.shell for m in measurement.modalities] if measurement else [None, None]
        shown["shell"] = {
            **known.radii.to_dict(),
            "radius": [shell and shell.radius for shell in shells],
            "expected": [float(np.sum(np.asarray(v))) ** 0.5 for v in spread],
            "offset": [shell and shell.offset for shell in shells],
        }
    if known.conformity is not None and known.typical is not None:
        shown["conformity"] = known.conformity.to_dict()
        for side, name, typical in zip("xy", data.names, known.typical, strict=True):
            for which in ("most", "least"):
                shown["conformity"][f"{which}_{side}"] = _items(data, name, typical, which)
    return shown


def _means(histograms: dict[str, Any]) -> dict[str, float | None]:
    """The mean of each histogram, to the width of its bins."""
    edges = np.asarray(histograms["edges"])
    middles = (edges[1:] + edges[:-1]) / 2
    means: dict[str, float | None] = {}
    for name in ("within_x", "within_y", "matching", "others"):
        counts = histograms[name]
        total = 0 if counts is None else sum(counts)
        means[name] = float(middles @ np.asarray(counts)) / total if total else None
    return means


def _items(data: Modalities, name: str, typical: Typical, which: str) -> list[dict[str, Any]]:
    rows, values = getattr(typical, which), getattr(typical, f"{which}_values")
    labels = row_labels(data.sides[name], rows) or [None] * len(rows)
    thumbnail = data.thumbnails.get(name)
    return [
        {
            "row": row,
            "value": value,
            "caption": label,
            "thumbnail": data_uri(thumbnail(row)) if thumbnail else None,
        }
        for row, value, label in zip(rows.tolist(), values.tolist(), labels, strict=True)
    ]
