"""``--engine``: where the rows are read and the sums are done."""

from __future__ import annotations

from typing import Annotated

import typer

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
