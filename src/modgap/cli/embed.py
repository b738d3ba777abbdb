"""``modgap embed``: pictures, sounds and texts to rows."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from modgap.cli.options import AsJson, EngineOption, output_option

_model_option = partial(typer.Option, rich_help_panel="The model")
_data_option = partial(typer.Option, rich_help_panel="The data")

ModelName = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="hf:NAME (transformers: CLIP, SigLIP, CLAP …), open_clip:NAME/WEIGHTS, st:NAME "
        "(sentence-transformers), onnx:FOLDER, or run:FOLDER (what modgap train wrote).",
    ),
]
DataPath = Annotated[
    Path,
    typer.Argument(
        metavar="DATA",
        help="Images with captions: Parquet, a folder with a CSV or JSONL, COCO JSON, WebDataset "
        "shards; images or sounds in a folder for each class; a text a line.",
    ),
]
Device = Annotated[
    str | None,
    _model_option(help="cpu, cuda, cuda:1 … or cuda:all; the first GPU if there is one."),
]
Precision = Annotated[
    str,
    _model_option(help="auto (bfloat16 on a GPU, else float32), float32, bfloat16 or float16."),
]
BatchSize = Annotated[int, _model_option(min=1, help="Items to a batch.")]
Split = Annotated[str | None, _data_option(help="Embed this split.")]
Format = Annotated[
    str | None, _data_option(help="Format of the data, where a folder holds several.")
]
ImageFolder = Annotated[
    Path | None,
    _data_option(
        metavar="FOLDER",
        help="Where file names start from, if not beside the file that names them.",
    ),
]


def embed(
    model: ModelName,
    data: DataPath,
    output: Annotated[Path, output_option(help="Folder for the rows.")],
    split: Split = None,
    format: Format = None,  # noqa: A002 - the word users know
    images: ImageFolder = None,
    device: Device = None,
    precision: Precision = "auto",
    batch_size: BatchSize = 64,
    workers: Annotated[
        int | None,
        _model_option(
            min=1, help="Threads that read and prepare, by default one for each processor."
        ),
    ] = None,
    random: Annotated[
        int | None,
        _model_option(metavar="SEED", min=0, help="The same architecture with random weights."),
    ] = None,
    normalise: Annotated[
        bool, typer.Option("--normalise", help="Rows of unit length; modgap needs none.")
    ] = False,
    dtype: Annotated[str, typer.Option(help="float32 or float16, of the stored rows.")] = "float32",
    shard_items: Annotated[int, typer.Option(min=1, help="Items to a file.")] = 10_000,
    engine: EngineOption = "local",
    as_json: AsJson = False,
) -> None:
    """Embed images or sounds with their captions into a folder that all commands read.

    Run the same command again after an interruption: it resumes.

    Example: modgap embed hf:openai/clip-vit-base-patch32 photos -o rows
    """
    from modgap.cli.outputs import check_folder, tidy_when_terminated
    from modgap.cli.show import out, print_json, say, steps
    from modgap.core.results import document
    from modgap.corrections.wording import embedded_commands
    from modgap.embed import embed as run

    check_folder(output)
    with steps(rate=True) as step, tidy_when_terminated():
        result = run(
            model, data, output, split=split, format=format, images=images, device=device,
            precision=precision, batch_size=batch_size, workers=workers, random=random,
            normalise=normalise, dtype=dtype, shard_items=shard_items, engine=engine,
            progress=step,
        )  # fmt: skip
    if as_json:
        print_json(document("embed", result))
    else:
        for line in result.lines():
            out.print(line, markup=False)
    say(f"wrote {output}")
    for note in result.notes():
        say(f"modgap: {note}")
    if not as_json:
        pictures, labels = str(images or data), str(data) if result.has_labels else None
        for command in embedded_commands(str(output), [*result.rows], model, pictures, labels):
            say(f"next: {command}")
