from .calibrator import Cutoff, ScoreCalibrator
from .exact import search
from .hits import Hits
from .judged_hits import JudgedHits, judge_hits
from .merging import Background, Found, merge, merge_corrected, search_corrected
from .reliability import Reliability, reliability_curve
from .scores import OtherMetricWarning

__all__ = [
    "Background",
    "Cutoff",
    "Found",
    "Hits",
    "JudgedHits",
    "OtherMetricWarning",
    "Reliability",
    "ScoreCalibrator",
    "judge_hits",
    "merge",
    "merge_corrected",
    "reliability_curve",
    "search",
    "search_corrected",
]
