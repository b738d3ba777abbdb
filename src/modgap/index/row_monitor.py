"""What may watch the rows that pass through an index."""

from __future__ import annotations

import logging
from typing import Any, Protocol

_log = logging.getLogger(__name__)


class RowMonitor(Protocol):
    """What may watch the rows that pass through an index, as `modgap.GapMonitor` is."""

    def add(self, name: str, rows: Any) -> None:
        """Rows as the model gives them; ``name`` is a modality, or "text queries"."""

    def add_results(self, name: str, results: Any) -> None:
        """What queries of this name found among the documents of all modalities, as `Hits`."""


def tell(monitor: RowMonitor | None, name: str, rows: Any = None, results: Any = None) -> None:
    """Tell a monitor of rows, or of results; what goes wrong there must not stop a search."""
    if monitor is None:
        return
    try:
        if results is None:
            monitor.add(name, rows)
        else:
            monitor.add_results(name, results)
    except Exception:
        _log.warning("The monitor failed on %s rows.", name, exc_info=True)
