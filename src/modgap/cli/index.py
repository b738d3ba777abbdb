"""``modgap index``: one index for both modalities, built, searched and checked."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from modgap._validate import InputValueError
from modgap.cli.options import AsJson, Seed

index_app = typer.Typer(
    name="index",
    help="Build, search and check one index that holds both modalities, corrected.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_YOURS = "A table you have"

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
EfSearch = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Search HNSW graphs with this ef_search (pgvector, Qdrant, FAISS). Without it "
        "searches are exact; a FAISS graph keeps FAISS's default.",
    ),
]
Nprobe = Annotated[
    int | None,
    typer.Option(
        min=1, help="Search this many cells of an IVF index (FAISS); FAISS's default without it."
    ),
]
VectorColumn = Annotated[
    str | None,
    typer.Option(
        help="Search this column of a table you have (PostgreSQL, see build).",
        rich_help_panel=_YOURS,
    ),
]
ModalityColumn = Annotated[
    str | None,
    typer.Option(help="Its column of modalities; modality if left out.", rich_help_panel=_YOURS),
]
IdColumn = Annotated[
    str | None, typer.Option(help="Its column of ids; id if left out.", rich_help_panel=_YOURS)
]
NewColumn = Annotated[
    str, typer.Option(help="The column of corrected vectors.", rich_help_panel=_YOURS)
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
    ef_search: EfSearch = None,
    nprobe: Nprobe = None,
    batch: Annotated[
        int | None, typer.Option(min=1, help="Rows stored, and committed, together.")
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Drop an index that modgap built there before.")
    ] = False,
    from_column: Annotated[
        str | None,
        typer.Option(
            help="PostgreSQL: correct this column of --table, instead of files, into a new one.",
            rich_help_panel=_YOURS,
        ),
    ] = None,
    new_column: NewColumn = "embedding_corrected",
    modality_column: ModalityColumn = None,
) -> None:
    """Store the documents of both modalities, corrected, in one index.

    A build that was interrupted or killed is run again with the same command and finishes.

    Example: modgap index build both.faiss correction.safetensors image=image.npy text=text.npy
    """
    from modgap.cli.show import say, steps
    from modgap.corrections import Correction
    from modgap.index import add_column, open_documents, open_index

    fixed = Correction.load(correction)
    if from_column is not None:
        if documents or table is None or not address.startswith("postgres"):
            raise InputValueError(
                "--from-column corrects a column of a PostgreSQL table: give the address, the "
                "correction and --table, and no files."
            )
        with steps() as step:
            written = add_column(
                address,
                table,
                fixed,
                column=from_column,
                modality_column=modality_column or "modality",
                new_column=new_column,
                batch_rows=batch,
                progress=step,
            )
        say(f"corrected {written:,} rows of {table} into the column {new_column}")
        return
    sources = open_documents(documents or [], fixed, column=column)
    options: dict[str, Any] = {"table": table, "ef_search": ef_search, "nprobe": nprobe}
    options |= {"factory": factory, "batch_rows": batch}
    with (
        open_index(address, fixed, create=True, replace=replace, **options) as index,
        steps() as step,
    ):
        for name, stored in index.write_all(sources, step).items():
            left = sources[name].n_rows - stored
            kept = f", {left:,} were there already" if left else ""
            say(f"stored {stored:,} documents of {name}{kept}")
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
    ef_search: EfSearch = None,
    nprobe: Nprobe = None,
    vector_column: VectorColumn = None,
    modality_column: ModalityColumn = None,
    id_column: IdColumn = None,
    as_json: AsJson = False,
) -> None:
    """Search an index of both modalities with raw vectors of one.

    Example: modgap index search both.faiss correction.safetensors query.npy --modality text -k 5
    """
    from modgap._results import document
    from modgap.cli.show import print_json, print_table
    from modgap.corrections import Correction
    from modgap.index import open_index
    from modgap.index.documents import check_query_modality
    from modgap.io import open_embeddings

    fixed = Correction.load(correction)
    check_query_modality(fixed, modality)
    source = open_embeddings(queries, column=column)
    if row is not None and row >= source.n_rows:
        raise InputValueError(f"--row must be below {source.n_rows}, got {row}.")
    rows, first = (source.rows(), 0) if row is None else (source.take([row]), row)
    options: dict[str, Any] = {"table": table, "ef_search": ef_search, "nprobe": nprobe}
    options |= {"column": vector_column, "modality_column": modality_column, "id_column": id_column}
    with open_index(address, fixed, **options) as index:
        hits = index.search(rows, modality, k, only)
    if as_json:
        print_json(document("index_search", hits, modality=modality, first_row=first))
    else:
        print_table(*hits.table(first))


@index_app.command()
def evaluate(
    address: Address,
    correction: CorrectionFile,
    documents: Documents = None,
    queries: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MODALITY=PATH", help="Queries; without them a sample of the documents."
        ),
    ] = None,
    k: Annotated[int, typer.Option("-k", min=1, help="Results of each query.")] = 10,
    sample: Annotated[int, typer.Option(min=1, help="Queries of each modality, at most.")] = 200,
    table: Table = None,
    column: Column = None,
    ef_search: EfSearch = None,
    nprobe: Nprobe = None,
    vector_column: VectorColumn = None,
    modality_column: ModalityColumn = None,
    id_column: IdColumn = None,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Compare an index with an exact search: recall, and the share of each modality in results.

    Example: modgap index evaluate both.faiss correction.safetensors image=image.npy text=text.npy
    """
    from modgap._results import document
    from modgap.cli.show import print_json, print_table, steps
    from modgap.corrections import Correction
    from modgap.index import evaluate_index, open_documents, open_index

    fixed = Correction.load(correction)
    sources = open_documents(documents or [], fixed, column=column)
    asked = open_documents(queries, fixed, column=column) if queries else None
    options: dict[str, Any] = {"table": table, "ef_search": ef_search, "nprobe": nprobe}
    options |= {"column": vector_column, "modality_column": modality_column, "id_column": id_column}
    with open_index(address, fixed, **options) as index, steps() as step:
        result = evaluate_index(index, sources, asked, k=k, sample=sample, seed=seed, progress=step)
    if as_json:
        print_json(document("index_evaluate", result, seed=seed))
    else:
        print_table(*result.table())


@index_app.command("drop-column")
def drop_corrected_column(
    address: Annotated[
        str, typer.Argument(metavar="URL", help="postgresql://…", show_default=False)
    ],
    table: Annotated[str, typer.Option(help="The table the column is in.", show_default=False)],
    new_column: NewColumn = "embedding_corrected",
) -> None:
    """Undo build --from-column: drop the corrected column of a table you have.

    Example: modgap index drop-column postgresql://localhost/search --table items
    """
    from modgap.cli.show import say
    from modgap.index import drop_column

    drop_column(address, table, new_column)
    say(f"dropped the column {new_column} of {table}")
