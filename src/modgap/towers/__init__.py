"""Small torch encoders built from configurations, with random weights that a seed fixes."""

from modgap.towers.build import KINDS, Kind, Tower, embed, make_tower
from modgap.towers.classify import fit_classifier
from modgap.towers.inputs import digit_inputs, noise_inputs, tokenise
from modgap.towers.normalisation import without_normalisation
from modgap.towers.presets import PRESETS, Preset, Size

__all__ = [
    "KINDS",
    "PRESETS",
    "Kind",
    "Preset",
    "Size",
    "Tower",
    "digit_inputs",
    "embed",
    "fit_classifier",
    "make_tower",
    "noise_inputs",
    "tokenise",
    "without_normalisation",
]
