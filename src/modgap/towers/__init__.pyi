from .build import KINDS, Kind, Tower, embed, make_tower
from .classify import fit_classifier
from .inputs import digit_inputs, noise_inputs, tokenise
from .normalisation import without_normalisation
from .presets import PRESETS, Preset, Size
from .tokenizer import Tokenizer, train_tokenizer
from .two_tower import TwoTower, make_two_tower
from .two_tower_presets import TwoTowerConfig

__all__ = [
    "KINDS",
    "PRESETS",
    "Kind",
    "Preset",
    "Size",
    "Tokenizer",
    "Tower",
    "TwoTower",
    "TwoTowerConfig",
    "digit_inputs",
    "embed",
    "fit_classifier",
    "make_tower",
    "make_two_tower",
    "noise_inputs",
    "tokenise",
    "train_tokenizer",
    "without_normalisation",
]
