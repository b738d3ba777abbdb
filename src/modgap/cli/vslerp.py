"""``modgap vslerp``: rows, and pictures, along the way between two rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from modgap._validate import InputValueError
from modgap.cli.options import AsJson, Device

if TYPE_CHECKING:
    from modgap.embed.interpolation import Interpolation

_PICTURES = "Pictures"


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
        typer.Option(
            "-o",
            "--output",
            help="File for the rows (.npy, .safetensors, .parquet …): every step of the first α, "
            "then of the next.",
        ),
    ] = None,
    alpha: Annotated[
        str, typer.Option(help="How far the mean is taken off: 0 is SLERP. Several with commas.")
    ] = "0,0.5,1",
    steps: Annotated[int, typer.Option(min=2, help="Steps from A to B, both included.")] = 7,
    theta: Annotated[
        str | None,
        typer.Option(help="The steps themselves, with commas: 0 is A, 1 is B."),
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
        str | None,
        typer.Option(help="Embeds A and B: hf:NAME, open_clip:NAME/WEIGHTS …"),
    ] = None,
    device: Device = None,
    bank: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="Rows of images to find the nearest in: a folder of modgap embed, or a file.",
            rich_help_panel=_PICTURES,
        ),
    ] = None,
    images: Annotated[
        Path | None,
        typer.Option(
            metavar="DATA",
            help="The images of the bank: a folder, or what modgap embed read.",
            rich_help_panel=_PICTURES,
        ),
    ] = None,
    with_ends: Annotated[
        bool,
        typer.Option(
            "--with-ends",
            help="Let steps in between find A and B themselves, which are often nearest.",
            rich_help_panel=_PICTURES,
        ),
    ] = False,
    picture: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Filmstrip of the nearest images, or of the decoded: .png, .pdf, .svg, .html.",
            rich_help_panel=_PICTURES,
        ),
    ] = None,
    decoder: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="unCLIP pipeline of diffusers that turns the rows into pictures, such as "
            "kakaobrain/karlo-v1-alpha-image-variations.",
            rich_help_panel=_PICTURES,
        ),
    ] = None,
    frames: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Folder for the decoded pictures.", rich_help_panel=_PICTURES
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the decoder's noise.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Go from one row to another around the mean of their modality (vertical SLERP).

    Levi and Gilboa 2025, eq. 12. Rows are used as they are: give raw ones where you have them.

    Example: modgap vslerp rows:bee.jpg rows:rose.jpg --bank rows --images photos --picture way.png
    """
    from modgap._results import document
    from modgap.cli.outputs import check_file, check_folder
    from modgap.cli.show import print_json, print_table, say
    from modgap.embed.interpolation import interpolate, mean_of_ends, open_end, open_image_bank

    _check_options(bank, images, picture, decoder, frames)
    for file in (output, picture):
        if file is not None:
            check_file(file, (mean, bank))
    if frames is not None:
        check_folder(frames)
    encoder = None
    if model is not None:
        from modgap.embed import open_model

        encoder = open_model(model, device=device)
    ends = [open_end(name, encoder, column=column) for name in (first, second)]
    held = None if bank is None else open_image_bank(bank, images, column=column)
    if picture is not None and decoder is None and held is not None and held.items is None:
        raise InputValueError(f"--picture needs the images of {bank}: name them with --images.")
    way = interpolate(
        ends[0].row,
        ends[1].row,
        thetas=[k / (steps - 1) for k in range(steps)] if theta is None else _numbers(theta, "θ"),
        alphas=_numbers(alpha, "α"),
        mean=mean_of_ends(ends, mean, bank, column=column),
        bank=held,
        with_ends=with_ends,
        ends=(first, second),
    )
    if as_json:
        print_json(document("vslerp", way))
    else:
        print_table(*way.table())
    if output is not None:
        _write_rows(way, output)
    if decoder is not None:
        _decode(way, decoder, device, seed, frames, picture)
    elif picture is not None and held is not None:
        from modgap.reports.filmstrip import write_filmstrip

        nearest = way.nearest
        assert nearest is not None
        bank_of = held
        missing = write_filmstrip(picture, way, lambda a, s: bank_of.image(int(nearest[a, s])))
        _say_picture(picture, missing)
    if not any((output, picture, frames)):
        say("Write the rows with -o FILE, the nearest images of a bank with --bank and --picture.")


def _check_options(
    bank: Path | None,
    images: Path | None,
    picture: Path | None,
    decoder: str | None,
    frames: Path | None,
) -> None:
    if images is not None and bank is None:
        raise InputValueError("--images are those of a bank: name its rows with --bank.")
    if picture is not None:
        from modgap.reports.filmstrip import check_picture

        check_picture(picture)
        if bank is None and decoder is None:
            raise InputValueError("--picture needs images: a bank with --bank, or --decoder.")
    if frames is not None and decoder is None:
        raise InputValueError("--frames are made by a decoder: name one with --decoder.")
    if decoder is not None and frames is None and picture is None:
        raise InputValueError("--decoder makes pictures: say where with --frames or --picture.")


def _numbers(said: str, name: str) -> list[float]:
    try:
        return [float(part) for part in said.split(",")]
    except ValueError:
        raise InputValueError(
            f"{name} must be numbers with commas between, such as 0,0.5,1, got {said!r}."
        ) from None


def _write_rows(way: Interpolation, output: Path) -> None:
    import numpy as np

    from modgap.cli.outputs import tidy_when_terminated
    from modgap.cli.show import say
    from modgap.io import write_embeddings

    # The other formats hold numbers only.
    ids = way.labels if output.suffix.lower() in (".npz", ".parquet") else None
    with tidy_when_terminated():
        write_embeddings(output, way.flat.astype(np.float32), ids=ids)
    say(f"wrote {output}: {len(way.flat)} rows of {way.flat.shape[1]} columns")


def _decode(
    way: Interpolation,
    decoder: str,
    device: str | None,
    seed: int,
    frames: Path | None,
    picture: Path | None,
) -> None:
    import io

    from modgap._files import atomic_path
    from modgap.cli.show import say, steps
    from modgap.embed.unclip import UnCLIP
    from modgap.reports.filmstrip import write_filmstrip

    made: list[bytes] = []
    with steps() as step:
        for image in UnCLIP(decoder, device=device).decode(way.flat, seed=seed, progress=step):
            held = io.BytesIO()
            image.save(held, "PNG")
            made.append(held.getvalue())
    n_steps = len(way.thetas)
    if frames is not None:
        frames.mkdir(parents=True, exist_ok=True)
        for k, png in enumerate(made):
            name = f"alpha{way.alphas[k // n_steps]:g}_step{k % n_steps:02d}.png"
            with atomic_path(frames / name) as path:
                path.write_bytes(png)
        say(f"wrote {len(made)} pictures to {frames}")
    if picture is not None:
        _say_picture(picture, write_filmstrip(picture, way, lambda a, s: made[a * n_steps + s]))


def _say_picture(picture: Path, missing: list[str]) -> None:
    from modgap.cli.show import say

    say(f"wrote {picture}")
    if missing:
        say(f"modgap: {len(missing)} of its images are missing, the first is {missing[0]}")
