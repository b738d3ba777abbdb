"""Does a correction help, and does it hurt? Retrieval, mixed search, robustness, significance."""

from modgap.evaluation.correction import Evaluation, correction_scorer, evaluate_correction
from modgap.evaluation.driving_dimensions import DrivingDimensions, driving_dimensions
from modgap.evaluation.evaluator import GOAL_METRICS, Evaluator, Goal, Score, Scores
from modgap.evaluation.mixed import MixedQueries, MixedRetrieval, mixed_retrieval, ndcg
from modgap.evaluation.mixed_by_share import MixedCurve, mixed_curve
from modgap.evaluation.noise import (
    Gaussian,
    Int8,
    Laplace,
    Noise,
    OneBit,
    Quantiser,
    Rademacher,
    Rephrase,
    Uniform,
    UniformQuantiser,
)
from modgap.evaluation.quantised_gap import QuantisedGap, close_quantised_gap
from modgap.evaluation.retrieval import Retrieval, retrieval
from modgap.evaluation.robustness import Robustness, nearest, noise_correlation, robustness
from modgap.evaluation.set_row import SetRow, set_row
from modgap.evaluation.significance import (
    Comparison,
    GroupBootstrap,
    Interval,
    chi_squared,
    compare,
)

__all__ = [
    "GOAL_METRICS",
    "Comparison",
    "DrivingDimensions",
    "Evaluation",
    "Evaluator",
    "Gaussian",
    "Goal",
    "GroupBootstrap",
    "Int8",
    "Interval",
    "Laplace",
    "MixedCurve",
    "MixedQueries",
    "MixedRetrieval",
    "Noise",
    "OneBit",
    "QuantisedGap",
    "Quantiser",
    "Rademacher",
    "Rephrase",
    "Retrieval",
    "Robustness",
    "Score",
    "Scores",
    "SetRow",
    "Uniform",
    "UniformQuantiser",
    "chi_squared",
    "close_quantised_gap",
    "compare",
    "correction_scorer",
    "driving_dimensions",
    "evaluate_correction",
    "mixed_curve",
    "mixed_retrieval",
    "ndcg",
    "nearest",
    "noise_correlation",
    "retrieval",
    "robustness",
    "set_row",
]
