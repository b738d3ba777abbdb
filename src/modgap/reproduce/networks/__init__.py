"""Networks at the papers' full size: random ones, a pretrained one, and ResNet-18 on CIFAR-10.

``python -m modgap.reproduce.networks`` runs them, on a GPU if there is one; what it measured comes
with modgap.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RECORDED = Path(__file__).with_name("recorded.json")
# The convolutional network of which trained weights are at hand, and where its rows are taken, seen
# from its last ReLU.
CNN, PLACES = "EfficientNet-Lite2", ("before", "after")


def read_networks() -> dict[str, Any]:
    """Every run that comes with modgap, by its name."""
    return {run["run"]: run for run in json.loads(RECORDED.read_text(encoding="utf-8"))}
