"""A filmstrip: pictures along the way between two rows, a row for each α, a column for each θ."""

from __future__ import annotations

import html
import io
from collections.abc import Callable, Sequence
from pathlib import Path

from modgap.core.checks import InputValueError, require
from modgap.core.files import atomic_path, write_text
from modgap.core.results import Progress, silent
from modgap.embed.interpolation import ImageBank, Interpolation
from modgap.io.images import ImageError, one_image, square_pixels, unpack_image
from modgap.reports.rows import data_uri

SIDE = 160
# A picture of a step by its α and its θ, counted from 0; an `ImageError` where there is none.
Picture = Callable[[int, int], bytes]
SUFFIXES = (".png", ".pdf", ".svg", ".html")

_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>
body {{ font: 14px/1.4 system-ui, sans-serif; margin: 1.5rem; color-scheme: light dark }}
th {{ font-weight: normal; padding: .2rem .5rem; text-align: right }}
thead th {{ text-align: center }}
td {{ padding: 2px; max-width: 10rem; vertical-align: top; font-size: 11px }}
img {{ display: block; width: 100%; min-width: 4rem }}
</style>
<h1>{title}</h1>
<table>
<thead><tr><th></th>{head}</tr></thead>
<tbody>
{body}
</tbody>
</table>
</html>
"""


def check_pictures(
    bank: Path | None,
    images: Path | None,
    picture: Path | None,
    decoder: str | None,
    frames: Path | None,
) -> None:
    """Refuse a bank, images and pictures that do not go together, before any work is done."""
    if images is not None and bank is None:
        raise InputValueError("--images are those of a bank: name its rows with --bank.")
    if picture is not None:
        if picture.suffix.lower() not in SUFFIXES:
            raise InputValueError(
                f"{picture} must end in {', '.join(SUFFIXES)}, got {picture.suffix!r}."
            )
        if bank is None and decoder is None:
            raise InputValueError("--picture needs images: a bank with --bank, or --decoder.")
    if frames is not None and decoder is None:
        raise InputValueError("--frames are made by a decoder: name one with --decoder.")
    if decoder is not None and frames is None and picture is None:
        raise InputValueError("--decoder makes pictures: say where with --frames or --picture.")


def write_pictures(
    way: Interpolation,
    bank: ImageBank | None,
    picture: Path | None,
    frames: Path | None,
    *,
    decoder: str | None = None,
    device: str | None = None,
    seed: int = 0,
    progress: Progress = silent,
) -> list[str]:
    """Write a filmstrip of what a decoder makes of the rows, else of their nearest in the bank.

    The decoded pictures go into the folder ``frames`` too. Returns what to say about it.
    """
    if decoder is None:
        if picture is None or bank is None or way.nearest is None:
            return []
        nearest, of = way.nearest, bank
        return _filmstrip(picture, way, lambda a, s: of.image(int(nearest[a, s])))
    from modgap.embed.unclip import UnCLIP

    made: list[bytes] = []
    for image in UnCLIP(decoder, device=device).decode(way.flat, seed=seed, progress=progress):
        held = io.BytesIO()
        image.save(held, "PNG")
        made.append(held.getvalue())
    said = []
    n_steps = len(way.thetas)
    if frames is not None:
        frames.mkdir(parents=True, exist_ok=True)
        for k, png in enumerate(made):
            name = f"alpha{way.alphas[k // n_steps]:g}_step{k % n_steps:02d}.png"
            with atomic_path(frames / name) as path:
                path.write_bytes(png)
        said.append(f"wrote {len(made)} pictures to {frames}")
    if picture is not None:
        said += _filmstrip(picture, way, lambda a, s: made[a * n_steps + s])
    return said


def _filmstrip(path: Path, way: Interpolation, picture: Picture) -> list[str]:
    """Write the pictures into one file; returns what to say, also of those that are missing.

    The suffix says the format: .html is a page with the names of the images, the others a figure.
    """
    require("PIL.Image", "images", "A filmstrip")
    errors: list[str] = []
    squares = [
        [_square(picture, way, across, down, errors) for across in range(len(way.thetas))]
        for down in range(len(way.alphas))
    ]
    rows = [f"α = {alpha:.3g}" for alpha in way.alphas]
    columns = [f"θ = {theta:.3g}" for theta in way.thetas]
    title = f"{way.ends[0]} → {way.ends[1]}"
    if path.suffix.lower() == ".html":
        write_text(path, _page(title, rows, columns, squares, way))
    else:
        from modgap.plot import filmstrip, panels

        drawn = [[None if one is None else unpack_image(one) for one in s] for s in squares]
        figure, [ax] = panels(1, size=(1.1 * len(columns) + 0.8, 1.1 * len(rows) + 0.5))
        filmstrip(drawn, row_labels=rows, column_labels=columns, title=title, ax=ax)
        with atomic_path(path) as temporary:
            figure.savefig(temporary, dpi=150, format=path.suffix[1:].lower())
    said = f"modgap: {len(errors)} of its images are missing, the first is "
    return [f"wrote {path}", *(said + first for first in errors[:1])]


def _square(
    picture: Picture, way: Interpolation, across: int, down: int, errors: list[str]
) -> bytes | None:
    """The middle of a picture as a small JPEG; None, with the reason, where that fails."""
    from PIL import Image

    try:
        stored = picture(down, across)
        with one_image():
            pixels = square_pixels(unpack_image(stored, SIDE), SIDE).transpose(1, 2, 0)
            out = io.BytesIO()
            Image.fromarray(pixels).save(out, "JPEG", quality=85)
            return out.getvalue()
    except ImageError as error:
        name = way.labels[down * len(way.thetas) + across]
        shown = name if way.names is None else way.names[down][across]
        errors.append(f"{shown}: {error}")
        return None


def _page(
    title: str,
    rows: Sequence[str],
    columns: Sequence[str],
    squares: Sequence[Sequence[bytes | None]],
    way: Interpolation,
) -> str:
    body = []
    for down, label in enumerate(rows):
        images = (_image(square, way, down, across) for across, square in enumerate(squares[down]))
        cells = "".join(f"<td>{image}</td>" for image in images)
        body.append(f"<tr><th>{label}</th>{cells}</tr>")
    head = "".join(f"<th>{label}</th>" for label in columns)
    return _PAGE.format(title=html.escape(title), head=head, body="\n".join(body))


def _image(square: bytes | None, way: Interpolation, down: int, across: int) -> str:
    label = way.labels[down * len(way.thetas) + across]
    name = html.escape("" if way.names is None else way.names[down][across])
    uri = data_uri(square)
    alt = html.escape(f"{label}: {name}" if name else label, quote=True)
    shown = "" if uri is None else f'<img src="{uri}" alt="{alt}">'
    return f"{shown}{name}"
