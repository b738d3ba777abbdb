"""MixBench, a benchmark of mixed search, with GR-CLIP and what its paper publishes beside."""

from modgap.reproduce.mixbench.scores import MixBenchEvaluation, evaluate_mixbench
from modgap.reproduce.mixbench.subsets import MixBench, MixBenchSubset, open_mixbench

__all__ = [
    "MixBench",
    "MixBenchEvaluation",
    "MixBenchSubset",
    "evaluate_mixbench",
    "open_mixbench",
]
