"""Torch encoders built from configurations, and two-tower models with their tokenizers."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from modgap.towers.build import KINDS, Kind, Tower, embed, make_tower
from modgap.towers.classify import fit_classifier
from modgap.towers.inputs import digit_inputs, noise_inputs, tokenise
from modgap.towers.normalisation import without_normalisation
from modgap.towers.presets import PRESETS, Preset, Size
from modgap.towers.two_tower_presets import TwoTowerConfig

if TYPE_CHECKING:
    from modgap.towers.tokenizer import Tokenizer, train_tokenizer
    from modgap.towers.two_tower import TwoTower, make_two_tower

# Their modules load torch, so they wait until they are asked for.
_LATER = {
    "Tokenizer": "tokenizer",
    "train_tokenizer": "tokenizer",
    "TwoTower": "two_tower",
    "make_two_tower": "two_tower",
}

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


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'modgap.towers' has no attribute {name!r}")
    return getattr(importlib.import_module(f"modgap.towers.{_LATER[name]}"), name)
