from .build import Tower, make_tower
from .config import PRESETS, TowerConfig, TwoTowerConfig, find_config
from .tokenizer import Tokenizer, train_tokenizer
from .two_tower import TwoTower, make_two_tower

__all__ = [
    "PRESETS",
    "Tokenizer",
    "Tower",
    "TowerConfig",
    "TwoTower",
    "TwoTowerConfig",
    "find_config",
    "make_tower",
    "make_two_tower",
    "train_tokenizer",
]
