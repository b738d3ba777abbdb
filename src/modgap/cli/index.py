"""``modgap index``: one index of all modalities, built, searched and checked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from modgap._validate import InputValueError
from modgap.cli.index_options import (
    YOURS,
    Address,
    Column,
    CorrectionFile,
    Documents,
    EfSearch,
    Groups,
    IdColumn,
    ModalityColumn,
    Nprobe,
    Table,
    Trust,
    VectorColumn,
)
from modgap.cli.index_search import search
from modgap.cli.options import AsJson, Seed, TrustRows, WithoutBank, groups_by_name

if TYPE_CHECKING:
    from modgap.corrections import Correction
    from modgap.index import VectorIndex

index_app = typer.Typer(
    name="index",
    help="Build, search and check one index that holds all modalities, corrected. Searches are "
    "exact unless you ask for graphs, of which each modality then has its own.",
    epilog="Example: modgap index build both.faiss correction.safetensors image=image.npy "
    "text=text.npy --factory HNSW32,Flat",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_NEW = "embedding_corrected"


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
    queries: Annotated[
        str | None,
        typer.Option(
            metavar="MODALITY|both",
            help="Whose queries to serve, where CORRECTION is a folder: a modality, or both, which "
            "stores a vector a document for each. All that are there if left out.",
        ),
    ] = None,
    one_graph: Annotated[
        bool,
        typer.Option(
            "--one-graph",
            help="One graph of all modalities instead of one for each; its recall is measured.",
        ),
    ] = False,
    batch: Annotated[
        int | None, typer.Option(min=1, help="Rows stored, and committed, together.")
    ] = None,
    groups: Groups = None,
    without_bank: WithoutBank = None,
    trust_rows: TrustRows = False,
    trust: Trust = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="Drop an index that modgap built there before.")
    ] = False,
    from_column: Annotated[
        str | None,
        typer.Option(
            help="PostgreSQL: correct this column of --table, instead of files, into a new one.",
            rich_help_panel=YOURS,
        ),
    ] = None,
    new_column: Annotated[
        str | None,
        typer.Option(
            help=f"The column of corrected vectors; {_NEW}, or embedding_text and so on for "
            "several, if left out.",
            rich_help_panel=YOURS,
        ),
    ] = None,
    modality_column: ModalityColumn = None,
    group_column: Annotated[
        str | None,
        typer.Option(
            help="Its column of labels, ids or row numbers that the correction was fitted with, "
            "where it has hubs; the primary key if left out.",
            rich_help_panel=YOURS,
        ),
    ] = None,
) -> None:
    """Store the documents of all modalities, corrected, in one index.

    Files hold vectors as the model gives them: the index corrects them, and later the queries,
    itself. A build that was interrupted or killed is run again with the same command and finishes.
    Files are read in batches; an index of FAISS is in memory while it is built.

    Example: modgap index build both.faiss correction.safetensors image=image.npy text=text.npy

    Add --factory HNSW32,Flat (FAISS) or --ef-search 64 (the others) for graphs.
    """
    from modgap.cli.outputs import check_file, write_without_bank
    from modgap.cli.show import say, steps
    from modgap.corrections import load_corrections
    from modgap.index import open_documents, open_index
    from modgap.index.postgres import is_postgres

    fixed = load_corrections(correction, queries)
    if without_bank is not None:
        check_file(without_bank, (correction,))
    if from_column is not None:
        if documents or table is None or not is_postgres(address):
            raise InputValueError(
                "--from-column corrects a column of a PostgreSQL table: give the address, the "
                "correction and --table, and no files."
            )
        _correct_column(
            address,
            correction,
            fixed,
            table,
            column=from_column,
            new_column=new_column,
            modality_column=modality_column,
            group_column=group_column,
            batch=batch,
        )
        if without_bank is not None:
            write_without_bank(fixed.values(), without_bank)
        return
    first = next(iter(fixed.values()))
    labels = groups_by_name(groups, first.names)
    sources = open_documents(documents or [], first, column=column, groups=labels)
    options: dict[str, Any] = {"table": table, "ef_search": ef_search, "nprobe": nprobe}
    options |= {"factory": factory, "batch_rows": batch, "one_graph": one_graph or None}
    with (
        open_index(address, fixed, create=True, replace=replace, trust=trust, **options) as index,
        steps() as step,
    ):
        for name, stored in index.write_all(sources, step, trust_rows=trust_rows).items():
            left = sources[name].n_rows - stored
            kept = f", {left:,} were there already" if left else ""
            say(f"stored {stored:,} documents of {name}{kept}")
        index.finish()
        for name, recall in index.graph_recall.items():
            say(f"one graph of all modalities: recall@10 {recall:.4f} for {name} queries")
        again = {"--table": table, "--ef-search": ef_search, "--nprobe": nprobe}
        _say_demands(index, address, correction, again)
    if without_bank is not None:
        write_without_bank(fixed.values(), without_bank)


def _correct_column(
    address: str,
    correction: Path,
    fixed: Mapping[str, Correction],
    table: str,
    *,
    column: str,
    new_column: str | None,
    modality_column: str | None,
    group_column: str | None,
    batch: int | None,
) -> None:
    """Correct a column of a table into a new one, and say what it demands."""
    from modgap.cli.show import say, steps
    from modgap.index import add_column
    from modgap.index.pgvector_column import column_names
    from modgap.index.vectors import as_corrections

    with steps() as step:
        written = add_column(
            address,
            table,
            fixed,
            column=column,
            modality_column=modality_column or "modality",
            new_column=new_column,
            group_column=group_column,
            batch_rows=batch,
            progress=step,
        )
    say(f"corrected {written:,} rows of {table}")
    given = as_corrections(fixed)
    for name, one in zip(column_names(given, new_column), given, strict=True):
        say(f"{name}, {one.dim_out} columns: {one}")
    again = {"--table": table, "--modality-column": modality_column}
    _say_next(address, correction, fixed, again)


def _say_demands(
    index: VectorIndex, address: str, correction: Path, options: dict[str, Any]
) -> None:
    """What the index holds and demands, and the command that searches it."""
    from modgap.cli.show import say

    say(f"{index.place} holds {index.count():,} documents")
    for name, vector in index.vectors.items():
        say(f"{name}, {vector.dim} columns: {vector.correction}")
    if index.graphs is not None:
        kind = "one for each modality" if index.graphs == "each" else "one of all modalities"
        lifted = any(vector.lengths is not None for vector in index.vectors.values())
        more = "; one more column gives documents one length, as graphs need it" if lifted else ""
        say(f"  graphs     {kind}{more}")
    _say_next(address, correction, index.corrections, options)


def _say_next(
    address: str, correction: Path, served: Iterable[str], options: dict[str, Any]
) -> None:
    """Who corrects what, and the commands that search the index."""
    from modgap.cli.show import say
    from modgap.corrections.wording import search_commands

    say("  the index corrects documents and queries itself: give it vectors as the model does")
    given = [part for key, value in options.items() if value for part in (key, str(value))]
    for command in search_commands(address, str(correction), served, given):
        say(f"next: {command}")


index_app.command()(search)


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
    groups: Groups = None,
    ef_search: EfSearch = None,
    nprobe: Nprobe = None,
    vector_column: VectorColumn = None,
    modality_column: ModalityColumn = None,
    id_column: IdColumn = None,
    trust: Trust = False,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Compare an index with an exact search: recall, and the share of each modality in results.

    Example: modgap index evaluate both.faiss correction.safetensors image=image.npy text=text.npy
    """
    from modgap._results import document
    from modgap.cli.show import print_json, print_table, steps
    from modgap.corrections import load_corrections
    from modgap.index import evaluate_index, open_documents, open_index

    fixed = load_corrections(correction)
    first = next(iter(fixed.values()))
    labels = groups_by_name(groups, first.names)
    sources = open_documents(documents or [], first, column=column, groups=labels)
    asked = open_documents(queries, first, column=column) if queries else None
    options: dict[str, Any] = {"table": table, "ef_search": ef_search, "nprobe": nprobe}
    options |= {"column": vector_column, "modality_column": modality_column, "id_column": id_column}
    with open_index(address, fixed, trust=trust, **options) as index, steps() as step:
        result = evaluate_index(index, sources, asked, k=k, sample=sample, seed=seed, progress=step)
    if as_json:
        print_json(document("index_evaluate", result, seed=seed))
    else:
        print_table(*result.table())


@index_app.command("drop-column")
def drop_corrected_column(
    address: Annotated[
        str,
        typer.Argument(metavar="URL", help="postgresql://…, or a Lance dataset."),
    ],
    table: Annotated[str | None, typer.Option(help="The table the column is in.")] = None,
    new_column: Annotated[str, typer.Option(help="The column of corrected vectors.")] = _NEW,
) -> None:
    """Undo build --from-column, or apply --into: drop the corrected column of a table you have.

    Example: modgap index drop-column postgresql://localhost/search --table items
    """
    from modgap.cli.show import say
    from modgap.index import drop_column

    if address.rstrip("/").endswith(".lance"):
        from modgap.engines import drop_corrected_column as drop_lance_column

        drop_lance_column(address, new_column)
        say(f"dropped the column {new_column} of {address}")
        return
    if table is None:
        raise InputValueError("Say with --table which table the column is in.")
    drop_column(address, table, new_column)
    say(f"dropped the column {new_column} of {table}")
