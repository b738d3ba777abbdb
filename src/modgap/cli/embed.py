"""``modgap embed``: pictures, sounds and texts to rows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from modgap.cli.options import AsJson, EngineOption

_MODEL = "The model"
_DATA = "The data"
_NAMED = 3

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
    typer.Option(
        help="cpu, cuda, cuda:1 … or cuda:all; the first GPU if there is one.",
        rich_help_panel=_MODEL,
    ),
]
Precision = Annotated[
    str,
    typer.Option(
        help="auto (bfloat16 on a GPU, else float32), float32, bfloat16 or float16.",
        rich_help_panel=_MODEL,
    ),
]
BatchSize = Annotated[int, typer.Option(min=1, help="Items to a batch.", rich_help_panel=_MODEL)]
Split = Annotated[
    str | None,
    typer.Option(help="Embed this split.", rich_help_panel=_DATA),
]
Format = Annotated[
    str | None,
    typer.Option(help="Format of the data, where a folder holds several.", rich_help_panel=_DATA),
]
ImageFolder = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        help="Where file names start from, if not beside the file that names them.",
        rich_help_panel=_DATA,
    ),
]


def embed(
    model: ModelName,
    data: DataPath,
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder for the rows.")],
    split: Split = None,
    format: Format = None,  # noqa: A002 - the word users know
    images: ImageFolder = None,
    device: Device = None,
    precision: Precision = "auto",
    batch_size: BatchSize = 64,
    workers: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Threads that read and prepare, by default one for each processor.",
            rich_help_panel=_MODEL,
        ),
    ] = None,
    random: Annotated[
        int | None,
        typer.Option(
            metavar="SEED",
            min=0,
            help="The same architecture with random weights.",
            rich_help_panel=_MODEL,
        ),
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
    from modgap._results import document
    from modgap.cli.outputs import check_folder, tidy_when_terminated
    from modgap.cli.show import out, print_json, say, steps
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
        for modality, count in result.rows.items():
            out.print(f"{count:,} {modality} rows of {result.dim} columns", markup=False)
    say(f"wrote {output}")
    if result.n_done_before:
        say(f"modgap: {result.n_done_before:,} of {result.n_items:,} items were there already")
    if result.skipped:
        say(f"modgap: {skipped_words(result.skipped, result.n_items)}")
        if result.n_done_before:
            say(f"modgap: what was left out is not tried again; for that, remove {output} first")
    if not as_json:
        pictures, labels = str(images or data), str(data) if result.has_labels else None
        for command in embedded_commands(str(output), [*result.rows], model, pictures, labels):
            say(f"next: {command}")


def skipped_words(skipped: Mapping[str, str], n_items: int) -> str:
    """How many items could not be read, and the first of them."""
    first = "; ".join(f"{name} ({why})" for name, why in list(skipped.items())[:_NAMED])
    more = (
        f"; and {len(skipped) - _NAMED:,} more, listed in embed.json"
        if len(skipped) > _NAMED
        else ""
    )
    return f"{len(skipped):,} of {n_items:,} items could not be read: {first}{more}"
