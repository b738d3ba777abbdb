"""What was measured of networks at full size, as it comes with modgap."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RECORDED = Path(__file__).with_name("recorded.json")
# The convolutional network of which trained weights are at hand.
CNN = "EfficientNet-Lite2"
# Where its rows are taken, seen from its last ReLU.
PLACES = ("before", "after")


def read_networks() -> dict[str, Any]:
    """Every run by its name."""
    return {run["run"]: run for run in json.loads(RECORDED.read_text(encoding="utf-8"))}
