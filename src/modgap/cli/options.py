"""Options that several commands share."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from modgap.core.checks import InputValueError

if TYPE_CHECKING:
    from modgap.corrections import Metric
    from modgap.evaluation import Goal as GoalName
else:  # these take longer to load than help takes to print
    Metric, GoalName = str, str

output_option = partial(typer.Option, "-o", "--output")

TrustRows = Annotated[
    bool,
    typer.Option(
        "--trust-rows", help="Go on with rows that look like another modality's or another model's."
    ),
]
WithoutBank = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Also write the correction without its bank of queries, which are private: for who "
        "maps queries and stores no documents.",
    ),
]
TrustPairs = Annotated[
    bool,
    typer.Option(
        "--trust-pairs", help="Go on with pairs that look like none, as those of random weights do."
    ),
]
MetricOption = Annotated[
    Metric,
    typer.Option(
        help="How the rows as they are get ranked: cosine, inner_product or euclidean. Corrected "
        "rows are ranked by the correction's own metric."
    ),
]
AskingModality = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="The modality that asks; text where that is a name, else it must be said.",
    ),
]
Goal = Annotated[
    GoalName, typer.Option(help="What to improve: mixed (one index), robust or quantised.")
]
Queries = Annotated[
    str | None,
    typer.Option(
        metavar="NAME|both|all",
        help="Who asks: a modality by name, or both or all, which makes a correction for each. "
        "text where that is a name.",
    ),
]
Model = Annotated[str | None, typer.Option(help="Name of the model, noted in the correction.")]
Bank = Annotated[
    Path | None,
    typer.Option(
        metavar="PATH",
        help="Unlabelled queries of the kind that will be asked, from a query log for instance: "
        "documents that come up for all of them are marked down. By default the rows that ask.",
    ),
]
KeepBank = Annotated[
    bool,
    typer.Option(
        "--keep-bank/--drop-bank",
        help="Whether the correction keeps its bank of queries. Without it new documents cannot be "
        "corrected, and nobody sees the queries.",
    ),
]
Umap = Annotated[
    bool,
    typer.Option(
        "--umap/--no-umap",
        help="Draw UMAP beside PCA and SVD; it takes longer than the rest (modgap\\[umap]).",
    ),
]
Partial = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Keep the moments of each shard in this folder: a run that was stopped goes on from "
        "there, and reads only shards that are new or have changed.",
    ),
]
Device = Annotated[
    str | None,
    typer.Option(
        help="cpu, cuda, cuda:1 …; the first GPU if there is one.", rich_help_panel="The model"
    ),
]
Seed = Annotated[int, typer.Option(min=0, help="Seed of samples, splits and noise.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
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


def refuse(is_wrong: object, why: str) -> None:
    """Refuse what was given, with a sentence that says why and what to give."""
    if is_wrong:
        raise InputValueError(why)


def refuse_here_only(engine: str, **given: object) -> None:
    """Refuse options that hold for this process only, where workers are asked for."""
    for option, value in given.items():
        if engine != "local" and value is not None:
            raise InputValueError(
                f"--{option} cannot be given with --engine {engine}: it is for rows that this "
                "process reads. Leave one of them out."
            )
