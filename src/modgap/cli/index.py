"""``modgap index``: one index for both modalities, built, searched and checked."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from modgap._validate import InputValueError
from modgap.cli.options import AsJson, Seed

if TYPE_CHECKING:
    from modgap.corrections import Correction
    from modgap.index import VectorIndex
    from modgap.io import Embeddings
    from modgap.search import Hits

index_app = typer.Typer(
    name="index",
    help="Build, search and check one index that holds both modalities, corrected.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Address = Annotated[
    str,
    typer.Argument(
        metavar="INDEX",
        help="x.faiss, x.lance, postgresql://…, qdrant:FOLDER, qdrant+http://…, milvus:FILE.db or "
        "milvus+http://….",
        show_default=False,
    ),
]
CorrectionFile = Annotated[
    Path, typer.Argument(metavar="CORRECTION", help="The file that fit or diagnose wrote.")
]
Documents = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[MODALITY=PATH]...",
        help="Embeddings of each modality, such as image=image.npy; or one file of both.",
        show_default=False,
    ),
]
Table = Annotated[
    str | None, typer.Option(help="Table or collection of the database; modgap if left out.")
]
Column = Annotated[str | None, typer.Option(help="Array or column of the files to read.")]
Effort = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Search approximately: ef of HNSW (pgvector, Qdrant, FAISS) or nprobe of IVF (FAISS). "
        "Without it searches are exact; a FAISS --factory other than Flat keeps its own default.",
    ),
]
VectorColumn = Annotated[
    str | None,
    typer.Option(help="Search this column of a table you have (PostgreSQL, see build).",
                 rich_help_panel="A table you have"),
]  # fmt: skip
ModalityColumn = Annotated[
    str, typer.Option(help="Its column of modalities.", rich_help_panel="A table you have")
]
IdColumn = Annotated[
    str, typer.Option(help="Its column of ids.", rich_help_panel="A table you have")
]


@index_app.command()
def build(
    address: Address,
    correction: CorrectionFile,
    documents: Documents = None,
    table: Table = None,
    column: Column = None,
    factory: Annotated[
        str | None, typer.Option(help="FAISS: what to build, such as HNSW32,Flat.")
    ] = None,
    effort: Effort = None,
    batch: Annotated[
        int | None, typer.Option(min=1, help="Rows stored, and committed, together.")
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Drop an index that modgap wrote there before.")
    ] = False,
    from_column: Annotated[
        str | None,
        typer.Option(
            help="PostgreSQL: correct this column of --table, instead of files, into a new one.",
            rich_help_panel="A table you have",
        ),
    ] = None,
    new_column: Annotated[
        str, typer.Option(help="The new column.", rich_help_panel="A table you have")
    ] = "embedding_corrected",
    modality_column: ModalityColumn = "modality",
) -> None:
    """Store the documents of both modalities, corrected, in one index.

    A build that was interrupted or killed is run again with the same command and finishes.

    Example: modgap index build both.faiss correction.safetensors image=image.npy text=text.npy
    """
    from modgap.cli.show import say, steps
    from modgap.corrections import Correction
    from modgap.index import open_index

    fixed = Correction.load(correction)
    if from_column is not None:
        if documents or table is None or not address.startswith("postgres"):
            raise InputValueError(
                "--from-column corrects a column of a PostgreSQL table: give the address, the "
                "correction and --table, and no files."
            )
        _correct_column(address, table, fixed, from_column, modality_column, new_column, batch)
        return
    sources = open_documents(documents or [], fixed, column)
    options = _given(table=table, factory=factory, effort=effort, batch_rows=batch)
    with (
        open_index(address, fixed, create=True, replace=replace, **options) as index,
        steps() as step,
    ):
        for name, rows in sources.items():
            index.check(rows, name)  # all of them, before any is stored
        for name, rows in sources.items():
            written = index.write(rows, name, progress=step)
            left = rows.n_rows - written
            kept = f", {left:,} were there already" if left else ""
            say(f"stored {written:,} documents of {name}{kept}")
        index.finish()
        say(f"{index.place} holds {index.count():,} documents of {index.dim} columns")


@index_app.command()
def search(
    address: Address,
    correction: CorrectionFile,
    queries: Annotated[
        Path, typer.Argument(metavar="QUERIES", help="Embeddings to search with, as they are.")
    ],
    modality: Annotated[
        str | None, typer.Option(help="The modality of the queries, by name.", show_default=False)
    ] = None,
    k: Annotated[int, typer.Option("-k", min=1, help="Results of each query.")] = 10,
    row: Annotated[
        int | None, typer.Option(min=0, help="Search with this row only; all if left out.")
    ] = None,
    only: Annotated[str | None, typer.Option(help="Results of this modality only.")] = None,
    table: Table = None,
    column: Column = None,
    effort: Effort = None,
    vector_column: VectorColumn = None,
    modality_column: ModalityColumn = "modality",
    id_column: IdColumn = "id",
    as_json: AsJson = False,
) -> None:
    """Search an index of both modalities with raw vectors of one.

    Example: modgap index search both.faiss correction.safetensors query.npy --modality text -k 5
    """
    from modgap._results import document
    from modgap.cli.show import print_json, print_table
    from modgap.corrections import Correction
    from modgap.io import open_embeddings

    fixed = Correction.load(correction)
    if modality is None:
        raise InputValueError(
            f"A query needs its modality: --modality {' or --modality '.join(fixed.names)}. It "
            "says which map is applied to it."
        )
    fixed.map(modality, "query")
    source = open_embeddings(queries, column=column)
    if row is not None and row >= source.n_rows:
        raise InputValueError(f"--row must be below {source.n_rows}, got {row}.")
    rows = source.rows() if row is None else source.take([row])
    own = _own_columns(vector_column, modality_column, id_column)
    with _open(address, fixed, table=table, effort=effort, **own) as index:
        hits = index.search(rows, modality, k, only)
    first = 0 if row is None else row
    if as_json:
        print_json(document("index_search", hits, modality=modality, first_row=first))
        return
    print_table(*_hits_table(hits, first))


@index_app.command()
def evaluate(
    address: Address,
    correction: CorrectionFile,
    documents: Documents = None,
    queries: Annotated[
        list[str] | None,
        typer.Option(metavar="MODALITY=PATH", help="Queries; without them documents ask."),
    ] = None,
    k: Annotated[int, typer.Option("-k", min=1, help="Results of each query.")] = 10,
    sample: Annotated[int, typer.Option(min=1, help="Queries of each modality, at most.")] = 200,
    table: Table = None,
    column: Column = None,
    effort: Effort = None,
    vector_column: VectorColumn = None,
    modality_column: ModalityColumn = "modality",
    id_column: IdColumn = "id",
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Compare an index with an exact search: recall, and the share of each modality in results.

    Example: modgap index evaluate both.faiss correction.safetensors image=image.npy text=text.npy
    """
    from modgap._results import document
    from modgap.cli.show import print_json, print_table, steps
    from modgap.corrections import Correction
    from modgap.index import evaluate_index

    fixed = Correction.load(correction)
    sources = open_documents(documents or [], fixed, column)
    asked = open_documents(queries, fixed, column) if queries else None
    own = _own_columns(vector_column, modality_column, id_column)
    with _open(address, fixed, table=table, effort=effort, **own) as index, steps() as step:
        result = evaluate_index(index, sources, asked, k=k, sample=sample, seed=seed, progress=step)
    if as_json:
        print_json(document("index_evaluate", result, seed=seed))
        return
    print_table(*result.table())


def open_documents(
    given: list[str], correction: Correction, column: str | None
) -> dict[str, Embeddings]:
    """The embeddings that MODALITY=PATH arguments, or one file of both modalities, mean."""
    from modgap._validate import check_choice
    from modgap.io import open_embeddings, open_pair

    names = correction.names
    if len(given) == 1 and "=" not in given[0] and len(names) == 2:
        if column is not None:
            raise InputValueError(
                "--column chooses from files of one modality; name each, as "
                f"{names[0]}={given[0]}, to use it."
            )
        pair = open_pair(given[0], names=(names[0], names[1]), paired=False)
        found = {names[0]: pair.x, names[1]: pair.y}
    else:
        found = {}
        for text in given:
            name, equals, path = text.partition("=")
            if not equals or not path:
                raise InputValueError(
                    f"Embeddings are given as MODALITY=PATH, such as {names[0]}=vectors.npy, got "
                    f"{text!r}."
                )
            check_choice(name, "modality", names)
            if name in found:
                raise InputValueError(f"{name} is given twice. Put its rows into one file.")
            found[name] = open_embeddings(path, column=column)
    if not found:
        raise InputValueError(
            f"There is nothing to read: give {names[0]}=PATH and {names[1]}=PATH, or one file of "
            "both."
        )
    for name, rows in found.items():
        if rows.dim != correction.dim_in:
            raise InputValueError(
                f"The correction is for rows of {correction.dim_in} columns, but {name} has "
                f"{rows.dim}. It must be fitted on embeddings of the same model."
            )
    return found


@index_app.command("drop-column")
def drop_corrected_column(
    address: Annotated[
        str, typer.Argument(metavar="URL", help="postgresql://…", show_default=False)
    ],
    table: Annotated[str, typer.Option(help="The table the column is in.", show_default=False)],
    new_column: Annotated[
        str, typer.Option(help="The column that build --from-column wrote.")
    ] = "embedding_corrected",
) -> None:
    """Undo build --from-column: drop the corrected column of a table you have.

    Example: modgap index drop-column postgresql://localhost/search --table items
    """
    from modgap.cli.show import say
    from modgap.index import drop_column

    if not address.startswith("postgres"):
        raise InputValueError(f"drop-column takes a postgresql:// address, got {address!r}.")
    drop_column(address, table, new_column)
    say(f"dropped the column {new_column} of {table}")


def _correct_column(
    url: str,
    table: str,
    correction: Correction,
    column: str,
    modality_column: str,
    new_column: str,
    batch: int | None,
) -> None:
    from modgap.cli.show import say, steps
    from modgap.index import add_column

    with steps() as step:
        written = add_column(
            url, table, correction, column=column, modality_column=modality_column,
            new_column=new_column, progress=step, **_given(batch_rows=batch),
        )  # fmt: skip
    say(f"corrected {written:,} rows of {table} into the column {new_column}")


def _open(address: str, correction: Correction, **options: Any) -> VectorIndex:
    from modgap.index import open_index

    return open_index(address, correction, **_given(**options))


def _own_columns(vector: str | None, modality: str, ids: str) -> dict[str, str]:
    if vector is None:
        return {}
    return {"column": vector, "modality_column": modality, "id_column": ids}


def _given(**options: Any) -> dict[str, Any]:
    """The options that were given; the others keep the defaults of the index."""
    return {name: value for name, value in options.items() if value is not None}


def _hits_table(hits: Hits, first: int) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    lines: list[tuple[str, ...]] = []
    for query, ids in enumerate(hits.ids.tolist()):
        found = zip(ids, hits.modalities[query].tolist(), hits.scores[query].tolist(), strict=True)
        for place, (key, name, score) in enumerate(found, start=1):
            if key is not None:  # an approximate search may find fewer
                lines.append((str(first + query), str(place), str(key), name, f"{score:.6f}"))
    return ("query", "place", "id", "modality", "score"), lines
