from .batches import (
    MOMENTS_SCHEMA,
    TOP_K_SCHEMA,
    corrected_batch,
    merged_top_k,
    moments_of,
    partial_moments,
    top_k_batch,
)
from .engine import Engine, LocalEngine, open_engine
from .ray_engine import RayEngine
from .spread import spread

__all__ = [
    "MOMENTS_SCHEMA",
    "TOP_K_SCHEMA",
    "Engine",
    "LocalEngine",
    "RayEngine",
    "corrected_batch",
    "merged_top_k",
    "moments_of",
    "open_engine",
    "partial_moments",
    "spread",
    "top_k_batch",
]
