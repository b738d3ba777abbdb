from .blocked import BlockedMoments
from .drift import drift
from .drift_report import CorrectionFit, DriftReport, GapDrift, StreamDrift
from .monitor import GapMonitor
from .streams import load_streams, save_streams, streams_of

__all__ = [
    "BlockedMoments",
    "CorrectionFit",
    "DriftReport",
    "GapDrift",
    "GapMonitor",
    "StreamDrift",
    "drift",
    "load_streams",
    "save_streams",
    "streams_of",
]
