"""``modgap measure``: the measures of the gap, as a table or JSON."""

from __future__ import annotations

from pathlib import Path

from modgap.cli.data import Data
from modgap.cli.options import refuse_here_only
from modgap.cli.outputs import check_file
from modgap.cli.takes_data import takes_data


@takes_data()
def measure(
    data: Data,
    device: str | None = None,
    partial: Path | None = None,
    save_moments: Path | None = None,
    seed: int = 0,
    engine: str = "local",
    explain: bool = False,
    row: str | None = None,
    as_json: bool = False,
) -> None:
    """Measure the gap: distance, cones, ellipsoids, uniformity, loss and landscapes.

    Example: modgap measure image.npy text.npy

    More than two: modgap measure image=image.npy text=text.npy audio=audio.npy
    """
    from modgap.cli.progress import steps
    from modgap.cli.show import out, print_json, print_meanings, print_table, say
    from modgap.core.results import document
    from modgap.drift import save_streams, streams_of
    from modgap.engines import spread
    from modgap.evaluation import set_row
    from modgap.measures import measure as run

    if row is not None:
        found = set_row(data, seed=seed)
        if as_json:
            print_json(document("row", found, name=row, seed=seed))
        else:
            print(found.markdown(row))
        return
    refuse_here_only(engine, partial=partial, device=device)
    if save_moments is not None:
        check_file(save_moments)
    data = data if partial is None else data.with_partial(partial)
    data = spread(data if device is None else data.to(device), engine)
    with steps() as step:
        result = run(data, seed=seed, progress=step)
        if save_moments is not None:
            save_streams(streams_of(data, progress=step), save_moments)
            say(f"wrote {save_moments}")
    if as_json:
        print_json(document("measure", result, seed=seed))
        return
    print_table(*result.table())
    every_two = result.pair_table()
    if every_two is not None:
        out.print("\n[bold]Every two[/bold]")
        print_table(*every_two, stack_heads=True)
    out.print(f"[dim]{result.sampling()}[/dim]")
    if explain:
        print_meanings((line.term for line in result.lines()), data.names)
