"""What the page shows of the space: cosines, features, shells, and the most typical rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from modgap.core.results import by_side
from modgap.io import Modalities
from modgap.measures import Measurement, Profile
from modgap.measures.profile import CosineHistograms, Typical
from modgap.reports.rows import RowPictures, row_labels


def geometry_document(
    data: Modalities,
    known: Profile | None,
    measurement: Measurement | None,
    pictures: RowPictures,
) -> dict[str, Any]:
    """Cosines, features, shells and conformity; None for what the data does not allow."""
    shown: dict[str, Any] = dict.fromkeys(("cosines", "features", "shell", "conformity"))
    if known is None:
        return shown
    features = known.features
    parted = features.separability
    shown["features"] = {
        "separability": parted,
        "order": None if parted is None else np.argsort(-parted, kind="stable"),
        **by_side(features.variance, "variance"),
        **by_side(features.offset, "offset"),
        **by_side(features.dominance, "dominance"),
    }
    if known.cosines is not None:
        histograms = known.cosines.to_dict()
        shown["cosines"] = {**histograms, "mean": _means(known.cosines, measurement)}
    if known.radii is not None:
        spread = [side.given.variance for side in known.moments.values()]
        shells = [m.shell for m in measurement.modalities] if measurement else [None] * len(spread)
        shown["shell"] = {
            **known.radii.to_dict(),
            "radius": [shell and shell.radius for shell in shells],
            "expected": [float(np.sum(np.asarray(v))) ** 0.5 for v in spread],
            "offset": [shell and shell.offset for shell in shells],
        }
    if known.conformity is not None and known.typical is not None:
        both = list(zip(data.names, known.typical, strict=True))
        most, least = (
            [_items(data, name, typical, which, pictures) for name, typical in both]
            for which in ("most", "least")
        )
        shown["conformity"] = {
            **known.conformity.to_dict(),
            **by_side(most, "most"),
            **by_side(least, "least"),
        }
    return shown


def _means(histograms: CosineHistograms, measurement: Measurement | None) -> dict[str, Any]:
    """The mean of each histogram, to the width of its bins; within a modality, as measured."""
    middles = (histograms.edges[1:] + histograms.edges[:-1]) / 2

    def mean(counts: np.ndarray | None) -> float | None:
        total = 0 if counts is None else int(np.sum(counts))
        return float(middles @ np.asarray(counts)) / total if total else None

    cones = [side.cone for side in measurement.modalities] if measurement else []
    within: list[float | None] = [cone.mean for cone in cones if cone is not None]
    if len(within) < len(histograms.within):
        within = [mean(counts) for counts in histograms.within]
    return {
        **by_side(within, "within"),
        "matching": mean(histograms.matching),
        "others": mean(histograms.others),
    }


def _items(
    data: Modalities, name: str, typical: Typical, which: str, pictures: RowPictures
) -> list[dict[str, Any]]:
    rows, values = getattr(typical, which), getattr(typical, f"{which}_values")
    labels = row_labels(data.sides[name], rows) or [None] * len(rows)
    return [
        {
            "row": row,
            "value": value,
            "caption": label,
            "thumbnail": pictures(name, row),
        }
        for row, value, label in zip(rows.tolist(), values.tolist(), labels, strict=True)
    ]
