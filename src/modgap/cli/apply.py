"""``modgap apply``: correct a file of embeddings of one modality."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from modgap._validate import InputValueError

if TYPE_CHECKING:
    import numpy as np

    from modgap.corrections import Affine, Correction


def apply(
    correction: Annotated[
        Path, typer.Argument(metavar="CORRECTION", help="The file that fit or diagnose wrote.")
    ],
    embeddings: Annotated[
        Path, typer.Argument(metavar="EMBEDDINGS", help="Embeddings of one modality.")
    ],
    modality: Annotated[
        str, typer.Option(help="Which modality they are, by name.", show_default=False)
    ],
    output: Annotated[
        Path,
        typer.Option(
            "-o", "--output", help="Where to write; the suffix says the format.", show_default=False
        ),
    ],
    role: Annotated[str, typer.Option(help="document or query.")] = "document",
    column: Annotated[str | None, typer.Option(help="Array or column to read.")] = None,
    dtype: Annotated[
        str | None, typer.Option(help="float16, float32 or float64; as read when left out.")
    ] = None,
    trust_rows: Annotated[
        bool,
        typer.Option(
            "--trust-rows",
            help="Go on with rows that look like another modality's or another model's.",
        ),
    ] = False,
) -> None:
    """Apply a correction to embeddings, batch by batch; ids, captions and groups come along.

    Rows that do not look like those of the modality that the correction was fitted on are refused.

    Example: modgap apply correction.safetensors image.npy --modality image -o documents.npy
    """
    from modgap._validate import check_choice
    from modgap.cli.outputs import check_file, tidy_when_terminated
    from modgap.cli.show import say, steps
    from modgap.corrections import Correction, check_recognised
    from modgap.io import open_embeddings, write_embeddings

    check_file(output, (embeddings, correction))
    fixed = Correction.load(correction)
    mapping = fixed.map(modality, role)  # type: ignore[arg-type]
    if dtype is not None:
        check_choice(dtype, "--dtype", ("float16", "float32", "float64"))
    source = open_embeddings(embeddings, column=column)
    if source.dim != mapping.dim_in:
        raise InputValueError(
            f"{correction} is for rows of {mapping.dim_in} columns, but {embeddings} has "
            f"{source.dim}. It must be fitted on embeddings of the same model."
        )
    check_recognised(fixed, source, modality, trust_rows=trust_rows)
    with steps() as step, tidy_when_terminated():
        batches = source.batches_with_progress(step, f"correcting {modality}")
        write_embeddings(
            output,
            _corrected(batches, mapping, modality),
            ids=source.ids,
            captions=source.captions,
            labels=source.labels,
            groups=source.groups,
            dtype=dtype or str(source.dtype),
        )
    say(f"wrote {output}: {source.n_rows:,} rows of {mapping.dim_out} columns")
    if role == "document" and (note := _note(fixed, correction)):
        say(f"modgap: note: {note}")


def _note(fixed: Correction, path: Path) -> str:
    """What the metric and the queries must be for these documents, where that is not as before."""
    from modgap.corrections import next_commands
    from modgap.corrections.demands import METRIC_WORDS

    said = []
    if fixed.metric != "cosine":
        said.append(f"these documents are ranked by {METRIC_WORDS[fixed.metric]}")
    if any(not fixed.map(name, "query").is_identity for name in fixed.queries):
        commands = next_commands(fixed, str(path))
        asking = next(command for command in commands if "--role query" in command)
        said.append(f"{' and '.join(fixed.queries)} queries go through: {asking}")
    return "; ".join(said)


def _corrected(
    batches: Iterable[np.ndarray], mapping: Affine, modality: str
) -> Iterator[np.ndarray]:
    """The batches mapped; a row that cannot be used is named by its place in the file."""
    done = 0
    for batch in batches:
        yield mapping(batch, modality, first_row=done)
        done += len(batch)
