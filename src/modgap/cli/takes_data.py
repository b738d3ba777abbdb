"""Commands that take data: the paths and options of ``open_data`` in place of one argument."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Any, Literal

from modgap.cli.data import open_added, open_data
from modgap.cli.described import dashed, described
from modgap.cli.outputs import check_file, check_folder
from modgap.core.checks import InputValueError


def takes_data(
    *,
    writes: Literal["file", "folder"] | None = None,
    unless: str | None = None,
    adds: Collection[str] = (),
    needs_matches: bool = False,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A command whose first argument is ``data`` takes paths and the options of the data instead.

    They are those of ``open_data``: the paths come first, the options last. Where the command
    writes to its ``output``, that place is checked before anything is read. ``unless`` names an
    option that brings data of its own: with it, there are no paths, and ``data`` is None. ``adds``
    names those with which the data are rows by name, of one modality or several. Where nothing
    tells which rows match, the command says so, unless it refuses them (``needs_matches``).
    """
    return functools.partial(
        _with_data, writes=writes, unless=unless, adds=adds, says=not needs_matches
    )


def _with_data(
    command: Callable[..., None],
    writes: str | None,
    unless: str | None,
    adds: Collection[str],
    says: bool,
) -> Callable[..., None]:
    opening = dict(inspect.signature(described(open_data, "data")).parameters)
    if unless is not None:
        opening["paths"] = opening["paths"].replace(default=None)
    own = list(inspect.signature(command, eval_str=True).parameters.values())[1:]
    first, *options = opening.values()
    taken = [first, *own, *options]
    # Keyword-only: an argument without a default may then follow an option.
    shown = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in taken]

    @functools.wraps(command)
    def run(**given: Any) -> None:
        from modgap.cli.show import say

        if writes == "folder" and given["output"] is not None:
            check_folder(given["output"])
        if writes == "file" and given["output"] is not None:
            check_file(given["output"])
        described = {name: given.pop(name) for name in opening}
        if unless is not None and given[unless] is not None:
            _check_alone(unless, described, opening)
            command(None, **given)
            return
        for option in adds:
            if given[option] is not None:
                _check_alone(option, described, opening, {"paths", "column", "groups"})
                taken = (described[name] for name in ("paths", "column", "groups"))
                command(open_added(option, *taken), **given)
                return
        if not described["paths"]:
            raise InputValueError(f"Give the PATH of the data, or --{unless}.")
        data = open_data(**described)
        if says and data.undecided:
            say(f"modgap: warning: {data.undecided}")
        command(data, **given)

    run.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in shown}
    return run


def _check_alone(
    option: str,
    described: Mapping[str, Any],
    opening: Mapping[str, inspect.Parameter],
    taken: Collection[str] = (),
) -> None:
    """Refuse paths and options of the data beside an option that does not take them."""
    for name, value in described.items():
        if name not in taken and (value or None) != (opening[name].default or None):
            what = value[0] if name == "paths" else dashed(name)
            why = "takes rows as NAME=PATH" if taken else "brings its own data"
            raise InputValueError(f"--{option} {why}, so {what} cannot be given.")
