"""The files of the page, read once; only these are ever handed out."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass


@dataclass(frozen=True)
class Asset:
    """One file: its bytes, its type, and a tag that changes when it does."""

    data: bytes
    media_type: str

    @property
    def tag(self) -> str:
        """What the browser asks with whether its copy is still good."""
        return f'"{hashlib.sha256(self.data).hexdigest()[:32]}"'


def live_assets() -> dict[str, Asset]:
    """The page, its scripts and its styles, as the live explorer serves them."""
    from modgap.reports.assemble import plotly_script, script, shell_html, styles

    return {
        "index.html": Asset(shell_html().encode(), "text/html; charset=utf-8"),
        "app.js": Asset(script(live=True).encode(), "text/javascript; charset=utf-8"),
        "plotly.js": Asset(plotly_script().encode(), "text/javascript; charset=utf-8"),
        "app.css": Asset(styles(live=True).encode(), "text/css; charset=utf-8"),
    }
