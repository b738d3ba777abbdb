"""``modgap train``: train two towers with gap control."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from modgap._validate import InputValueError, require
from modgap.cli.options import AsJson

if TYPE_CHECKING:
    from modgap.train import Config, TrainResult


def train(
    config: Annotated[
        str | None,
        typer.Argument(
            metavar="[CONFIG]",
            help="A TOML file, or the name of a preset; with --resume, the run's own by default.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Folder for the run; by default named as CONFIG."),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="SECTION.NAME=VALUE", help="Such as train.epochs=5."),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Go on from the newest checkpoint in the folder; if there is none, begin.",
        ),
    ] = False,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Seed of weights, order and draws.")
    ] = None,
    list_them: Annotated[bool, typer.Option("--list", help="List the presets and stop.")] = False,
    as_json: AsJson = False,
) -> None:
    """Train a two-tower model, watch its gap, and keep its weights and held-out embeddings.

    Several GPUs: torchrun --nproc-per-node 4 -m modgap train CONFIG -o out

    Example: modgap train digits -o out --set train.epochs=100
    """
    if list_them:
        _print_presets(as_json)
        return
    from modgap.cli.outputs import check_folder
    from modgap.cli.show import say, steps
    from modgap.train import load_config

    overrides = [*(settings or []), *([] if seed is None else [f"train.seed={seed}"])]
    source, folder = _places(config, output, resume)
    chosen = load_config(source, overrides)
    check_folder(folder)
    require("torch", "train", "Training")
    from modgap.train import train as run
    from modgap.train.checkpoint import checkpoints

    # Under torchrun every process gets here; one of them speaks.
    speaks = int(os.environ.get("RANK", "0")) == 0
    if speaks and resume and not checkpoints(folder):
        say(f"no checkpoint in {folder} yet: the run starts at its first step")
    try:
        with steps() as step:
            result = run(chosen, output=folder, resume=resume, progress=step)
    except KeyboardInterrupt:
        if speaks:
            print(f"modgap: interrupted; {_what_is_left(folder)}", file=sys.stderr)
        sys.exit(130)
    if speaks:
        _print_result(result, chosen, as_json)
        nothing_to_do = resume and 0 < result.first_step == result.steps
        say(f"the run in {folder} was finished already" if nothing_to_do else f"wrote {folder}")


def _what_is_left(folder: Path) -> str:
    from modgap.train.checkpoint import checkpoints

    if not (found := checkpoints(folder)):
        return "there is no checkpoint yet, and nothing half-written is left."
    return (
        f"nothing half-written is left, and {found[-1].stem} is kept: go on with "
        f"modgap train --resume -o {shlex.quote(str(folder))}"
    )


def _places(config: str | None, output: Path | None, resume: bool) -> tuple[str, Path]:
    """Which config, and which folder."""
    if config is not None:
        return config, output or Path(Path(config).stem)
    if not resume or output is None:
        raise InputValueError(
            "Say what to train: a TOML file or a preset, which modgap train --list shows; "
            "or go on with a run by --resume -o FOLDER."
        )
    if not (output / "config.json").is_file():
        raise InputValueError(f"There is no run to resume in {output}: it has no config.json.")
    return str(output / "config.json"), output


def _print_presets(as_json: bool) -> None:
    from rich.padding import Padding
    from rich.text import Text

    from modgap.cli.show import out, print_json
    from modgap.train import list_presets

    presets = list_presets()
    if as_json:
        print_json(presets)
        return
    for name, about in presets.items():
        out.print(f"[bold]{name}[/bold]", highlight=False)
        for key in ("description", "command", "time", "expected"):
            if about.get(key):
                label = "" if key == "description" else f"{key}: "
                # A command is copied in one piece; the rest keeps its margin where it wraps.
                if key == "command":
                    out.print(f"  {label}{about[key]}", markup=False, soft_wrap=True)
                else:
                    out.print(Padding(Text(f"{label}{about[key]}"), (0, 0, 0, 2), expand=False))


def _print_result(result: TrainResult, config: Config, as_json: bool) -> None:
    from modgap._results import document, number
    from modgap.cli.show import print_json, print_table
    from modgap.evaluation.metrics import metric_name
    from modgap.io.modalities import DEFAULT_NAMES

    if as_json:
        print_json(document("train", result, seed=config.train.seed))
        return
    found = result.evaluation
    rows = [
        ("gap distance", number(found.gap_distance)),
        (f"uniformity (Wasserstein, n = {found.n_pairs})", number(found.uniformity)),
        ("alignment", number(found.alignment)),
        ("orthogonality, image", number(found.orthogonality_image)),
        ("orthogonality, text", number(found.orthogonality_text)),
        *((metric_name(key, DEFAULT_NAMES), number(value)) for key, value in found.recall.items()),
        ("temperature at the end", number(result.temperature)),
        ("steps", number(result.steps)),
        ("skipped images", number(result.n_corrupt)),
    ]
    if result.losses:
        rows += [
            ("loss at the end", number(result.losses[-1])),
            ("images per second", number(round(result.images_per_second))),
        ]
    print_table((f"{found.n_images:,} images, {found.n_texts:,} texts", "held out"), rows)
