"""``modgap index search``: asks an index, with vectors, with words or with images."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from modgap.cli.options import refuse
from modgap.core.checks import InputValueError


def index_search(
    address: str,
    correction: Path,
    queries: Path | None = None,
    text: list[str] | None = None,
    image: list[Path] | None = None,
    model: str | None = None,
    modality: str | None = None,
    k: int = 10,
    row: int | None = None,
    only: str | None = None,
    calibrator: Path | None = None,
    at_least: float | None = None,
    at_most: float | None = None,
    table: str | None = None,
    new_index: str | None = None,
    new_table: str | None = None,
    column: str | None = None,
    ef_search: int | None = None,
    nprobe: int | None = None,
    vector_column: str | None = None,
    modality_column: str | None = None,
    id_column: str | None = None,
    trust: bool = False,
    as_json: bool = False,
) -> None:
    """Search an index of all modalities with vectors of one, with words or with images.

    Example: modgap index search both.faiss correction.safetensors query.npy --modality text -k 5

    Example: modgap index search both.faiss correction.safetensors --text "a dog on the beach"

    With --new-index, documents of a new model are searched beside those of the old one: give the
    folder that modgap migrate wrote as the correction.
    """
    from modgap.cli.show import print_json, print_table
    from modgap.core.results import document
    from modgap.corrections import load_corrections
    from modgap.embed.item_batches import embed_queries
    from modgap.index import open_generations, open_index
    from modgap.index.stored_vectors import query_modality
    from modgap.io import open_embeddings
    from modgap.search import ScoreCalibrator

    fixed = load_corrections(correction)
    judging = None if calibrator is None else ScoreCalibrator.load(calibrator)
    if at_least is not None and judging is None:
        raise InputValueError("--at-least needs --calibrator.")
    if (queries is not None) + bool(text) + bool(image) != 1:
        raise InputValueError(
            "Give what to search with: a file of embeddings, --text or --image, one of them."
        )
    if queries is None:
        modality = query_modality(fixed, modality or ("image" if image else "text"))
        source = embed_queries(next(iter(fixed.values())), model, text or (), image or ())
    else:
        modality = query_modality(fixed, modality)
        source = open_embeddings(queries, column=column)
    if row is not None and row >= source.n_rows:
        raise InputValueError(f"--row must be below {source.n_rows}, got {row}.")
    rows, first = (source.rows(), 0) if row is None else (source.take([row]), row)
    own: dict[str, Any] = {
        "table": table, "ef_search": ef_search, "nprobe": nprobe, "column": vector_column,
        "modality_column": modality_column, "id_column": id_column,
    }  # fmt: skip
    if new_index is None:
        refuse(new_table, "--new-table belongs to --new-index.")
        opened: Any = open_index(address, fixed, trust=trust, **own)
    else:
        refuse(judging, "--calibrator is for one index; leave out --new-index.")
        opened = open_generations(
            correction, address, new_index, trust=trust, old_options=own,
            new_options={"table": new_table, "ef_search": ef_search, "nprobe": nprobe},
        )  # fmt: skip
    with opened as index:
        if judging is None:
            hits = index.search(rows, modality, k, only, at_most=at_most)
        else:
            hits = index.search(rows, modality, max(k, judging.k), only)
            hits = judging.judge(hits, modality, at_least=at_least, at_most=at_most).first(k)
    if as_json:
        print_json(document("index_search", hits, modality=modality, first_row=first))
    else:
        asked = [*(text or ()), *(file.name for file in image or ())]
        print_table(*hits.table(first, asked))
