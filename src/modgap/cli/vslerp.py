"""``modgap vslerp``: rows, and pictures, along the way between two rows."""

from __future__ import annotations

from pathlib import Path


def vslerp(
    first: str,
    second: str,
    output: Path | None = None,
    alpha: str = "0,0.5,1",
    steps: int = 7,
    theta: str | None = None,
    mean: Path | None = None,
    column: str | None = None,
    model: str | None = None,
    device: str | None = None,
    bank: Path | None = None,
    images: Path | None = None,
    with_ends: bool = False,
    picture: Path | None = None,
    decoder: str | None = None,
    frames: Path | None = None,
    seed: int = 0,
    as_json: bool = False,
) -> None:
    """Interpolate between two rows around the mean of their modality (vertical SLERP).

    Levi and Gilboa 2025, eq. 12. Rows are used as they are: give raw ones where you have them.

    Example: modgap vslerp rows:bee.jpg rows:rose.jpg --bank rows --images photos --picture way.png
    """
    from modgap.cli.outputs import check_file, check_folder, tidy_when_terminated
    from modgap.cli.progress import steps as shown_steps
    from modgap.cli.show import print_result, say
    from modgap.embed.interpolation import interpolate_files
    from modgap.reports.filmstrip import check_pictures, write_pictures

    check_pictures(bank, images, picture, decoder, frames)
    for file in (output, picture):
        if file is not None:
            check_file(file)
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
