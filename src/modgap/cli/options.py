"""Options that several commands share, and how they turn into embeddings."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from modgap._validate import InputValueError
from modgap.cli.outputs import check_file, check_folder

if TYPE_CHECKING:
    from modgap.corrections import Metric
    from modgap.evaluation import Goal as GoalName
    from modgap.io import Modalities as Data
else:  # these take longer to load than help takes to print
    Data, Metric, GoalName = Any, str, str

_DATA = "The data"

PathX = Annotated[
    Path,
    typer.Argument(
        metavar="PATH",
        help="Embeddings: .npy (one modality, or both stacked as 2 × n × d), .npz, .safetensors, "
        ".pt, .parquet, or a clip-retrieval folder.",
        show_default=False,
    ),
]
PathY = Annotated[
    Path | None,
    typer.Argument(
        metavar="[PATH_Y]",
        help="The second modality, when it has a file of its own.",
        show_default=False,
    ),
]
XColumn = Annotated[
    str | None,
    typer.Option(help="Array or column of the first modality.", rich_help_panel=_DATA),
]
YColumn = Annotated[
    str | None,
    typer.Option(help="Array or column of the second modality.", rich_help_panel=_DATA),
]
Groups = Annotated[
    str | None,
    typer.Option(
        help="Which rows match: a column on both sides, a file with one label per row, or two of "
        "them separated by a comma. Without it, rows of the same id match where both sides have "
        "ids, else row i matches row i.",
        rich_help_panel=_DATA,
    ),
]
Unpaired = Annotated[
    bool,
    typer.Option("--unpaired", help="Rows are not pairs, even if both sides have as many rows.",
                 rich_help_panel=_DATA),
]  # fmt: skip
TrustRows = Annotated[
    bool,
    typer.Option(
        "--trust-rows",
        help="Go on with rows that look like another modality's or another model's.",
    ),
]
TrustPairs = Annotated[
    bool,
    typer.Option(
        "--trust-pairs", help="Go on with pairs that look like none, as those of random weights do."
    ),
]
Names = Annotated[str, typer.Option(help="Names of the two modalities.", rich_help_panel=_DATA)]
MetricOption = Annotated[
    Metric,
    typer.Option(
        help="How the rows as they are get ranked: cosine, inner_product or euclidean. Corrected "
        "rows are ranked by the correction's own metric.",
    ),
]
AskingModality = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="The modality that asks; text where that is a name, else it must be said.",
        show_default=False,
    ),
]
Goal = Annotated[
    GoalName, typer.Option(help="What to improve: mixed (one index), robust or quantised.")
]
Queries = Annotated[
    str | None,
    typer.Option(
        metavar="NAME|both",
        help="Who asks: a modality by name, or both, which makes a correction for each. text where "
        "that is a name.",
        show_default=False,
    ),
]
Model = Annotated[str | None, typer.Option(help="Name of the model, noted in the correction.")]
Images = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        help="Folder of the images; file names are the ids of the first modality's rows.",
        rich_help_panel=_DATA,
    ),
]
Umap = Annotated[
    bool, typer.Option("--umap/--no-umap", help="Draw UMAP too, where umap-learn is installed.")
]
Seed = Annotated[int, typer.Option(min=0, help="Seed of samples, splits and noise.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


def open_data(
    path: PathX,
    path_y: PathY = None,
    x_column: XColumn = None,
    y_column: YColumn = None,
    groups: Groups = None,
    unpaired: Unpaired = False,
    names: Names = "image,text",
) -> Data:
    """The two modalities that the arguments and options of a command describe."""
    from modgap.cli.show import say
    from modgap.io import open_pair

    parts = tuple(part.strip() for part in names.split(","))
    if len(parts) != 2:
        raise InputValueError(f"--names takes two names with a comma between them, got {names!r}.")
    data = open_pair(
        path,
        path_y,
        x_column=x_column,
        y_column=y_column,
        groups=groups,
        paired=False if unpaired else None,
        names=parts,
    )
    if data.pairing.startswith("by id"):
        say(f"modgap: rows are paired {data.pairing}")
    return data


def asking_names(queries: str | None, names: Sequence[str]) -> list[str]:
    """The modalities that ask, as ``--queries`` says: one, or each of both by itself."""
    from modgap.corrections import asking_modality

    if queries == "both":
        return list(reversed(names))
    return [asking_modality(queries, names)]


def takes_data(
    *, writes: Literal["file", "folder"] | None = None, unless: str | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A command whose first argument is ``data`` takes paths and the options of the data instead.

    They are those of ``open_data``: the paths come first, the options last. Where the command
    writes to its ``output``, that place is checked before anything is read. ``unless`` names an
    option that brings data of its own: with it, there are no paths, and ``data`` is None.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        return _with_data(command, writes, unless)

    return decorate


def _with_data(
    command: Callable[..., None], writes: str | None, unless: str | None
) -> Callable[..., None]:
    opening = dict(inspect.signature(open_data, eval_str=True).parameters)
    if unless is not None:
        opening["path"] = opening["path"].replace(default=None)
    own = list(inspect.signature(command, eval_str=True).parameters.values())[1:]
    taken = [*list(opening.values())[:2], *own, *list(opening.values())[2:]]
    # Keyword-only: an argument without a default may then follow an option.
    shown = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in taken]

    @functools.wraps(command)
    def run(**given: Any) -> None:
        if writes == "folder" and given["output"] is not None:
            check_folder(given["output"])
        if writes == "file":
            check_file(given["output"], (given["path"], given["path_y"]))
        described = {name: given.pop(name) for name in opening}
        if unless is not None and given[unless] is not None:
            _check_alone(unless, described, opening)
            command(None, **given)
            return
        if described["path"] is None:
            raise InputValueError(f"Give the PATH of the data, or --{unless}.")
        command(open_data(**described), **given)

    run.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in shown}
    return run


def _check_alone(
    option: str, described: Mapping[str, Any], opening: Mapping[str, inspect.Parameter]
) -> None:
    """Refuse paths and options of the data beside an option that brings its own."""
    for name, value in described.items():
        if value != opening[name].default:
            what = value if name.startswith("path") else f"--{name.replace('_', '-')}"
            raise InputValueError(f"--{option} brings its own data, so {what} cannot be given.")


def with_images(data: Data, images: Path | None) -> Data:
    """The same with pictures of the first modality, from a folder of files called by their ids."""
    if images is None:
        return data
    from dataclasses import replace

    from modgap.reports import from_folder

    name = data.names[0]
    if data.x.ids is None:
        raise InputValueError(
            f"--images finds files by the ids of the {name} rows, and these have none. "
            "Give them a column 'id' or 'image_path' with the files' names."
        )
    return replace(data, thumbnails={name: from_folder(images, data.x.ids)})
