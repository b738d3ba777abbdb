"""``modgap index evaluate``: an index compared with an exact search."""

from __future__ import annotations

from pathlib import Path

from modgap.cli.named import groups_by_name


def index_evaluate(
    address: str,
    correction: Path,
    documents: list[str] | None = None,
    queries: list[str] | None = None,
    k: int = 10,
    sample: int = 200,
    table: str | None = None,
    column: str | None = None,
    groups: str | None = None,
    ef_search: int | None = None,
    nprobe: int | None = None,
    vector_column: str | None = None,
    modality_column: str | None = None,
    id_column: str | None = None,
    trust: bool = False,
    seed: int = 0,
    as_json: bool = False,
) -> None:
    """Compare an index with an exact search: what it finds of the exact results, and of which kind.

    Example: modgap index evaluate both.faiss correction.safetensors image=image.npy text=text.npy
    """
    from modgap.cli.progress import steps
    from modgap.cli.show import print_result
    from modgap.corrections import load_corrections
    from modgap.index import evaluate_index, open_documents, open_index

    fixed = load_corrections(correction)
    first = next(iter(fixed.values()))
    labels = groups_by_name(groups, first.names)
    sources = open_documents(documents or [], first, column=column, groups=labels)
    asked = open_documents(queries, first, column=column, role="query") if queries else None
    opened = open_index(
        address, fixed, trust=trust, table=table, ef_search=ef_search, nprobe=nprobe,
        column=vector_column, modality_column=modality_column, id_column=id_column,
    )  # fmt: skip
    with opened as index, steps() as step:
        result = evaluate_index(index, sources, asked, k=k, sample=sample, seed=seed, progress=step)
    print_result("index_evaluate", result, as_json, seed=seed)
