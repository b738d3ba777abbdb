"""``modgap train``: train two towers with gap control."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from modgap.core.checks import require


def train(
    config: str | None = None,
    output: Path | None = None,
    settings: list[str] | None = None,
    resume: bool = False,
    seed: int | None = None,
    list_them: bool = False,
    as_json: bool = False,
) -> None:
    """Train a two-tower model, watch its gap, and keep its weights and held-out embeddings.

    Several GPUs: torchrun --nproc-per-node 4 -m modgap train CONFIG -o out

    Example: modgap train digits -o out --set train.epochs=100
    """
    if list_them:
        _print_presets(as_json)
        return
    from modgap.cli.outputs import check_folder
    from modgap.cli.progress import steps
    from modgap.cli.show import print_result, say
    from modgap.train import load_config
    from modgap.train.config_files import config_and_folder

    overrides = [*(settings or []), *([] if seed is None else [f"train.seed={seed}"])]
    source, folder = config_and_folder(config, output, resume)
    chosen = load_config(source, overrides)
    check_folder(folder)
    require("torch", "train", "Training")
    from modgap.train import train as run
    from modgap.train.checkpoint import checkpoints, what_is_left

    # Under torchrun every process gets here; one of them speaks.
    speaks = int(os.environ.get("RANK", "0")) == 0
    if speaks and resume and not checkpoints(folder):
        say(f"no checkpoint in {folder} yet: the run starts at its first step")
    try:
        with steps() as step:
            result = run(chosen, output=folder, resume=resume, progress=step)
    except KeyboardInterrupt:
        if speaks:
            print(f"modgap: interrupted; {what_is_left(folder)}", file=sys.stderr)
        sys.exit(130)
    if speaks:
        print_result("train", result, as_json, seed=chosen.train.seed)
        say(
            f"the run in {folder} was finished already" if result.did_nothing else f"wrote {folder}"
        )


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
