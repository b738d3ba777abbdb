"""``modgap index search``: asks an index, with vectors, with words or with images."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Annotated, Any

import typer

from modgap._validate import InputValueError
from modgap.cli.index_options import (
    Address,
    Column,
    CorrectionFile,
    EfSearch,
    IdColumn,
    ModalityColumn,
    Nprobe,
    Table,
    Trust,
    VectorColumn,
)
from modgap.cli.options import AsJson

if TYPE_CHECKING:
    from modgap.corrections import Correction
    from modgap.io import Embeddings

_ASKED = "Words and images"
# Characters of a query that a table shows.
_LABEL = 40


def search(
    address: Address,
    correction: CorrectionFile,
    queries: Annotated[
        Path | None,
        typer.Argument(
            metavar="[QUERIES]",
            help="Embeddings to search with, as they are; or --text or --image.",
        ),
    ] = None,
    text: Annotated[
        list[str] | None,
        typer.Option(
            help="Search with these words, embedded by the model. May be repeated.",
            rich_help_panel=_ASKED,
        ),
    ] = None,
    image: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="Search with an image file. May be repeated.",
            rich_help_panel=_ASKED,
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="The model that embeds them, such as hf:openai/clip-vit-base-patch32; by default "
            "the one noted in the correction.",
            rich_help_panel=_ASKED,
        ),
    ] = None,
    modality: Annotated[
        str | None,
        typer.Option(
            help="The modality of the queries, by name; may be left out where only one is served."
        ),
    ] = None,
    k: Annotated[int, typer.Option("-k", min=1, help="Results of each query.")] = 10,
    row: Annotated[
        int | None, typer.Option(min=0, help="Search with this row only; all if left out.")
    ] = None,
    only: Annotated[str | None, typer.Option(help="Results of this modality only.")] = None,
    table: Table = None,
    column: Column = None,
    ef_search: EfSearch = None,
    nprobe: Nprobe = None,
    vector_column: VectorColumn = None,
    modality_column: ModalityColumn = None,
    id_column: IdColumn = None,
    trust: Trust = False,
    as_json: AsJson = False,
) -> None:
    """Search an index of all modalities with vectors of one, with words or with images.

    Example: modgap index search both.faiss correction.safetensors query.npy --modality text -k 5

    Example: modgap index search both.faiss correction.safetensors --text "a dog on the beach"
    """
    from modgap._results import document
    from modgap.cli.show import print_json, print_table
    from modgap.corrections import load_corrections
    from modgap.index import open_index
    from modgap.index.stored_vectors import query_modality
    from modgap.io import open_embeddings

    fixed = load_corrections(correction)
    if (queries is not None) + bool(text) + bool(image) != 1:
        raise InputValueError(
            "Give what to search with: a file of embeddings, --text or --image, one of them."
        )
    if queries is None:
        modality, source = _asked(fixed, model, text, image, modality)
    else:
        modality = query_modality(fixed, modality)
        source = open_embeddings(queries, column=column)
    if row is not None and row >= source.n_rows:
        raise InputValueError(f"--row must be below {source.n_rows}, got {row}.")
    rows, first = (source.rows(), 0) if row is None else (source.take([row]), row)
    options: dict[str, Any] = {"table": table, "ef_search": ef_search, "nprobe": nprobe}
    options |= {"column": vector_column, "modality_column": modality_column, "id_column": id_column}
    with open_index(address, fixed, trust=trust, **options) as index:
        hits = index.search(rows, modality, k, only)
    if as_json:
        print_json(document("index_search", hits, modality=modality, first_row=first))
    else:
        asked = [*(text or ()), *(file.name for file in image or ())]
        print_table(*hits.table(first, [shorten(one, _LABEL, placeholder="…") for one in asked]))


def _asked(
    fixed: Mapping[str, Correction],
    model: str | None,
    texts: list[str] | None,
    images: list[Path] | None,
    modality: str | None,
) -> tuple[str, Embeddings]:
    """The modality that asks, and the rows of words or images."""
    from modgap.cli.show import say
    from modgap.embed import open_model
    from modgap.embed.image_files import image_rows
    from modgap.index.stored_vectors import query_modality
    from modgap.io import Embeddings

    noted = str(next(iter(fixed.values())).about.get("model") or "")
    name = model or noted
    if ":" not in name:
        raise InputValueError(
            "Say with --model which model embeds the queries, such as "
            "hf:openai/clip-vit-base-patch32: the one of the documents. The correction "
            + (f"names only {noted!r}." if noted else "names none.")
        )
    asking = query_modality(fixed, modality or ("image" if images else "text"))
    if ":" in noted and name != noted:
        say(f"modgap: warning: the documents were embedded by {noted}, the queries are by {name}.")
    opened = open_model(name)
    rows = image_rows(opened, images) if images else opened.encode_texts(texts or [], role="query")
    return asking, Embeddings.from_array(rows, source=name)
