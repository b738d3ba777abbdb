"""Watches the queries of the live explorer for drift, with metrics for Prometheus."""

from __future__ import annotations

from pathlib import Path

from fastapi import FastAPI
from fastapi.responses import PlainTextResponse

from modgap.core.checks import InputValueError, require
from modgap.core.results import Progress, silent
from modgap.corrections import row_length
from modgap.drift import GapMonitor, streams_of
from modgap.drift.prometheus import CONTENT_TYPE
from modgap.serve.explorer import Explorer
from modgap.serve.workbench import RECOMMENDED


def make_monitor(
    explorer: Explorer, file: Path | None = None, progress: Progress = silent
) -> GapMonitor:
    """A monitor of every search; it compares the queries with the rows that are served.

    Parameters
    ----------
    explorer : Explorer
        What is served.
    file : path, optional
        The saved monitor of an earlier run; this one resumes from it.
    progress : callable, optional
        Called as ``progress(step, done, total)``.
    """
    require("prometheus_client", "monitor", "The monitor of the server")
    data, rows = explorer.data, row_length(explorer.metric)
    if file is not None and file.exists():
        monitor = GapMonitor.load(file)
        kept = set(monitor.reference) & set(data.names)
        if monitor.dim != data.dim or kept != set(data.names) or monitor.rows != rows:
            raise InputValueError(
                f"{file} is of a monitor of other rows ({', '.join(monitor.reference)}, "
                f"{monitor.dim} columns). Give another file, or remove it."
            )
    else:
        monitor = GapMonitor(streams_of(data, rows=rows, progress=progress), rows=rows)
    explorer.monitor = monitor
    return monitor


def add_metrics(app: FastAPI, explorer: Explorer, monitor: GapMonitor) -> None:
    """The address that Prometheus reads."""

    @app.get("/metrics", tags=["server"], response_class=PlainTextResponse)
    def metrics() -> PlainTextResponse:
        """What the monitor of queries has seen, in the text format of Prometheus."""
        recommended = explorer.corrections.listed().get(RECOMMENDED)
        monitor.watch(None if recommended is None else recommended.corrections)
        return PlainTextResponse(monitor.metrics(), media_type=CONTENT_TYPE)
