"""``modgap manifest``: the shards of a dataset with rows, dtypes, sizes and checksums."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from modgap._validate import InputValueError

if TYPE_CHECKING:
    from modgap.io import Manifest


def manifest(
    path: Annotated[
        str,
        typer.Argument(
            metavar="PATH",
            help="Folder of shards, or a URL of one; files end in .npy, .npz, .parquet or "
            ".safetensors.",
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            help="File to write, or to compare with; by default manifest.json in the folder.",
        ),
    ] = None,
    check: Annotated[
        bool,
        typer.Option("--check", help="Compare the shards with the manifest, byte by byte."),
    ] = False,
) -> None:
    """List the shards of a dataset with their rows, dtypes, sizes and checksums.

    A folder with a manifest in it is compared with that whenever it is opened, and one of a web
    server can be read by it. A run that was stopped goes on where it was.

    Example: modgap manifest embeddings
    """
    from modgap.cli.outputs import check_file, tidy_when_terminated
    from modgap.cli.show import out, steps
    from modgap.io import write_manifest

    if check:
        with steps(rate=True) as step:
            found = _kept(path, output)
            found.check(path, progress=step)
        out.print(f"{_words(found)}: all as the manifest says")
        return
    target = _target(path) if output is None else output
    check_file(target, ())
    with steps(rate=True) as step, tidy_when_terminated():
        found = write_manifest(path, target, progress=step)
    out.print(f"wrote {target}: {_words(found)}", markup=False, soft_wrap=True)


def _target(path: str) -> Path:
    from modgap.io.manifest import MANIFEST
    from modgap.io.remote import place_of

    place = place_of(path)
    if isinstance(place, Path) and place.is_dir():
        return place / MANIFEST
    if isinstance(place, Path):
        raise InputValueError(f"Say with -o where the manifest of {place} is to be written.")
    raise InputValueError(
        f"modgap writes nothing to {place}: say with -o where the manifest is to be written, and "
        "put it there yourself."
    )


def _kept(path: str, output: Path | None) -> Manifest:
    from modgap.io import Manifest
    from modgap.io.manifest import MANIFEST
    from modgap.io.remote import place_of

    place: Any = place_of(path) / MANIFEST if output is None else output
    if not place.is_file():
        raise InputValueError(
            f"There is no manifest {str(place)!r}. Make one: modgap manifest {place_of(path)}"
        )
    return Manifest.load(place)


def _words(found: Manifest) -> str:
    return f"{len(found.shards):,} shards of {found.n_bytes:,} bytes"
