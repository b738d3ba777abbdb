from .callbacks import hugging_face_callback, lightning_callback, sentence_transformers_evaluator
from .config import Config, make_config
from .config_files import list_presets, load_config
from .data import Data, Split, load_data
from .hooks import Hook, TrainState, at_end, every, gap_monitor
from .images import Augment, decode
from .loggers import JsonLinesLogger, Logger, TensorBoardLogger, WandbLogger
from .loop import train
from .loss import ContrastiveLoss, SentenceTransformersLoss, contrastive, identical
from .loss_sigmoid import SigmoidLoss, sigmoid_contrastive
from .loss_together import align_true_pairs, centroid_uniformity
from .metrics import SplitMetrics, evaluate_rows
from .run import TrainingStopped, TrainResult
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
    "FeatureSwap",
    "FixedTemperature",
    "HardSwap",
    "Hook",
    "JsonLinesLogger",
    "LearnedTemperature",
    "LinearTemperature",
    "Logger",
    "SentenceTransformersLoss",
    "SigmoidLoss",
    "SoftSwap",
    "SoftplusTemperature",
    "Split",
    "SplitMetrics",
    "Swap",
    "Temperature",
    "TensorBoardLogger",
    "TrainResult",
    "TrainState",
    "TrainingStopped",
    "WandbLogger",
    "align_true_pairs",
    "at_end",
    "centroid_uniformity",
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
    "sigmoid_contrastive",
    "train",
]
