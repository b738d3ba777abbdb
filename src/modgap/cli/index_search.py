"""``modgap index search``: asks an index, with vectors, with words or with images."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from modgap.cli import index_options
from modgap.cli.options import AsJson
from modgap.core.checks import InputValueError

_asked_option = partial(typer.Option, rich_help_panel="Words and images")


def search(
    address: index_options.Address,
    correction: index_options.CorrectionFile,
    queries: Annotated[
        Path | None,
        typer.Argument(
            metavar="[QUERIES]",
            help="Embeddings to search with, as they are; or --text or --image.",
        ),
    ] = None,
    text: Annotated[
        list[str] | None,
        _asked_option(help="Search with these words, embedded by the model. May be repeated."),
    ] = None,
    image: Annotated[
        list[Path] | None,
        _asked_option(metavar="FILE", help="Search with an image file. May be repeated."),
    ] = None,
    model: Annotated[
        str | None,
        _asked_option(
            help="The model that embeds them, such as hf:openai/clip-vit-base-patch32; by default "
            "the one noted in the correction."
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
    calibrator: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="What ScoreCalibrator.save wrote: shows the probability that a result is a match.",
        ),
    ] = None,
    at_least: Annotated[
        float | None,
        typer.Option(
            metavar="PROBABILITY",
            help="With --calibrator: leave out results that are less probably a match.",
        ),
    ] = None,
    at_most: Annotated[
        float | None,
        typer.Option(
            help="Only results with at most so many expected wrong ones, such as 1, with a "
            "correction of the method expected-wrong. The best result of a query also stays where "
            "its score and its number together look better than without any match."
        ),
    ] = None,
    table: index_options.Table = None,
    column: index_options.Column = None,
    ef_search: index_options.EfSearch = None,
    nprobe: index_options.Nprobe = None,
    vector_column: index_options.VectorColumn = None,
    modality_column: index_options.ModalityColumn = None,
    id_column: index_options.IdColumn = None,
    trust: index_options.Trust = False,
    as_json: AsJson = False,
) -> None:
    """Search an index of all modalities with vectors of one, with words or with images.

    Example: modgap index search both.faiss correction.safetensors query.npy --modality text -k 5

    Example: modgap index search both.faiss correction.safetensors --text "a dog on the beach"
    """
    from modgap.cli.show import print_json, print_table
    from modgap.core.results import document
    from modgap.corrections import load_corrections
    from modgap.embed.queries import embed_queries
    from modgap.index import open_index
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
    with open_index(
        address, fixed, trust=trust, table=table, ef_search=ef_search, nprobe=nprobe,
        column=vector_column, modality_column=modality_column, id_column=id_column,
    ) as index:  # fmt: skip
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
