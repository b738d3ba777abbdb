"""What options of several commands share beside their words, which are in options.toml."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from modgap.cli.described import option
from modgap.core.checks import InputValueError

if TYPE_CHECKING:
    from modgap.corrections import Metric as Metric
    from modgap.evaluation import Goal as Goal
else:  # these take longer to load than help takes to print
    Metric, Goal = str, str

AskingModality = Annotated[str | None, option("asking")]


def refuse(is_wrong: object, why: str) -> None:
    """Refuse what was given, with a sentence that says why and what to give."""
    if is_wrong:
        raise InputValueError(why)


def refuse_here_only(engine: str, **given: object) -> None:
    """Refuse options that hold for this process only, where workers are asked for."""
    for name, value in given.items():
        refuse(
            engine != "local" and value is not None,
            f"--{name} cannot be given with --engine {engine}: it is for rows that this "
            "process reads. Leave one of them out.",
        )
