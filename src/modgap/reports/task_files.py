"""The files of a task: its JSON, and its figures where matplotlib is installed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from modgap.core.checks import MissingExtraError
from modgap.core.files import atomic_path, write_text
from modgap.core.results import to_json
from modgap.tasks import TaskSweep


def write_task(
    found: Mapping[str, Any], result: Any, sweep: TaskSweep | None, folder: Path
) -> list[str]:
    """Write the JSON and the figures into the folder; returns what to say about each.

    Parameters
    ----------
    found : mapping
        The document of the task.
    result : Any
        What was found without a sweep; one with a ``histogram`` gets a figure of its own.
    sweep : TaskSweep or None
        The sweep over corrections.
    folder : path
        Where to write; made where it is missing.
    """
    folder.mkdir(parents=True, exist_ok=True)
    name = found["task"]
    write_text(folder / f"{name}.json", to_json(found) + "\n")
    said = [f"wrote {folder / f'{name}.json'}"]
    figures = {}
    try:
        from modgap.plot import histograms, panels, task_figure

        if sweep is not None:
            figures[name] = task_figure(sweep, title=name)
        if hasattr(result, "histogram"):
            figures[f"{name}_rows"], (axes,) = panels(1, size=(5.2, 3.8))
            histograms(*result.histogram(), xlabel=name, ax=axes)
    except MissingExtraError as missing:
        return [*said, f"modgap: no figure: {missing}"]
    for called, figure in figures.items():
        with atomic_path(folder / f"{called}.png") as path:
            figure.savefig(path, dpi=150)
        said.append(f"wrote {folder / f'{called}.png'}")
    return said
