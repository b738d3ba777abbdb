"""Options of ``modgap reproduce``."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

_rows_option = partial(typer.Option, rich_help_panel="Rows of your own")
_model_option = partial(typer.Option, rich_help_panel="A model and data")

EntryNames = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[ENTRY]...",
        help="Figures and tables such as liang2022/fig2b, a paper such as liang2022, or all.",
    ),
]
PublishedRows = Annotated[
    list[Path] | None,
    typer.Option(
        help="Folder with the embeddings that Liang et al. 2022 published (features_*.npy), or "
        "others published as safetensors. May be given again. Without it, the environment "
        "variable MODGAP_PUBLISHED."
    ),
]
TrainedResults = Annotated[
    Path | None,
    typer.Option(
        help="Results of training runs of your own (python -m modgap.reproduce.flickr8k), in "
        "place of those that come with modgap."
    ),
]
Resume = Annotated[
    bool,
    typer.Option(
        "--resume",
        help="Take from the output folder what this version wrote there with the same setting "
        "and seed. Without it everything runs anew.",
    ),
]
OwnPaths = Annotated[
    tuple[Path, Path] | None,
    _rows_option(
        metavar="IMAGE TEXT",
        help="Rows of your own in place of all others: images and texts in any format that modgap "
        "measure reads, raw or at unit length, pairs row by row. A file that holds both is given "
        "twice.",
    ),
]
Labels = Annotated[
    Path | None,
    _rows_option(
        help="The class of each of your image rows, whole numbers from 0: .npy, .txt, .csv or "
        ".parquet."
    ),
]
ClassText = Annotated[
    Path | None, _rows_option(help="A text row for each of your classes, in order.")
]
OtherClassText = Annotated[Path | None, _rows_option(help="The same in another wording.")]
ModelName = Annotated[
    str | None,
    _model_option(
        metavar="MODEL",
        help="A model in place of all rows, as modgap embed takes it: hf:NAME, open_clip:NAME/"
        "WEIGHTS … It embeds --data; the rows are kept in the output folder.",
    ),
]
DataSets = Annotated[
    list[Path] | None,
    _model_option(
        metavar="DATA",
        help="Images or sounds with captions, or with classes, in any format that modgap embed "
        "reads; or FairFace, A-OKVQA or MMVP-VLM as published. May be given again.",
    ),
]
Generated = Annotated[
    list[str] | None,
    _model_option(
        metavar="NAME=PATH",
        help="Generated images, or captions a line, by what made them: glide=FOLDER, "
        "clipcap=FILE.txt. May be given again.",
    ),
]
Template = Annotated[
    list[str] | None,
    _model_option(help="How a class is said, with {} for its name; several are averaged."),
]
OtherTemplate = Annotated[list[str] | None, _model_option(help="The same in another wording.")]
