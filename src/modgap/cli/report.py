"""``modgap report``: one page that opens anywhere."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from modgap.cli.options import (
    AsJson,
    Goal,
    Groups,
    Images,
    MetricOption,
    Model,
    Names,
    PathX,
    PathY,
    Seed,
    Umap,
    Unpaired,
    XColumn,
    YColumn,
    open_data,
)

if TYPE_CHECKING:
    from modgap.io import EmbeddingPair
    from modgap.reports import Thumbnail


def report(
    path: PathX,
    path_y: PathY = None,
    output: Annotated[
        Path, typer.Option("-o", "--output", help="The page to write, an .html file.")
    ] = Path("report.html"),
    images: Images = None,
    title: Annotated[
        str | None, typer.Option(help="Title of the page; without it, the files' names.")
    ] = None,
    goal: Goal = "mixed",
    umap: Umap = True,
    x_column: XColumn = None,
    y_column: YColumn = None,
    groups: Groups = None,
    unpaired: Unpaired = False,
    names: Names = "image,text",
    metric: MetricOption = None,
    model: Model = None,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Write one self-contained page: the verdict, the gap to look at and to move, every measure.

    Example: modgap report image.npy text.npy -o report.html
    """
    from modgap.cli.outputs import check_file
    from modgap.cli.show import out, print_json, say, steps
    from modgap.reports import report as run

    check_file(output, (path, path_y))
    pair = open_data(path, path_y, x_column, y_column, groups, unpaired, names)
    thumbnail = thumbnails_of(pair, images)
    with steps() as step:
        result = run(
            pair.x, pair.y, pair.names, groups=pair.groups, paired=pair.paired,
            images=(thumbnail, None), goal=goal, metric=metric or "cosine", model=model,  # type: ignore[arg-type]
            title=title, umap=None if umap else False, seed=seed, progress=step,
        )  # fmt: skip
        step("writing the page")
        result.save(output)
    if as_json:
        print_json(result)
    else:
        out.print(str(result), markup=False)
    say(f"wrote {output}")


def thumbnails_of(pair: EmbeddingPair, images: Path | None) -> Thumbnail | None:
    """Pictures of the first modality's rows, from a folder of files called by their ids."""
    if images is None:
        return None
    from modgap._validate import InputValueError
    from modgap.reports import from_folder

    if pair.x.ids is None:
        raise InputValueError(
            f"--images finds files by the ids of the {pair.names[0]} rows, and these have none. "
            "Give them a column 'id' or 'image_path' with the files' names."
        )
    return from_folder(images, pair.x.ids)
