"""``modgap fit``: learn one correction and keep it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from modgap._validate import InputValueError, check_choice
from modgap.cli.options import (
    Groups,
    Names,
    PathX,
    PathY,
    Unpaired,
    XColumn,
    YColumn,
    open_data,
)

if TYPE_CHECKING:
    from modgap.corrections import Corrector
    from modgap.io import EmbeddingPair

METHODS = {
    "calibrate": "Calibrate",
    "center": "Center",
    "shift": "Shift",
    "origin-shift": "OriginShift",
    "orthogonal-shift": "OrthogonalShift",
    "whiten": "Whiten",
    "procrustes": "Procrustes",
}


def fit(
    path: PathX,
    path_y: PathY = None,
    method: Annotated[str, typer.Option(help=f"One of {', '.join(METHODS)}.")] = "calibrate",
    output: Annotated[
        Path, typer.Option("-o", "--output", help="The correction file to write.")
    ] = Path("correction.safetensors"),
    parameter: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A parameter, such as amount=0.3."),
    ] = None,
    x_column: XColumn = None,
    y_column: YColumn = None,
    groups: Groups = None,
    unpaired: Unpaired = False,
    names: Names = "image,text",
    model: Annotated[
        str | None, typer.Option(help="Name of the model, noted in the correction.")
    ] = None,
) -> None:
    """Fit one correction to both modalities and write it as a small file.

    Example: modgap fit image.npy text.npy --method center -o correction.safetensors
    """
    from modgap.cli.outputs import check_file
    from modgap.cli.show import say, steps

    check_file(output, (path, path_y))
    corrector = make_corrector(method, parameter or [])
    pair = open_data(path, path_y, x_column, y_column, groups, unpaired, names)
    with steps() as step:
        _fit(corrector, pair, model, step)
    corrector.correction_.save(output)
    say(f"wrote {output}")


def make_corrector(method: str, parameters: list[str]) -> Corrector:
    """A corrector from its name on the command line and NAME=VALUE settings."""
    from modgap import corrections

    check_choice(method, "--method", tuple(METHODS))
    corrector: Corrector = getattr(corrections, METHODS[method])()
    for setting in parameters:
        name, equals, value = setting.partition("=")
        known = sorted(corrector.get_params())
        if not equals or name not in known:
            listed = ", ".join(known) or "none"
            raise InputValueError(
                f"--set takes NAME=VALUE with a parameter of {method} ({listed}), got {setting!r}."
            )
        corrector.set_params(**{name: _number_or_text(value)})
    return corrector


def _number_or_text(value: str) -> float | str:
    try:
        return float(value)
    except ValueError:
        return value


def _fit(corrector: Corrector, pair: EmbeddingPair, model: str | None, step: Any) -> None:
    """Stream what moments can give; read the rows only for a corrector that needs them."""
    from modgap.cli.show import counted
    from modgap.corrections import OrthogonalShift, Procrustes
    from modgap.moments import PairMoments

    options: dict[str, Any] = {"names": pair.names, "model": model}
    if isinstance(corrector, OrthogonalShift):
        step("fitting on every row")
        corrector.fit(pair.x.rows(), pair.y.rows(), **options)
        return
    if isinstance(corrector, Procrustes) and (pair.groups is not None or not pair.paired):
        if pair.groups is None:
            raise InputValueError("Procrustes needs pairs. Say which rows match with --groups.")
        ix, iy = pair.matches()
        corrector.fit(pair.x.take(ix), pair.y.take(iy), **options)
        return
    x, y = (
        counted(side.batches(), step, f"reading {name}", side.n_rows)
        for side, name in zip((pair.x, pair.y), pair.names, strict=True)
    )
    paired = pair.paired and pair.groups is None
    corrector.fit_moments(
        PairMoments.from_batches(x, y, names=pair.names, paired=paired), **options
    )
