"""Training with the gap in hand: temperatures, swaps, losses, a loop with hooks, callbacks.

Names are resolved when first used: a config can be read without torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from modgap._validate import require

if TYPE_CHECKING:
    from modgap.train.callbacks import (
        hugging_face_callback,
        lightning_callback,
        sentence_transformers_evaluator,
    )
    from modgap.train.config import Config, list_presets, load_config, make_config
    from modgap.train.data import Data, Split, load_data
    from modgap.train.evaluation import Evaluation, evaluate_rows
    from modgap.train.hooks import Hook, State, every, gap_monitor
    from modgap.train.images import Augment, decode
    from modgap.train.loop import TrainingStopped, train
    from modgap.train.loss import ContrastiveLoss, contrastive, identical
    from modgap.train.result import TrainResult
    from modgap.train.sinks import JsonLines, TensorBoard, WeightsAndBiases
    from modgap.train.swap import SWAPS, FeatureSwap, HardSwap, SoftSwap, Swap, make_swap
    from modgap.train.temperature import (
        TEMPERATURES,
        CosineTemperature,
        FixedTemperature,
        LearnedTemperature,
        LinearTemperature,
        SoftplusTemperature,
        Temperature,
        make_temperature,
    )

_HOMES = {
    "callbacks": "hugging_face_callback lightning_callback sentence_transformers_evaluator",
    "config": "Config list_presets load_config make_config",
    "data": "Data Split load_data",
    "evaluation": "Evaluation evaluate_rows",
    "hooks": "Hook State every gap_monitor",
    "images": "Augment decode",
    "loop": "TrainingStopped train",
    "loss": "ContrastiveLoss contrastive identical",
    "result": "TrainResult",
    "sinks": "JsonLines TensorBoard WeightsAndBiases",
    "swap": "SWAPS FeatureSwap HardSwap SoftSwap Swap make_swap",
    "temperature": (
        "TEMPERATURES CosineTemperature FixedTemperature LearnedTemperature LinearTemperature "
        "SoftplusTemperature Temperature make_temperature"
    ),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names.split()}
_WITHOUT_TORCH = ("config", "evaluation", "result", "sinks")

__all__ = [
    "SWAPS",
    "TEMPERATURES",
    "Augment",
    "Config",
    "ContrastiveLoss",
    "CosineTemperature",
    "Data",
    "Evaluation",
    "FeatureSwap",
    "FixedTemperature",
    "HardSwap",
    "Hook",
    "JsonLines",
    "LearnedTemperature",
    "LinearTemperature",
    "SoftSwap",
    "SoftplusTemperature",
    "Split",
    "State",
    "Swap",
    "Temperature",
    "TensorBoard",
    "TrainResult",
    "TrainingStopped",
    "WeightsAndBiases",
    "contrastive",
    "decode",
    "evaluate_rows",
    "every",
    "gap_monitor",
    "hugging_face_callback",
    "identical",
    "lightning_callback",
    "list_presets",
    "load_config",
    "load_data",
    "make_config",
    "make_swap",
    "make_temperature",
    "sentence_transformers_evaluator",
    "train",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'modgap.train' has no attribute {name!r}")
    if _HOME[name] not in _WITHOUT_TORCH:
        require("torch", "train", "Training")
    value = getattr(importlib.import_module(f"modgap.train.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
