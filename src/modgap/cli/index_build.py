"""``modgap index build``: the documents of all modalities, corrected, in one index."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from modgap.cli.named import groups_by_name
from modgap.core.checks import InputValueError


def index_build(
    address: str,
    correction: Path,
    documents: list[str] | None = None,
    table: str | None = None,
    column: str | None = None,
    factory: str | None = None,
    ef_search: int | None = None,
    nprobe: int | None = None,
    queries: str | None = None,
    one_graph: bool = False,
    batch: int | None = None,
    groups: str | None = None,
    ids: str | None = None,
    without_bank: Path | None = None,
    trust_rows: bool = False,
    trust: bool = False,
    replace: bool = False,
    from_column: str | None = None,
    new_column: str | None = None,
    modality_column: str | None = None,
    group_column: str | None = None,
) -> None:
    """Store the documents of all modalities, corrected, in one index.

    Files hold vectors as the model gives them: the index corrects them, and later the queries,
    itself. A build that was interrupted or killed is run again with the same command and finishes.
    Files are read in batches; an index of FAISS is in memory while it is built.

    Example: modgap index build both.faiss correction.safetensors image=image.npy text=text.npy

    Add --factory HNSW32,Flat (FAISS) or --ef-search 64 (the others) for graphs.
    """
    from modgap.cli.outputs import check_file, write_without_bank
    from modgap.cli.progress import steps
    from modgap.cli.show import say
    from modgap.corrections import load_corrections
    from modgap.corrections.next_steps import search_lines
    from modgap.index import add_column, open_documents, open_index
    from modgap.index.documents import stored_lines
    from modgap.index.pgvector_column import column_demands
    from modgap.index.postgres import is_postgres

    fixed = load_corrections(correction, queries)
    if without_bank is not None:
        check_file(without_bank)
    if from_column is not None:
        if documents or table is None or not is_postgres(address):
            raise InputValueError(
                "--from-column corrects a column of a PostgreSQL table: give the address, the "
                "correction and --table, and no files."
            )
        with steps() as step:
            written = add_column(
                address, table, fixed, column=from_column, new_column=new_column,
                modality_column=modality_column or "modality", group_column=group_column,
                graphs=ef_search is not None, rebuild=replace, batch_rows=batch, progress=step,
            )  # fmt: skip
        said = [
            f"corrected {written:,} rows of {table}",
            *column_demands(fixed, from_column, new_column),
        ]
        served = list(fixed)
        given: dict[str, Any] = {"--table": table, "--modality-column": modality_column}
        given["--ef-search"] = ef_search
    else:
        first = next(iter(fixed.values()))
        labels = groups_by_name(groups, first.names)
        called = groups_by_name(ids, first.names, "--ids")
        sources = open_documents(documents or [], first, column=column, groups=labels, ids=called)
        opened = open_index(
            address, fixed, create=True, replace=replace, trust=trust, table=table,
            factory=factory, ef_search=ef_search, nprobe=nprobe, batch_rows=batch,
            one_graph=one_graph or None,
        )  # fmt: skip
        with opened as index, steps() as step:
            stored = index.write_all(sources, step, trust_rows=trust_rows)
            index.finish()
            said = [*stored_lines(sources, stored), *index.demands()]
            served = list(index.corrections)
        given = {"--table": table, "--ef-search": ef_search, "--nprobe": nprobe}
    for line in (*said, *search_lines(address, str(correction), served, given)):
        say(line)
    if without_bank is not None:
        write_without_bank(fixed.values(), without_bank)
