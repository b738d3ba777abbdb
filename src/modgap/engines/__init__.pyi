from .applying import apply_to_shards
from .batches import (
    MOMENTS_SCHEMA,
    TOP_K_SCHEMA,
    corrected_batch,
    merged_top_k,
    moments_of,
    partial_moments,
    top_k_batch,
)
from .blocked import BlockedMoments
from .comparison import drift
from .drift_report import CorrectionFit, DriftReport, GapDrift, StreamDrift
from .engine import Engine, LocalEngine, open_engine
from .lance_column import add_corrected_column, drop_corrected_column
from .modalities import spread
from .monitor import GapMonitor
from .ranking import retrieval_among_all
from .ray_engine import RayEngine
from .streams import load_streams, save_streams, streams_of

__all__ = [
    "MOMENTS_SCHEMA",
    "TOP_K_SCHEMA",
    "BlockedMoments",
    "CorrectionFit",
    "DriftReport",
    "Engine",
    "GapDrift",
    "GapMonitor",
    "LocalEngine",
    "RayEngine",
    "StreamDrift",
    "add_corrected_column",
    "apply_to_shards",
    "corrected_batch",
    "drift",
    "drop_corrected_column",
    "load_streams",
    "merged_top_k",
    "moments_of",
    "open_engine",
    "partial_moments",
    "retrieval_among_all",
    "save_streams",
    "spread",
    "streams_of",
    "top_k_batch",
]
