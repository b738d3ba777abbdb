"""A command is refused where it would write over what it reads, or one output twice."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from modgap.cli.described import dashed
from modgap.core.checks import InputValueError

# Parameters that say where a command writes. `index build` writes to its address, others read it.
OUTPUTS = ("output", "save_moments", "without_bank", "partial", "picture", "frames", "monitor_file")
# Parameters that are texts and name what is read; those that are a Path are known by their type.
INPUTS = (
    "paths", "documents", "query_rows", "query_groups", "groups", "ids", "path", "a", "b",
    "address", "first", "second", "model", "settings", "generated", "config",
    "old", "new", "new_index",
)  # fmt: skip
# Inputs in which a folder of results may lie: their rows are not found by what the folder holds.
_NOT_ROWS = ("correction", "images", "data", "published")


def keeps_inputs(
    command: Callable[..., None], *writes: str, replaces: bool = False
) -> Callable[..., None]:
    """A command that is refused where it would write over what it reads, or one output twice.

    Its outputs are the parameters among ``OUTPUTS`` and those in ``writes``; ``replaces`` says that
    a folder it writes to is replaced with all in it.
    """

    @functools.wraps(command)
    def run(**given: Any) -> None:
        check_outputs(given, (*OUTPUTS, *writes), replaces=replaces)
        command(**given)

    return run


def check_outputs(
    given: Mapping[str, Any], outputs: Iterable[str] = OUTPUTS, *, replaces: bool = False
) -> None:
    """Refuse an output that is an input, lies among an input's rows, or is named twice."""
    written = {
        name: path for name in outputs if given.get(name) is not None
        for path in [_file_of(str(given[name]))]
    }  # fmt: skip
    read = [
        (name, path)
        for name, value in (given.items() if written else ())
        if name not in written
        for one in (value if isinstance(value, list | tuple) else [value])
        if isinstance(one, Path) or (isinstance(one, str) and name in INPUTS)
        for path in _paths_in(str(one))
    ]
    several = given.get("queries") in ("both", "all")
    for number, (name, path) in enumerate(written.items()):
        for other in list(written)[:number]:
            if _is_same(path, written[other]):
                both = f"{dashed(other)} and {dashed(name)}".replace("--output", "-o")
                raise InputValueError(
                    f"{path} is written to twice, by {both}. Give each a name of its own."
                )
        for role, source in read:
            if _is_same(path, source) or (several and _is_beside(path, source)):
                kind = "a folder" if source.is_dir() else "a file"
                raise InputValueError(f"{source} is {kind} being read. Write to another one.")
            if replaces and path.resolve() in source.resolve().parents:
                raise InputValueError(
                    f"{source} is being read, and lies in {path}, which is replaced. Write to "
                    "another folder."
                )
            if _is_among(path, source, name, role):
                raise InputValueError(
                    f"{path} lies in {source}, which is being read. Write to a place outside it."
                )


def _is_same(one: Path, other: Path) -> bool:
    if one.exists() and other.exists():
        return one.samefile(other)
    return os.path.realpath(one) == os.path.realpath(other)


def _is_beside(path: Path, source: Path) -> bool:
    """Whether a source has one of the names of several corrections: correction-text beside …"""
    beside = source.resolve().parent == path.resolve().parent and source.suffix == path.suffix
    return beside and source.stem.startswith(f"{path.stem}-")


def _is_among(path: Path, folder: Path, name: str, role: str) -> bool:
    """Whether an output would be taken for a shard of a folder that is read."""
    from modgap.io.file_formats import OPENERS

    if not folder.is_dir() or not Path(os.path.realpath(path)).is_relative_to(folder.resolve()):
        return False
    if path.suffix:
        read = {"images": (), "correction": (".safetensors",)}.get(role, tuple(OPENERS))
        return path.suffix.lower() in read
    return role not in _NOT_ROWS and name != "partial"


def _paths_in(text: str) -> set[Path]:
    """What a text names that is there: PATH, NAME=PATH, SCHEME:PATH, PATH:ROW, or several."""
    parts = {text, text.partition("=")[2], *re.split(r"[,+]", text)}
    parts |= {part.partition("=")[2] for part in parts}
    parts |= {half for part in parts for half in (part.rpartition(":")[0], part.partition(":")[2])}
    return {Path(part.strip()) for part in parts if part.strip() and os.path.exists(part.strip())}


def _file_of(text: str) -> Path:
    """The file or folder of an output, which for an index stands behind its scheme."""
    return Path(re.sub(r"^(qdrant|milvus|duckdb|sqlite|chroma):(?!//)", "", text))
