"""Options of a command: types and defaults are those of its function, words are in options.toml."""

from __future__ import annotations

import inspect
import tomllib
from collections.abc import Callable
from functools import cache
from importlib import resources
from typing import Annotated, Any, get_origin

import typer


@cache
def _said() -> dict[str, Any]:
    text = (resources.files("modgap.cli") / "options.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def described(command: Callable[..., Any], section: str = "") -> Callable[..., Any]:
    """The same function with every parameter as typer takes it.

    What is said of it stands in the table ``section``, by default of the command's name, or among
    those shared. A parameter that is described in the code already stays as it is.
    """
    said, parameters = _said(), []
    for one in inspect.signature(command, eval_str=True).parameters.values():
        if get_origin(one.annotation) is not Annotated:
            table = said.get(section or command.__name__, {})
            table = table if one.name in table else said["shared"]
            own, panels = table[one.name], table.get("panels", {})
            more = {"help": own} if isinstance(own, str) else dict(own)
            if "argument" in more:
                option = typer.Argument(metavar=more.pop("argument"), **more)
            else:
                dashed = f"--{one.name.replace('_', '-')}"
                words = more.pop("words", ["-o", dashed] if one.name == "output" else [dashed])
                panel = next((name for name, names in panels.items() if one.name in names), None)
                option = typer.Option(*words, rich_help_panel=panel, **more)
            one = one.replace(annotation=Annotated[one.annotation, option])
        parameters.append(one)
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {one.name: one.annotation for one in parameters}
    return command
