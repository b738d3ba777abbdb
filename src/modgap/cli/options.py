"""Options that several commands share; their words are in options.toml."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from modgap.cli.described import option
from modgap.core.checks import InputValueError

if TYPE_CHECKING:
    from modgap.corrections import Metric
    from modgap.evaluation import Goal as GoalName
else:  # these take longer to load than help takes to print
    Metric, GoalName = str, str

output_option = partial(typer.Option, "-o", "--output")

TrustRows = Annotated[bool, option("trust_rows")]
WithoutBank = Annotated[Path | None, option("without_bank")]
TrustPairs = Annotated[bool, option("trust_pairs")]
MetricOption = Annotated[Metric, option("metric")]
AskingModality = Annotated[str | None, option("asking")]
Goal = Annotated[GoalName, option("goal")]
Queries = Annotated[str | None, option("queries")]
Model = Annotated[str | None, option("model")]
Bank = Annotated[Path | None, option("bank")]
KeepBank = Annotated[bool, option("keep_bank")]
GroupDuplicates = Annotated[bool, option("group_duplicates")]
Umap = Annotated[bool, option("umap")]
Partial = Annotated[Path | None, option("partial")]
Device = Annotated[str | None, option("device")]
Seed = Annotated[int, option("seed")]
AsJson = Annotated[bool, option("as_json")]
EngineOption = Annotated[str, option("engine")]


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
