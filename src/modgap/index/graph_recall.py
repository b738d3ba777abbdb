"""How much a graph that was just built finds, and a warning where that is little."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

import numpy as np

# One graph of all modalities is warned of below this recall@10.
LOW_RECALL = 0.95
SAMPLE_K = 10
# It is measured with so many queries of each modality.
SAMPLE_QUERIES = 200


class LowRecallWarning(UserWarning):
    """A graph that was just built misses much of what an exact search finds."""


def share_found(found: np.ndarray, exact: np.ndarray) -> float:
    """The share of results that score at least what the last of the exact best does."""
    slack = 1e-5 * max(1.0, float(np.abs(exact).max()))
    return float(np.sum(found >= exact[:, -1:] - slack)) / exact.size


def warn_of_low_recall(recall_by_modality: Mapping[str, float], place: str) -> None:
    """Warn of one graph of all modalities that queries of some modality miss much in."""
    low = {name: recall for name, recall in recall_by_modality.items() if recall < LOW_RECALL}
    if low:
        listed = ", ".join(f"{recall:.2f} for {name} queries" for name, recall in low.items())
        warnings.warn(
            f"The one graph of all modalities in {place} has a low recall@{SAMPLE_K} against "
            f"exact search: {listed}. Build one graph for each modality (leave out one_graph, "
            "--one-graph), or search with a larger ef_search.",
            LowRecallWarning,
            stacklevel=4,
        )
