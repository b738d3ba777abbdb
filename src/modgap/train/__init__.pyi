from .callbacks import hugging_face_callback, lightning_callback, sentence_transformers_evaluator
from .config import Config, list_presets, load_config, make_config
from .data import Data, Split, load_data
from .evaluation import Evaluation, evaluate_rows
from .hooks import Hook, State, every, gap_monitor
from .images import Augment, decode
from .loop import TrainingStopped, train
from .loss import ContrastiveLoss, contrastive, identical
from .result import TrainResult
from .sinks import JsonLines, TensorBoard, WeightsAndBiases
from .swap import SWAPS, FeatureSwap, HardSwap, SoftSwap, Swap, make_swap
from .temperature import (
    TEMPERATURES,
    CosineTemperature,
    FixedTemperature,
    LearnedTemperature,
    LinearTemperature,
    SoftplusTemperature,
    Temperature,
    make_temperature,
)

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
