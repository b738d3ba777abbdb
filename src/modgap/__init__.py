"""Measure, explain and fix the modality gap of CLIP-like embeddings.

Names are resolved when first used, so that ``import modgap`` stays light: it loads neither
torch nor scikit-learn nor anything that draws.
"""

from __future__ import annotations

import importlib
from typing import Any

from modgap._version import __version__

# Module of each public name; __init__.pyi tells type checkers the same.
_HOMES = {
    "modgap.measure": (
        "alignment blur cap_fraction cone conformity conformity_difference conformity_divergence "
        "contrastive_loss estimated_conformity feature_divergence feature_offset feature_variance "
        "gap_distance gap_orthogonality gap_vector linear_separability local_gaps loss_terms "
        "margin measure norms off_diagonal_dominance origin_landscape profile projection "
        "separability shell shift_landscape soft_assignments uniformity vslerp "
        "wasserstein_uniformity"
    ),
    "modgap.moments": "Moments PairMoments",
    "modgap.io": "Embeddings open_embeddings open_image_captions open_pair write_embeddings",
    "modgap.datasets": "load_digits",
    "modgap.correct": (
        "Affine Calibrate Center Correction OriginShift OrthogonalShift Procrustes Shift Whiten "
        "check_corrector merge_hits"
    ),
    "modgap.evaluate": (
        "ScoreCalibrator compare judge_hits linear_probe mixed_retrieval noise_correlation "
        "retrieval robustness zero_shot"
    ),
    "modgap.diagnose": "diagnose evaluate_correction gap_paths",
    "modgap.report": "report",
}
_HOME = {name: module for module, names in _HOMES.items() for name in names.split()}

__all__ = ["__version__", *sorted(_HOME)]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'modgap' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
