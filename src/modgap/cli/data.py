"""The data of a command: its paths and options, and the modalities that they describe."""

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
    from modgap.io import Modalities as Data
else:  # it takes longer to load than help takes to print
    Data = Any

_DATA = "The data"
_NAMES = "image,text"

Paths = Annotated[
    list[str],
    typer.Argument(
        metavar="PATH",
        help="Embeddings: .npy (one modality, or both stacked as 2 × n × d), .npz, .safetensors, "
        ".pt, .parquet, a folder of shards or of clip-retrieval, a Lance dataset, a saved dataset "
        "of Hugging Face, or a URL of one (s3://, gs://, https://, hf://). One path that holds "
        "both modalities, two paths, or any number with names: image=image.npy text=text.npy "
        "audio=audio.npy.",
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
ModalityColumn = Annotated[
    str | None,
    typer.Option(
        help="Column that says which modality a row is, in a table with a row for each document; "
        "one called modality is found without it.",
        rich_help_panel=_DATA,
    ),
]
Column = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=COLUMN",
        help="Array or column of a modality that has a name. May be repeated.",
        rich_help_panel=_DATA,
    ),
]
Groups = Annotated[
    str | None,
    typer.Option(
        help="Which rows match: a column of every side, a file with one label per row, or one for "
        "each side, separated by commas. Without it, rows of the same id match where all sides "
        "have ids, else row i matches row i.",
        rich_help_panel=_DATA,
    ),
]
Unpaired = Annotated[
    bool,
    typer.Option("--unpaired", help="Rows are not pairs, even if all sides have as many rows.",
                 rich_help_panel=_DATA),
]  # fmt: skip
Names = Annotated[
    str, typer.Option(help="Names of two modalities given as plain paths.", rich_help_panel=_DATA)
]
QueryRows = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=PATH",
        help="Queries of a modality that are not its documents. May be repeated.",
        rich_help_panel=_DATA,
    ),
]
QueryGroups = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=GROUPS",
        help="Which documents these queries match: a column of their file, or a file of labels.",
        rich_help_panel=_DATA,
    ),
]
SkipBadShards = Annotated[
    bool,
    typer.Option(
        "--skip-bad-shards",
        help="Leave out shards that cannot be used, in all modalities, and say how many rows are "
        "missing; every shard is read through once first.",
        rich_help_panel=_DATA,
    ),
]
Images = Annotated[
    Path | None,
    typer.Option(
        metavar="DATA",
        help="The images of the first modality, found by the ids of its rows: a folder, or what "
        "modgap embed read.",
        rich_help_panel=_DATA,
    ),
]


def open_data(
    paths: Paths,
    x_column: XColumn = None,
    y_column: YColumn = None,
    modality_column: ModalityColumn = None,
    column: Column = None,
    groups: Groups = None,
    unpaired: Unpaired = False,
    names: Names = _NAMES,
    query_rows: QueryRows = None,
    query_groups: QueryGroups = None,
    skip_bad_shards: SkipBadShards = False,
) -> Data:
    """The modalities that the arguments and options of a command describe."""
    from modgap.cli.show import say
    from modgap.io import open_modalities, open_pair, open_queries

    named, paired = named_paths(paths), False if unpaired else None
    bad_shards: Any = "skip" if skip_bad_shards else "refuse"
    if named is None:
        if column:
            raise InputValueError(
                "--column is for modalities with names; use --x-column and --y-column."
            )
        called = two_names(names)
        data = open_pair(
            paths[0],
            paths[1] if len(paths) > 1 else None,
            x_column=x_column,
            y_column=y_column,
            modality_column=modality_column,
            groups=groups_by_name(groups, called),
            paired=paired,
            names=called,
            bad_shards=bad_shards,
        )
    else:
        if names != _NAMES:
            raise InputValueError("--names is for files without names; NAME=PATH has them already.")
        if x_column or y_column:
            raise InputValueError(
                "--x-column and --y-column are for files without names; use --column NAME=COLUMN."
            )
        if modality_column:
            raise InputValueError(
                "--modality-column is for one table of all modalities; NAME=PATH has one for each."
            )
        chosen = by_name(column, "--column", "NAME=COLUMN")
        by_side = groups_by_name(groups, tuple(named))
        data = open_modalities(
            named, columns=chosen, groups=by_side, paired=paired, bad_shards=bad_shards
        )
    if data.pairing.startswith("by id"):
        say(f"modgap: rows are paired {data.pairing}")
    if query_groups and not query_rows:
        raise InputValueError("--query-groups says what the queries of --query-rows match.")
    if query_rows:
        asked = by_name(query_rows, "--query-rows", "NAME=PATH")
        data = open_queries(data, asked, by_name(query_groups, "--query-groups", "NAME=GROUPS"))
    return data


def open_bank(path: Path | None) -> Any:
    """The rows of a bank, where one is given."""
    from modgap.io import open_embeddings

    return None if path is None else open_embeddings(path)


def named_paths(paths: Sequence[str]) -> dict[str, str] | None:
    """The paths by the names that they are given with, as NAME=PATH; None where they have none."""
    named = [_has_name(text) for text in paths]
    if not any(named):
        if len(paths) > 2:
            raise InputValueError(
                f"Give more than two files with their names, as NAME=PATH, got {len(paths)}: "
                f"{', '.join(paths)}."
            )
        return None
    if not all(named):
        raise InputValueError(
            f"Give every file with its name, as NAME=PATH, or none, got {', '.join(paths)}."
        )
    found = by_name(paths, "Data with names", "NAME=PATH")
    if len(found) == 1:
        raise InputValueError(
            f"Give two modalities or more as NAME=PATH, got {paths[0]} alone. A file that holds "
            "both takes no name."
        )
    return found


def by_name(given: Sequence[str] | None, what: str, form: str) -> dict[str, str]:
    """Texts of the form NAME=VALUE as a mapping."""
    found: dict[str, str] = {}
    for text in given or ():
        name, _, value = text.partition("=")
        if not (name and value):
            raise InputValueError(f"{what} takes {form}, got {text!r}.")
        if name in found:
            raise InputValueError(f"{what} names {name} twice.")
        found[name] = value
    return found


def _has_name(text: str) -> bool:
    """Whether a text is NAME=PATH; a path may itself hold the sign."""
    name, equals, _ = text.partition("=")
    return bool(name and equals) and Path(name).name == name and not Path(text).exists()


def two_names(names: str) -> tuple[str, str]:
    """The names of two modalities, as ``--names`` gives them."""
    parts = tuple(part.strip() for part in names.split(","))
    if len(parts) != 2:
        raise InputValueError(
            f"--names takes two names with a comma between them, got {names!r}. Give more as "
            "NAME=PATH."
        )
    return parts[0], parts[1]


def groups_by_name(groups: str | None, names: Sequence[str]) -> str | dict[str, str] | None:
    """``--groups`` as given, or by name where it is NAME=… for each side, with commas between."""
    parts = [part.strip() for part in groups.split(",")] if groups else []
    if not parts or not all(part.partition("=")[0] in names and "=" in part for part in parts):
        return groups
    return by_name(parts, "--groups", "NAME=GROUPS")


def takes_data(
    *, writes: Literal["file", "folder"] | None = None, unless: str | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A command whose first argument is ``data`` takes paths and the options of the data instead.

    They are those of ``open_data``: the paths come first, the options last. Where the command
    writes to its ``output``, that place is checked before anything is read. ``unless`` names an
    option that brings data of its own: with it, there are no paths, and ``data`` is None.
    """
    return functools.partial(_with_data, writes=writes, unless=unless)


def _with_data(
    command: Callable[..., None], writes: str | None, unless: str | None
) -> Callable[..., None]:
    opening = dict(inspect.signature(open_data, eval_str=True).parameters)
    if unless is not None:
        opening["paths"] = opening["paths"].replace(default=None)
    own = list(inspect.signature(command, eval_str=True).parameters.values())[1:]
    first, *options = opening.values()
    taken = [first, *own, *options]
    # Keyword-only: an argument without a default may then follow an option.
    shown = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in taken]

    @functools.wraps(command)
    def run(**given: Any) -> None:
        if writes == "folder" and given["output"] is not None:
            check_folder(given["output"])
        if writes == "file":
            named = named_paths(given["paths"])
            asked = by_name(given["query_rows"], "--query-rows", "NAME=PATH")
            read = [*(named.values() if named else given["paths"]), *asked.values()]
            check_file(given["output"], [Path(path) for path in read])
        described = {name: given.pop(name) for name in opening}
        if unless is not None and given[unless] is not None:
            _check_alone(unless, described, opening)
            command(None, **given)
            return
        if not described["paths"]:
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
        if (value or None) != (opening[name].default or None):
            what = value[0] if name == "paths" else f"--{name.replace('_', '-')}"
            raise InputValueError(f"--{option} brings its own data, so {what} cannot be given.")


def with_images(data: Data, images: Path | None) -> Data:
    """The same with pictures of the first modality, found by the ids of its rows."""
    if images is None:
        return data
    from dataclasses import replace

    from modgap.reports import from_images

    name = data.names[0]
    ids = data.sides[name].ids
    if ids is None:
        raise InputValueError(
            f"--images finds images by the ids of the {name} rows, and these have none. "
            "Give them a column 'id' or 'image_path' with the files' names."
        )
    return replace(data, thumbnails={name: from_images(images, ids)})
