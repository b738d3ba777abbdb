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


def option(name: str, *tables: str, **also: Any) -> Any:
    """What typer gets of an option or argument, by the first table that has words for it.

    The last is the table of those shared. ``also`` holds more of what typer takes.
    """
    said = next(_said()[one] for one in (*tables, "shared") if name in _said().get(one, ()))
    own = said[name]
    more = {"help": own} if isinstance(own, str) else dict(own)
    if "argument" in more:
        return typer.Argument(metavar=more.pop("argument"), **more)
    words = more.pop("words", [*(["-o"] if name == "output" else []), dashed(name)])
    panels = said.get("panels", {}).items()
    panel = next((panel for panel, names in panels if name in names), None)
    return typer.Option(*words, **{"rich_help_panel": panel, **more, **also})


def described(command: Callable[..., Any], section: str = "") -> Callable[..., Any]:
    """The same function with every parameter as typer takes it.

    What is said of it stands in the table ``section``, by default of the command's name, in that of
    its group, which is the first word of the section, or among those shared. A parameter that is
    described in the code already stays as it is.
    """
    section = section or command.__name__
    parameters = []
    for one in inspect.signature(command, eval_str=True).parameters.values():
        if get_origin(one.annotation) is not Annotated:
            words = option(one.name, section, section.partition(" ")[0])
            one = one.replace(annotation=Annotated[one.annotation, words])
        parameters.append(one)
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {one.name: one.annotation for one in parameters}
    return command


def dashed(name: str) -> str:
    """The option of a parameter.

    >>> dashed("save_moments")
    '--save-moments'
    """
    return f"--{name.replace('_', '-')}"


def flowing(text: str) -> str:
    """A docstring without line breaks in its paragraphs, which a terminal of any width sets."""
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))
