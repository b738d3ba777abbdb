from .build import Tower, TwoTower, make_tower, make_two_tower
from .config import PRESETS, TowerConfig, TwoTowerConfig, find_config
from .encoders import Encoder, open_encoder
from .export import export_encoder, prune_vocabulary
from .tokenizer import Tokenizer, train_tokenizer

__all__ = [
    "PRESETS",
    "Encoder",
    "Tokenizer",
    "Tower",
    "TowerConfig",
    "TwoTower",
    "TwoTowerConfig",
    "export_encoder",
    "find_config",
    "make_tower",
    "make_two_tower",
    "open_encoder",
    "prune_vocabulary",
    "train_tokenizer",
]
