"""Options that several commands share, and how they turn into embeddings."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from modgap._validate import InputValueError, check_names

if TYPE_CHECKING:
    from modgap.io import EmbeddingPair

_DATA = "The data"

PathX = Annotated[
    Path,
    typer.Argument(
        metavar="PATH",
        help="Embeddings: .npy (one modality, or both stacked as 2 × n × d), .npz, .safetensors, "
        ".pt, .parquet, or a clip-retrieval folder.",
        show_default=False,
    ),
]
PathY = Annotated[
    Path | None,
    typer.Argument(
        metavar="[PATH_Y]",
        help="The second modality, when it has a file of its own.",
        show_default=False,
    ),
]
XColumn = Annotated[
    str | None,
    typer.Option(help="Array or column of the first modality.", rich_help_panel=_DATA),
]
YColumn = Annotated[
    str | None,
    typer.Option(help="Array or column of the second modality.", rich_help_panel=_DATA),
]
Groups = Annotated[
    str | None,
    typer.Option(
        help="Which rows match: a column on both sides, a file with one label per row, or two of "
        "them separated by a comma. Without it, row i matches row i.",
        rich_help_panel=_DATA,
    ),
]
Unpaired = Annotated[
    bool,
    typer.Option("--unpaired", help="Rows are not pairs, even if their numbers are equal.",
                 rich_help_panel=_DATA),
]  # fmt: skip
Names = Annotated[str, typer.Option(help="Names of the two modalities.", rich_help_panel=_DATA)]
MetricOption = Annotated[
    str | None,
    typer.Option(
        help="How the index ranks: cosine, inner_product or euclidean. "
        "Without it the correction's own, or cosine.",
    ),
]
Goal = Annotated[str, typer.Option(help="What to improve: mixed (one index), robust or quantised.")]
Model = Annotated[str | None, typer.Option(help="Name of the model, noted in the correction.")]
Images = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        help="Folder of the images, called as the ids of the first modality's rows say.",
        rich_help_panel=_DATA,
    ),
]
Umap = Annotated[
    bool, typer.Option("--umap/--no-umap", help="Draw UMAP too, where umap-learn is installed.")
]
Seed = Annotated[int, typer.Option(min=0, help="Seed of samples, splits and noise.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


def names_of(text: str) -> tuple[str, str]:
    """The two modality names of ``--names image,text``."""
    parts = tuple(part.strip() for part in text.split(","))
    if len(parts) != 2:
        raise InputValueError(f"--names takes two names with a comma between them, got {text!r}.")
    return check_names(parts)


def open_data(
    path_x: Path,
    path_y: Path | None,
    x_column: str | None,
    y_column: str | None,
    groups: str | None,
    unpaired: bool,
    names: str,
) -> EmbeddingPair:
    """The two modalities the options describe."""
    from modgap.io import open_pair

    return open_pair(
        path_x,
        path_y,
        x_column=x_column,
        y_column=y_column,
        groups=groups,
        paired=False if unpaired else None,
        names=names_of(names),
    )
