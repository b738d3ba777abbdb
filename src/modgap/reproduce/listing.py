"""What there is: every entry, what it needs, whether that is here, and how it came out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from modgap._version import __version__
from modgap.core.results import SCHEMA
from modgap.reproduce.entry import Entry
from modgap.reproduce.record import Recorded
from modgap.reproduce.setting import Setting

LISTING = ("", "needs", "here", "verdict on record")


def list_rows(
    entries: Sequence[Entry], setting: Setting, record: Mapping[str, Recorded]
) -> list[tuple[str, ...]]:
    """A row per entry under the heads of ``LISTING``."""
    return [
        (
            f"{entry.key}  {entry.title}",
            entry.needs,
            _here(entry, setting),
            record[entry.key].words if entry.key in record else "–",
        )
        for entry in entries
    ]


def list_line(entries: Sequence[Entry], setting: Setting) -> str:
    """How many there are, and how many can run."""
    ready = sum(not entry.lacks(setting) for entry in entries)
    return (
        f"{len(entries)} entries, {ready} can run here. "
        "Running one that cannot says exactly what is missing and how to provide it."
    )


def list_document(
    entries: Sequence[Entry], setting: Setting, record: Mapping[str, Recorded]
) -> dict[str, Any]:
    """The same with all that is declared, for JSON."""
    declared = (
        "key", "title", "claim", "needs", "how", "fast", "full", "published", "slips",
    )  # fmt: skip
    listed = []
    for entry in entries:
        known, missing = record.get(entry.key, Recorded("missing", None)), entry.lacks(setting)
        listed.append(
            {name: getattr(entry, name) for name in declared}
            | {"can_run": not missing, "missing": missing}
            | {"evidence": known.evidence, "finding": known.finding}
        )
    head = {"schema": f"modgap/reproduce-list/{SCHEMA}", "version": __version__}
    return {**head, "entries": listed}


def _here(entry: Entry, setting: Setting) -> str:
    if entry.runner(setting) is None:
        return "no model"
    if entry.lacks(setting):
        return "--embeddings DIR"
    return "in part" if entry.needs == "model" else "can run"
