"""Corrections that ship with modgap: for rows of a well-known model, without pairs or a fit.

Each is named by its model and the kind of text it was fitted on. docs/evidence/travel.md shows on
which other rows they serve as well as a correction fitted there, and on which they do not.
"""

from __future__ import annotations

from pathlib import Path

from modgap.core.checks import check_choice
from modgap.corrections.correction import Correction

FOLDER = Path(__file__).parent / "preset_files"
OWNER = "modgap/"  # what stands before the name of a preset where other repositories are named, too
PRESETS = ("clip-vit-b-16-captions", "clip-vit-b-32-captions")


def open_preset(name: str) -> Correction:
    """A correction that ships with modgap, by its name, such as clip-vit-b-32-captions."""
    name = check_choice(name.removeprefix(OWNER), "preset", PRESETS)
    return Correction.load(FOLDER / f"{name}.safetensors")
