"""Whether models that differ only in their seed have cones of their own (Liang et al., fig. 13)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from modgap.simulate.cone_initialisations import compare_cones

CONES = "cones of the baseline"


def cones(folder: Path) -> dict[str, Any] | None:
    """The cones of the held-out images under every baseline kept in a folder, if there are two."""
    from modgap.io import open_pair

    files = sorted(folder.glob("baseline*.safetensors"))
    if len(files) < 2:
        return None
    found = compare_cones([np.asarray(open_pair(file).x.rows(), np.float32) for file in files])
    return {
        "recipe": CONES,
        "models": len(files),
        "mean_cosine": found.mean_cosine.tolist(),
        "separation": found.separation,
        "told_apart": found.told_apart,
        "neighbours": found.neighbours,
        "between": found.between,
    }
