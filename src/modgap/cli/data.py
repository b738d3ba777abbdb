"""The data of a command: its paths and options, and the modalities that they describe."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from modgap.cli.described import option
from modgap.cli.named import by_name, groups_by_name, named_paths, two_names
from modgap.cli.options import refuse

if TYPE_CHECKING:
    from modgap.io import Embeddings
    from modgap.io import Modalities as Data
else:  # it takes longer to load than help takes to print
    Data = Any

_NAMES = "image,text"

Images = Annotated[Path | None, option("images_of_rows")]


def open_data(
    paths: list[str],
    x_column: str | None = None,
    y_column: str | None = None,
    modality_column: str | None = None,
    column: list[str] | None = None,
    groups: str | None = None,
    unpaired: bool = False,
    names: str = _NAMES,
    query_rows: list[str] | None = None,
    query_groups: list[str] | None = None,
    skip_bad_shards: bool = False,
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


def open_added(
    option: str, paths: list[str], column: list[str] | None, groups: str | None
) -> dict[str, Embeddings]:
    """The rows of modalities with which a correction is extended or fitted again, by name."""
    from modgap.io import open_embeddings

    named = by_name(paths, f"--{option}", "NAME=PATH, such as audio=audio.npy")
    refuse(not named, "Give the rows as NAME=PATH, such as audio=audio.npy.")
    columns = by_name(column, "--column", "NAME=COLUMN")
    by_side = groups_by_name(groups, tuple(named))
    labels = by_side if isinstance(by_side, dict) else dict.fromkeys(named, by_side)
    return {
        name: open_embeddings(
            path, column=columns.get(name), groups=labels.get(name), modality=name
        )
        for name, path in named.items()
    }


def with_documents(data: Data, documents: list[str] | None) -> Data:
    """The modalities, in an index that holds other documents as well."""
    if not documents:
        return data
    return data.with_documents(by_name(documents, "--documents", "NAME=PATH") or {})


def open_bank(path: Path | None) -> Any:
    """The rows of a bank, where one is given."""
    from modgap.io import open_embeddings

    return None if path is None else open_embeddings(path)
