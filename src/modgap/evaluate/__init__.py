"""Does a correction help, and does it hurt? Retrieval, mixed search, robustness, significance."""

from modgap.evaluate.mixed import (
    MixedCurve,
    MixedQueries,
    MixedRetrieval,
    mixed_corpus,
    mixed_curve,
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
from modgap.evaluate.quantise import Int8, OneBit, Quantiser, Quantize
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

__all__ = [
    "Comparison",
    "Gaussian",
    "GroupBootstrap",
    "Int8",
    "Interval",
    "Laplace",
    "MixedCurve",
    "MixedQueries",
    "MixedRetrieval",
    "Noise",
    "OneBit",
    "Quantiser",
    "Quantize",
    "Rademacher",
    "Rephrase",
    "Retrieval",
    "Robustness",
    "Uniform",
    "chi_squared",
    "compare",
    "correction_scorer",
    "mixed_corpus",
    "mixed_curve",
    "mixed_retrieval",
    "ndcg",
    "nearest",
    "noise_correlation",
    "retrieval",
    "robustness",
]
