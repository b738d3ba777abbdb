"""``--engine``: where the rows are read and the sums are done."""

from __future__ import annotations

from typing import Annotated

import typer

from modgap._validate import InputValueError

EngineOption = Annotated[
    str,
    typer.Option(
        "--engine",
        metavar="local|ray|ray://HOST:PORT",
        help="Where shards are read: here, or on Ray (modgap\\[ray]): a cluster on this machine, "
        "ray:HOST:PORT of one it belongs to, or ray://HOST:PORT of another.",
        rich_help_panel="The machine",
    ),
]


def refuse_here_only(engine: str, **given: object) -> None:
    """Refuse options that hold for this process only, where workers are asked for."""
    for option, value in given.items():
        if engine != "local" and value is not None:
            raise InputValueError(
                f"--{option} cannot be given with --engine {engine}: it is for rows that this "
                "process reads. Leave one of them out."
            )
