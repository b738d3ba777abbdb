from .arrow import (
    MOMENTS_SCHEMA,
    TOP_K_SCHEMA,
    corrected_batch,
    merged_top_k,
    moments_of,
    partial_moments,
    top_k_batch,
)
from .corrected_folder import apply_to_folder
from .engine import Engine, LocalEngine, open_engine
from .lance_column import add_corrected_column, drop_corrected_column
from .ray_engine import RayEngine
from .sharded_retrieval import retrieval_among_all
from .spread_modalities import spread

__all__ = [
    "MOMENTS_SCHEMA",
    "TOP_K_SCHEMA",
    "Engine",
    "LocalEngine",
    "RayEngine",
    "add_corrected_column",
    "apply_to_folder",
    "corrected_batch",
    "drop_corrected_column",
    "merged_top_k",
    "moments_of",
    "open_engine",
    "partial_moments",
    "retrieval_among_all",
    "spread",
    "top_k_batch",
]
