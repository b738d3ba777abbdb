"""``modgap fit``: learn one correction and keep it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from modgap._validate import InputValueError
from modgap.cli.options import Data, Model, takes_data


@takes_data(writes="file")
def fit(
    data: Data,
    method: Annotated[
        str,
        typer.Option(
            help="One of calibrate, center, shift, origin-shift, orthogonal-shift, whiten, "
            "procrustes."
        ),
    ] = "calibrate",
    output: Annotated[
        Path, typer.Option("-o", "--output", help="The correction file to write.")
    ] = Path("correction.safetensors"),
    parameter: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A parameter, such as amount=0.3."),
    ] = None,
    model: Model = None,
) -> None:
    """Fit one correction to both modalities and write it as a small file.

    Example: modgap fit image.npy text.npy -o correction.safetensors
    """
    from modgap.cli.show import say, steps
    from modgap.corrections import make_corrector

    corrector = make_corrector(method, dict(_setting(text) for text in parameter or []))
    with steps() as step:
        corrector.fit(data, model=model, progress=step)
    corrector.correction_.save(output)
    say(f"wrote {output}")


def _setting(text: str) -> tuple[str, float | str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise InputValueError(f"--set takes NAME=VALUE, such as amount=0.3, got {text!r}.")
    try:
        return name, float(value)
    except ValueError:
        return name, value
