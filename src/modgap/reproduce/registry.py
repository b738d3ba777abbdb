"""Where the entries are, and which of them a name means."""

from __future__ import annotations

import importlib
import re
from collections.abc import Sequence

from modgap.core.checks import InputValueError, did_you_mean
from modgap.reproduce.entry import Entry
from modgap.reproduce.paper import Paper

# In the order in which the papers appeared.
PAPERS = ("liang2022", "yaras2024", "levi2025", "chowers2026")
ALL = "all"


def papers() -> tuple[Paper, ...]:
    """The papers with their entries; their modules load neither torch nor anything that draws."""
    return tuple(importlib.import_module(f"{__package__}.{key}").PAPER for key in PAPERS)


def entries() -> dict[str, Entry]:
    """Every entry by its key, paper by paper."""
    return {entry.key: entry for paper in papers() for entry in paper}


def select(names: Sequence[str]) -> tuple[Entry, ...]:
    """The entries that keys, keys of papers and "all" mean, each once, in the papers' order."""
    known = entries()
    wanted: set[str] = set()
    for name in names:
        if name == ALL:
            wanted.update(known)
        elif name in {entry.paper for entry in known.values()}:
            wanted.update(key for key, entry in known.items() if entry.paper == name)
        elif (whole := re.sub(r"(?<=\d)[a-z]$", "", name)) in known:
            wanted.add(whole)  # a part, such as fig2b, is run with its figure
        else:
            # All keys would be too long a list.
            near = " or ".join(repr(key) for key in known if key.endswith(f"/{name}"))
            hint = did_you_mean(name, [*known, *PAPERS, ALL])
            raise InputValueError(
                f"There is no entry {name!r}.{f' Did you mean {near}?' if near else hint} Name a "
                "figure or table, a paper or 'all'; modgap reproduce --list shows them."
            )
    return tuple(entry for key, entry in known.items() if key in wanted)
