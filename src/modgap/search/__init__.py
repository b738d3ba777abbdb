"""One meaning of a score, larger is nearer: exact search, hits, merging, probabilities, cut-offs.

A score is the cosine, the inner product, or −‖q − d‖² for Euclidean distance.
"""

from modgap.search.calibrator import Cutoff, ScoreCalibrator
from modgap.search.exact import search
from modgap.search.hits import Hits
from modgap.search.judged import JudgedHits, judge_hits
from modgap.search.merging import Found, merge
from modgap.search.reliability import Reliability, reliability_curve
from modgap.search.scores import OtherMetricWarning

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
