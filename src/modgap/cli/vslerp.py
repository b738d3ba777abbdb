"""``modgap vslerp``: rows, and pictures, along the way between two rows."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from modgap.cli.options import AsJson, Device, output_option

_picture_option = partial(typer.Option, rich_help_panel="Pictures")


def vslerp(
    first: Annotated[
        str,
        typer.Argument(
            metavar="A",
            help="FILE:ROW, the row by its number or id; with --model also an image or a text.",
        ),
    ],
    second: Annotated[str, typer.Argument(metavar="B", help="The other end, named alike.")],
    output: Annotated[
        Path | None,
        output_option(
            help="File for the rows (.npy, .safetensors, .parquet …): every step of the first α, "
            "then of the next."
        ),
    ] = None,
    alpha: Annotated[
        str, typer.Option(help="How far the mean is taken off: 0 is SLERP. Several with commas.")
    ] = "0,0.5,1",
    steps: Annotated[int, typer.Option(min=2, help="Steps from A to B, both included.")] = 7,
    theta: Annotated[
        str | None, typer.Option(help="The steps themselves, with commas: 0 is A, 1 is B.")
    ] = None,
    mean: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="Rows whose mean it is, a file or an embedded folder; by default the bank, else "
            "the file that A and B are rows of.",
        ),
    ] = None,
    column: Annotated[
        str | None,
        typer.Option(help="Array or column to read in all files; by default that of the images."),
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="Embeds A and B: hf:NAME, open_clip:NAME/WEIGHTS …")
    ] = None,
    device: Device = None,
    bank: Annotated[
        Path | None,
        _picture_option(
            metavar="PATH",
            help="Rows of images to find the nearest in: a folder of modgap embed, or a file.",
        ),
    ] = None,
    images: Annotated[
        Path | None,
        _picture_option(
            metavar="DATA", help="The images of the bank: a folder, or what modgap embed read."
        ),
    ] = None,
    with_ends: Annotated[
        bool,
        _picture_option(
            "--with-ends",
            help="Let steps in between find A and B themselves, which are often nearest.",
        ),
    ] = False,
    picture: Annotated[
        Path | None,
        _picture_option(
            metavar="FILE",
            help="Filmstrip of the nearest images, or of the decoded: .png, .pdf, .svg, .html.",
        ),
    ] = None,
    decoder: Annotated[
        str | None,
        _picture_option(
            metavar="NAME",
            help="unCLIP pipeline of diffusers that turns the rows into pictures, such as "
            "kakaobrain/karlo-v1-alpha-image-variations.",
        ),
    ] = None,
    frames: Annotated[
        Path | None,
        _picture_option(metavar="FOLDER", help="Folder for the decoded pictures."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the decoder's noise.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Go from one row to another around the mean of their modality (vertical SLERP).

    Levi and Gilboa 2025, eq. 12. Rows are used as they are: give raw ones where you have them.

    Example: modgap vslerp rows:bee.jpg rows:rose.jpg --bank rows --images photos --picture way.png
    """
    from modgap.cli.outputs import check_file, check_folder, tidy_when_terminated
    from modgap.cli.show import print_result, say
    from modgap.cli.show import steps as shown_steps
    from modgap.embed.interpolation import interpolate_files
    from modgap.reports.filmstrip import check_pictures, write_pictures

    check_pictures(bank, images, picture, decoder, frames)
    for file in (output, picture):
        if file is not None:
            check_file(file, (mean, bank))
    if frames is not None:
        check_folder(frames)
    way, held = interpolate_files(
        first, second, model, device=device, steps=steps,
        thetas=theta, alphas=alpha, mean=mean, bank=bank, images=images, column=column,
        with_ends=with_ends, needs_images=picture is not None and decoder is None,
    )  # fmt: skip
    print_result("vslerp", way, as_json)
    if output is not None:
        with tidy_when_terminated():
            say(way.write(output))
    with shown_steps() as step:
        said = write_pictures(
            way, held, picture, frames, decoder=decoder, device=device, seed=seed, progress=step
        )
    for line in said:
        say(line)
    if not any((output, picture, frames)):
        say("Write the rows with -o FILE, the nearest images of a bank with --bank and --picture.")
