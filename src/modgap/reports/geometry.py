"""What the page shows of the space: cosines, features, shells, and the most typical rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from modgap.io import Modalities
from modgap.measures import Measurement, Profile
from modgap.measures.profile import Typical
from modgap.reports.labels import row_labels
from modgap.reports.thumbnails import data_uri


def geometry_document(
    data: Modalities, known: Profile | None, measurement: Measurement | None
) -> dict[str, Any]:
    """Cosines, features, shells and conformity; None for what the data does not allow."""
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
