"""``modgap measure``: every quantity of the gap, as a table or JSON."""

from __future__ import annotations

from modgap.cli.options import (
    AsJson,
    Groups,
    Names,
    PathX,
    PathY,
    Seed,
    Unpaired,
    XColumn,
    YColumn,
    open_data,
)


def measure(
    path: PathX,
    path_y: PathY = None,
    x_column: XColumn = None,
    y_column: YColumn = None,
    groups: Groups = None,
    unpaired: Unpaired = False,
    names: Names = "image,text",
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Measure the gap: distance, cones, ellipsoids, uniformity, loss and landscapes.

    Example: modgap measure image.npy text.npy
    """
    from modgap._results import document
    from modgap.cli.show import out, print_json, print_table, steps
    from modgap.measures import measure as run

    pair = open_data(path, path_y, x_column, y_column, groups, unpaired, names)
    with steps() as step:
        result = run(
            pair.x, pair.y, pair.names, groups=pair.groups, paired=pair.paired, seed=seed,
            progress=step,
        )  # fmt: skip
    if as_json:
        print_json(document("measure", result, seed=seed))
        return
    print_table(*result.table())
    out.print(f"[dim]{result.sampling()}[/dim]")
