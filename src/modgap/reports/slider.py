"""The slider: the recommended correction applied little by little, and what the papers do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from modgap.core.results import Progress, by_side
from modgap.corrections import Metric
from modgap.diagnosis import Diagnosis, GapPath, gap_paths
from modgap.diagnosis.path import STEPS
from modgap.io import Modalities
from modgap.measures import Projection
from modgap.reports.fix import not_judged
from modgap.reports.picture import Drawn, short
from modgap.reports.terms import move_words


def slider_document(
    data: Modalities,
    diagnosis: Diagnosis,
    drawn: Drawn,
    found: Sequence[Projection],
    *,
    metric: Metric,
    seed: int,
    progress: Progress | None = None,
) -> tuple[list[dict[str, Any]], str]:
    """The ways of the slider, the recommended one first; and a sentence on those that failed.

    The papers' ways take every other step beside a recommended one, so that the page does not take
    longer to make.
    """
    paths, failures = gap_paths(
        data,
        queries=diagnosis.queries,
        metric=metric,
        diagnosis=diagnosis,
        move_steps=STEPS[::2] if diagnosis.recommended else None,
        seed=seed,
        progress=progress,
    )
    said = " ".join(f"{one} cannot be applied step by step: {why}" for one, why in failures.items())
    return [way_document(path, diagnosis, drawn, found) for path in paths], said


def way_document(
    path: GapPath, diagnosis: Diagnosis, drawn: Drawn, found: Sequence[Projection]
) -> dict[str, Any]:
    """One way: its words, what was measured at each step, and how the drawn rows move."""
    gaps = path.metrics["gap"].tolist()
    # By how many percent each gap is smaller than the first.
    closed = [round(100 * (1 - gap / gaps[0])) if gaps[0] else None for gap in gaps]
    losses = None
    if path.losses is not None:
        losses = {f"{t:g}": row for t, row in zip(path.temperatures, path.losses, strict=True)}
    recommended = path.method == diagnosis.moving
    return {
        **(_recommended_words(path, diagnosis) if recommended else move_words(path.method)),
        "recommended": recommended,
        "method_at_1": path.method,
        "renormalise": path.renormalise,
        "steps": path.steps,
        "gap_closed": closed,
        "metrics": path.metrics,
        "losses": losses,
        "n_groups": path.n_groups,
        "n_pairs": path.n_pairs,
        "move": _move(path, drawn, found),
    }


def _recommended_words(path: GapPath, diagnosis: Diagnosis) -> dict[str, str]:
    what = "Offered" if not_judged(diagnosis) else "Recommended"
    if path.method != diagnosis.recommended:
        what = "Best fixed correction"
    drawn = "Documents are drawn"
    if path.correction.hubs is not None:
        drawn += ", without their column of hubs"
    if path.metric == "inner_product":
        drawn += ", at about the length of the rows as they are, which changes no ranking"
    return {
        "key": "recommended",
        "label": f"{what}: {path.method}",
        "about": f"{what}, applied little by little: on the right, its numbers in the verdict. "
        f"{drawn}."
        + ("" if what[0] != "B" else " Merging by expected wrong results moves no document."),
    }


def _move(path: GapPath, drawn: Drawn, found: Sequence[Projection]) -> dict[str, Any]:
    """What the page needs to place a row v at step t: (1 − t)·v + t·w, w the mapped row.

    Without a matrix w is scale·v + offset, and the page needs only how the offset looks in each
    projection, and its products with the rows. With one it needs every w. Then rows may be brought
    to unit length, and are multiplied by (1 − t) + t·factor; blocks are drawn onto each other.
    """
    linear = {one.method: one.axes for one in found if one.axes is not None}

    def side(name: str, rows: np.ndarray) -> Mapping[str, Any]:
        affine = path.correction.affine(name)
        factor, rows = float(sum(affine.blocks or (1.0,))), rows.astype(np.float64)
        if affine.matrix is None:
            offset = np.zeros(affine.dim_in) if affine.offset is None else affine.offset
            return {
                "factor": factor,
                "scale": affine.scale,
                "dot": short(rows @ offset),
                "square": float(offset @ offset),
                "along": {key: short(axes @ offset) for key, axes in linear.items()},
            }
        mapped = np.asarray(replace(affine, renormalise=False, blocks=None)(rows))
        return {
            "factor": factor,
            "dot": short(np.sum(rows * mapped, axis=1)),
            "square": short(np.sum(mapped**2, axis=1)),
            "ends": {key: [short(c) for c in axes @ mapped.T] for key, axes in linear.items()},
        }

    return by_side([side(name, rows) for name, rows in drawn.rows.items()])
