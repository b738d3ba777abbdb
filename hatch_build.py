"""Builds Plotly's script into the wheel: the page needs only that, its package weighs 64 MB."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from plotly.offline import get_plotlyjs


class PlotlyScript(BuildHookInterface[Any]):
    """Writes ``plotly.min.js`` beside the page's own scripts before a wheel is made."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the script and name it to the wheel, since git ignores it."""
        path = "src/modgap/reports/page/plotly.min.js"
        Path(self.root, path).write_text(get_plotlyjs(), encoding="utf-8")
        build_data["artifacts"].append(path)
