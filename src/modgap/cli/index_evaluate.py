"""``modgap index evaluate``: an index compared with an exact search."""

from __future__ import annotations

from modgap.cli import index_options
from modgap.cli.named import groups_by_name
from modgap.cli.options import AsJson, Seed


def index_evaluate(
    address: index_options.Address,
    correction: index_options.CorrectionFile,
    documents: index_options.Documents = None,
    queries: list[str] | None = None,
    k: int = 10,
    sample: int = 200,
    table: index_options.Table = None,
    column: index_options.Column = None,
    groups: index_options.Groups = None,
    ef_search: index_options.EfSearch = None,
    nprobe: index_options.Nprobe = None,
    vector_column: index_options.VectorColumn = None,
    modality_column: index_options.ModalityColumn = None,
    id_column: index_options.IdColumn = None,
    trust: index_options.Trust = False,
    seed: Seed = 0,
    as_json: AsJson = False,
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
