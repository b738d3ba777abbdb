"""The data of a command: its paths and options, and the modalities that they describe."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from modgap.cli.named import by_name, groups_by_name, named_paths, two_names
from modgap.cli.options import refuse

if TYPE_CHECKING:
    from modgap.io import Modalities as Data
else:  # it takes longer to load than help takes to print
    Data = Any

_data_option = partial(typer.Option, rich_help_panel="The data")
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
    _data_option(help="Array or column of the first modality."),
]
YColumn = Annotated[
    str | None,
    _data_option(help="Array or column of the second modality."),
]
ModalityColumn = Annotated[
    str | None,
    _data_option(
        help="Column that says which modality a row is, in a table with a row for each document; "
        "one called modality is found without it."
    ),
]
Column = Annotated[
    list[str] | None,
    _data_option(
        metavar="NAME=COLUMN",
        help="Array or column of a modality that has a name. May be repeated.",
    ),
]
Groups = Annotated[
    str | None,
    _data_option(
        help="Which rows match: a column of every side, a file with one label per row, or one for "
        "each side, separated by commas. Without it, rows of the same id match where all sides "
        "have ids, else row i matches row i."
    ),
]
Unpaired = Annotated[
    bool,
    _data_option("--unpaired", help="Rows are not pairs, even if all sides have as many rows."),
]
Names = Annotated[str, _data_option(help="Names of two modalities given as plain paths.")]
QueryRows = Annotated[
    list[str] | None,
    _data_option(
        metavar="NAME=PATH",
        help="Queries of a modality that are not its documents. May be repeated.",
    ),
]
QueryGroups = Annotated[
    list[str] | None,
    _data_option(
        metavar="NAME=GROUPS",
        help="Which documents these queries match: a column of their file, or a file of labels.",
    ),
]
SkipBadShards = Annotated[
    bool,
    _data_option(
        "--skip-bad-shards",
        help="Leave out shards that cannot be used, in all modalities, and say how many rows are "
        "missing; every shard is read through once first.",
    ),
]
Images = Annotated[
    Path | None,
    _data_option(
        metavar="DATA",
        help="The images of the first modality, found by the ids of its rows: a folder, or what "
        "modgap embed read.",
    ),
]

Documents = Annotated[
    list[str] | None,
    _data_option(
        metavar="NAME=PATH",
        help="Other documents of the index, by modality: they match nothing, and are in every "
        "index that is judged. May be repeated.",
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
        refuse(column, "--column is for modalities with names; use --x-column and --y-column.")
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
        refuse(names != _NAMES, "--names is for files without names; NAME=PATH has them already.")
        refuse(
            x_column or y_column,
            "--x-column and --y-column are for files without names; use --column NAME=COLUMN.",
        )
        refuse(
            modality_column,
            "--modality-column is for one table of all modalities; NAME=PATH has one for each.",
        )
        chosen = by_name(column, "--column", "NAME=COLUMN")
        by_side = groups_by_name(groups, tuple(named))
        data = open_modalities(
            named, columns=chosen, groups=by_side, paired=paired, bad_shards=bad_shards
        )
    if data.pairing.startswith("by id"):
        say(f"modgap: rows are paired {data.pairing}")
    refuse(
        query_groups and not query_rows,
        "--query-groups says what the queries of --query-rows match.",
    )
    if query_rows:
        asked = by_name(query_rows, "--query-rows", "NAME=PATH")
        data = open_queries(data, asked, by_name(query_groups, "--query-groups", "NAME=GROUPS"))
    return data


def with_documents(data: Data, documents: list[str] | None) -> Data:
    """The modalities, in an index that holds other documents as well."""
    if not documents:
        return data
    return data.with_documents(by_name(documents, "--documents", "NAME=PATH") or {})


def open_bank(path: Path | None) -> Any:
    """The rows of a bank, where one is given."""
    from modgap.io import open_embeddings

    return None if path is None else open_embeddings(path)
