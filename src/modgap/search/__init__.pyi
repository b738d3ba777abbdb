from .calibrator import Cutoff, ScoreCalibrator
from .exact import search
from .hits import Hits
from .judged_hits import JudgedHits, judge_hits
from .merging import Found, merge
from .reliability import Reliability, reliability_curve
from .scores import OtherMetricWarning

__all__ = [
    "Cutoff",
    "Found",
    "Hits",
    "JudgedHits",
    "OtherMetricWarning",
    "Reliability",
    "ScoreCalibrator",
    "judge_hits",
    "merge",
    "reliability_curve",
    "search",
]
