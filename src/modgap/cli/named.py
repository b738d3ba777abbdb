"""Arguments and options of the form NAME=VALUE, and names with commas between them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from modgap.core.checks import InputValueError


def named_paths(paths: Sequence[str]) -> dict[str, str] | None:
    """The paths by the names that they are given with, as NAME=PATH; None where they have none."""
    named = [is_named(text) for text in paths]
    if not any(named):
        if len(paths) > 2:
            raise InputValueError(
                f"Give more than two files with their names, as NAME=PATH, got {len(paths)}: "
                f"{', '.join(paths)}."
            )
        return None
    if not all(named):
        raise InputValueError(
            f"Give every file with its name, as NAME=PATH, or none, got {', '.join(paths)}. An "
            "option is repeated for each of its values: --documents image=A --documents text=B."
        )
    found = by_name(paths, "Data with names", "NAME=PATH")
    if len(found) == 1:
        raise InputValueError(
            f"Give two modalities or more as NAME=PATH, got {paths[0]} alone. A file that holds "
            "both takes no name."
        )
    return found


def by_name(given: Sequence[str] | None, what: str, form: str) -> dict[str, str]:
    """Texts of the form NAME=VALUE as a mapping."""
    found: dict[str, str] = {}
    for text in given or ():
        name, _, value = text.partition("=")
        if not (name and value):
            raise InputValueError(f"{what} takes {form}, got {text!r}.")
        if name in found:
            raise InputValueError(f"{what} names {name} twice.")
        found[name] = value
    return found


def is_named(text: str) -> bool:
    """Whether a text is NAME=PATH; a path may itself hold the sign."""
    name, equals, _ = text.partition("=")
    return bool(name and equals) and Path(name).name == name and not Path(text).exists()


def set_of_rows(given: str) -> list[str] | dict[str, str]:
    """The paths of a set of rows: one, two with a comma between them, or NAME=PATH for each."""
    parts = [given] if Path(given).exists() else given.split(",")
    named = [is_named(part) for part in parts]
    if all(named):
        return by_name(parts, "A set of rows with names", "NAME=PATH")
    if len(parts) > 2 or any(named):
        raise InputValueError(
            f"A set of rows is one path, two with a comma between them, or NAME=PATH for each, "
            f"got {given!r}."
        )
    return parts


def two_names(names: str) -> tuple[str, str]:
    """The names of two modalities, as ``--names`` gives them."""
    parts = tuple(part.strip() for part in names.split(","))
    if len(parts) != 2:
        raise InputValueError(
            f"--names takes two names with a comma between them, got {names!r}. Give more as "
            "NAME=PATH."
        )
    return parts[0], parts[1]


def groups_by_name(
    groups: str | None, names: Sequence[str], option: str = "--groups"
) -> str | dict[str, str] | None:
    """``--groups`` as given, or by name where it is NAME=… for each side, with commas between."""
    parts = [part.strip() for part in groups.split(",")] if groups else []
    if not parts or not all(part.partition("=")[0] in names and "=" in part for part in parts):
        return groups
    return by_name(parts, option, f"NAME={option.strip('-').upper()}")
