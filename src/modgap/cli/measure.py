"""``modgap measure``: the measures of the gap, as a table or JSON."""

from __future__ import annotations

from typing import Annotated

import typer

from modgap.cli.engine_options import EngineOption
from modgap.cli.options import AsJson, Data, Partial, Seed, takes_data


@takes_data()
def measure(
    data: Data,
    device: Annotated[
        str | None,
        typer.Option(help="Where to compute: cpu, cuda, cuda:1 …; rows must fit its memory."),
    ] = None,
    partial: Partial = None,
    seed: Seed = 0,
    engine: EngineOption = "local",
    as_json: AsJson = False,
) -> None:
    """Measure the gap: distance, cones, ellipsoids, uniformity, loss and landscapes.

    Example: modgap measure image.npy text.npy

    More than two: modgap measure image=image.npy text=text.npy audio=audio.npy
    """
    from modgap._results import document
    from modgap.cli.show import out, print_json, print_table, steps
    from modgap.engines import spread
    from modgap.measures import measure as run

    data = data if partial is None else data.with_partial(partial)
    data = data if device is None else data.to(device)
    with steps() as step:
        result = run(spread(data, engine), seed=seed, progress=step)
    if as_json:
        print_json(document("measure", result, seed=seed))
        return
    print_table(*result.table())
    every_two = result.pair_table()
    if every_two is not None:
        out.print("\n[bold]Every two[/bold]")
        print_table(*every_two, stack_heads=True)
    out.print(f"[dim]{result.sampling()}[/dim]")
