"""Does a correction help, and does it hurt? Retrieval, mixed search, robustness, significance."""

from modgap.evaluation.conformity_test import ConformityTest, conformity_test
from modgap.evaluation.correction import Evaluation, evaluate_correction
from modgap.evaluation.curve import MixedCurve, mixed_curve
from modgap.evaluation.denigration import Denigration, denigration, denigration_prompts
from modgap.evaluation.evaluator import GOAL_METRICS, Evaluator, Goal, Score, Scores
from modgap.evaluation.mixbench import MixBenchEvaluation, evaluate_mixbench
from modgap.evaluation.mixed import (
    MixedQueries,
    MixedRetrieval,
    mixed_retrieval,
    ndcg,
)
from modgap.evaluation.multiple_choice import MultipleChoice, multiple_choice
from modgap.evaluation.noise import (
    Gaussian,
    Laplace,
    Noise,
    Rademacher,
    Rephrase,
    Uniform,
    noise_correlation,
)
from modgap.evaluation.pair_matching import PairMatching, pair_matching
from modgap.evaluation.probe import LinearProbe, linear_probe
from modgap.evaluation.quantise import Int8, OneBit, Quantiser, UniformQuantiser
from modgap.evaluation.rephrasing import RephrasedChoice, rephrased_choice
from modgap.evaluation.retrieval import Retrieval, retrieval
from modgap.evaluation.robustness import Robustness, nearest, robustness
from modgap.evaluation.scorer import correction_scorer
from modgap.evaluation.significance import (
    Comparison,
    GroupBootstrap,
    Interval,
    chi_squared,
    compare,
)
from modgap.evaluation.zero_shot import ZeroShot, zero_shot
from modgap.evaluation.zero_shot_hubs import ZeroShotHubs, zero_shot_hubs

__all__ = [
    "GOAL_METRICS",
    "Comparison",
    "ConformityTest",
    "Denigration",
    "Evaluation",
    "Evaluator",
    "Gaussian",
    "Goal",
    "GroupBootstrap",
    "Int8",
    "Interval",
    "Laplace",
    "LinearProbe",
    "MixBenchEvaluation",
    "MixedCurve",
    "MixedQueries",
    "MixedRetrieval",
    "MultipleChoice",
    "Noise",
    "OneBit",
    "PairMatching",
    "Quantiser",
    "Rademacher",
    "Rephrase",
    "RephrasedChoice",
    "Retrieval",
    "Robustness",
    "Score",
    "Scores",
    "Uniform",
    "UniformQuantiser",
    "ZeroShot",
    "ZeroShotHubs",
    "chi_squared",
    "compare",
    "conformity_test",
    "correction_scorer",
    "denigration",
    "denigration_prompts",
    "evaluate_correction",
    "evaluate_mixbench",
    "linear_probe",
    "mixed_curve",
    "mixed_retrieval",
    "multiple_choice",
    "ndcg",
    "nearest",
    "noise_correlation",
    "pair_matching",
    "rephrased_choice",
    "retrieval",
    "robustness",
    "zero_shot",
    "zero_shot_hubs",
]
