"""FAISS indexes of the documents beside the folder of a fix."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from modgap.core.results import Progress
from modgap.corrections import Correction, correction_file_name, file_safe, load_corrections
from modgap.corrections.next_steps import text_search_command
from modgap.corrections.wording import share_metric
from modgap.index import open_index
from modgap.io import Modalities


def build_indexes(
    data: Modalities,
    corrections: Mapping[str, Correction],
    folder: Path,
    progress: Progress | None = None,
) -> dict[Path, Path]:
    """FAISS indexes of all documents beside the folder of a fix, with the corrections they take.

    One serves all queries where their corrections share a metric, else there is one for each.
    """
    several = len(corrections) > 1
    if not several or share_metric(corrections.values()):
        file = correction_file_name(next(iter(corrections)), several=False)
        plan = {beside(folder, ".faiss"): (folder if several else folder / file, dict(corrections))}
    else:
        plan = {
            beside(folder, f"-{file_safe(name)}.faiss"): (
                folder / correction_file_name(name, several=True),
                {name: one},
            )
            for name, one in corrections.items()
        }
    for place, (_, served) in plan.items():
        with open_index(place, served, create=True, replace=True) as index:
            index.write_all(dict(data.sides), progress)
    return {place: path for place, (path, _) in plan.items()}


def index_lines(built: Mapping[Path, Path]) -> Iterator[str]:
    """What indexes were built, and how to search them in words; by their corrections."""
    for place, path in built.items():
        yield f"wrote {place}"
        if "text" in load_corrections(path):
            yield f"next: {text_search_command(str(place), str(path))}"


def beside(folder: Path, ending: str) -> Path:
    """A name beside the folder of a fix."""
    return folder.parent / f"{folder.name}{ending}"
