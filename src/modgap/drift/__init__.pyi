from .answers import SearchAnswers
from .blocked_moments import BlockedMoments
from .detection import detect_drift
from .monitor import GapMonitor
from .named_moments import load_streams, save_streams, streams_of
from .report import CorrectionFit, DriftReport, GapDrift, StreamDrift

__all__ = [
    "BlockedMoments",
    "CorrectionFit",
    "DriftReport",
    "GapDrift",
    "GapMonitor",
    "SearchAnswers",
    "StreamDrift",
    "detect_drift",
    "load_streams",
    "save_streams",
    "streams_of",
]
