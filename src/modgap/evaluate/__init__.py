"""Does a correction help, and does it hurt? Retrieval, mixed search, robustness, significance."""

from modgap.evaluate.curve import MixedCurve, mixed_curve
from modgap.evaluate.mixed import (
    MixedQueries,
    MixedRetrieval,
    mixed_corpus,
    mixed_retrieval,
    ndcg,
)
from modgap.evaluate.noise import (
    Gaussian,
    Laplace,
    Noise,
    Rademacher,
    Rephrase,
    Uniform,
    noise_correlation,
)
from modgap.evaluate.probability import Cutoff, ScoreCalibrator
from modgap.evaluate.probe import LinearProbe, linear_probe
from modgap.evaluate.quantise import Int8, OneBit, Quantiser, Quantize
from modgap.evaluate.reliability import JudgedHits, Reliability, judge_hits, reliability_curve
from modgap.evaluate.retrieval import Retrieval, retrieval
from modgap.evaluate.robustness import Robustness, nearest, robustness
from modgap.evaluate.scorer import correction_scorer
from modgap.evaluate.significance import (
    Comparison,
    GroupBootstrap,
    Interval,
    chi_squared,
    compare,
)
from modgap.evaluate.zero_shot import ZeroShot, zero_shot

__all__ = [
    "Comparison",
    "Cutoff",
    "Gaussian",
    "GroupBootstrap",
    "Int8",
    "Interval",
    "JudgedHits",
    "Laplace",
    "LinearProbe",
    "MixedCurve",
    "MixedQueries",
    "MixedRetrieval",
    "Noise",
    "OneBit",
    "Quantiser",
    "Quantize",
    "Rademacher",
    "Reliability",
    "Rephrase",
    "Retrieval",
    "Robustness",
    "ScoreCalibrator",
    "Uniform",
    "ZeroShot",
    "chi_squared",
    "compare",
    "correction_scorer",
    "judge_hits",
    "linear_probe",
    "mixed_corpus",
    "mixed_curve",
    "mixed_retrieval",
    "ndcg",
    "nearest",
    "noise_correlation",
    "reliability_curve",
    "retrieval",
    "robustness",
    "zero_shot",
]
