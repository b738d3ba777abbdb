"""``modgap apply``: correct a file of embeddings of one modality."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from modgap.cli import options

if TYPE_CHECKING:
    from modgap.corrections import Role


def apply(
    correction: Path,
    embeddings: Path,
    modality: str,
    output: Path | None = None,
    into: str | None = None,
    role: str = "document",
    queries: str | None = None,
    column: str | None = None,
    dtype: str | None = None,
    groups: str | None = None,
    without_bank: Path | None = None,
    trust_rows: bool = False,
    engine: str = "local",
) -> None:
    """Apply a correction to embeddings, batch by batch; keep ids, captions and groups.

    Rows that do not look like those of the modality that the correction was fitted on are refused.
    Of a folder of shards into a folder, a run that was stopped goes on when it is run again.

    Example: modgap apply correction.safetensors image.npy --modality image -o documents.npy

    Shards: modgap apply correction.safetensors shards --modality image -o corrected --engine ray
    """
    from modgap.cli.kept_inputs import check_outputs
    from modgap.cli.outputs import (
        check_file,
        check_folder,
        tidy_when_terminated,
        write_without_bank,
    )
    from modgap.cli.progress import steps
    from modgap.cli.show import say
    from modgap.core.checks import check_choice
    from modgap.corrections.files import corrections_to_apply
    from modgap.corrections.next_steps import document_notes, drop_column_command
    from modgap.engines import add_corrected_column
    from modgap.engines.corrected_folder import apply_to_place
    from modgap.io import open_embeddings
    from modgap.io.formats.clip_retrieval import own_folder

    as_role = cast("Role", role)  # which map refuses if it is none
    if dtype is not None:
        check_choice(dtype, "--dtype", ("float16", "float32", "float64"))
    options.refuse(
        output is None and into is None,
        "Say with -o where to write, or with --into which column to add. See modgap apply --help.",
    )
    options.refuse(
        output is not None and output.suffix and engine != "local",
        f"--engine {engine} writes a folder of shards: give -o a name without a suffix, "
        f"got {output}.",
    )
    if into is not None:
        options.refuse(output, "Give either -o or --into: a column is written where it is.")
        options.refuse_here_only(engine, into=into)
        for option, value in (("--groups", groups), ("--without-bank", without_bank)):
            why = f"{option} cannot be given with --into. Leave one of them out."
            options.refuse(value, why)
    found = corrections_to_apply(correction, queries, modality, as_role)
    if into is not None:
        fixed, *others = found.values()
        options.refuse(others, "A column is made with one correction: choose with --queries.")
        with steps() as step:
            n_rows = add_corrected_column(
                embeddings, fixed, modality, into, column=column, role=as_role, dtype=dtype,
                trust_rows=trust_rows, progress=step,
            )  # fmt: skip
        say(f"added the column {into} to {embeddings}: {n_rows:,} rows")
        say(f"  undo       {drop_column_command(str(embeddings), into)}")
        for note in document_notes(fixed, str(correction)) if role == "document" else ():
            say(f"modgap: note: {note}")
        return
    assert output is not None
    chosen = {
        output if len(found) == 1 else output.with_name(f"{output.stem}-{name}{output.suffix}"): one
        for name, one in found.items()
    }
    for target in chosen:
        read = {"embeddings": embeddings, "correction": correction, "groups": groups}
        check_outputs({**read, "output": target, "without_bank": without_bank})
        (check_file if target.suffix else check_folder)(target)
    if without_bank is not None:
        check_file(without_bank)
    rows: dict[str, Any] = {
        "column": column or own_folder(embeddings, modality),
        "modality": modality,
    }
    source = open_embeddings(embeddings, **rows)
    # Labels that are given beside the file are not written with its rows.
    labelled = open_embeddings(embeddings, **rows, groups=groups) if groups else source
    for target, fixed in chosen.items():
        with steps() as step, tidy_when_terminated():
            done = apply_to_place(
                fixed, source, modality, target, role=as_role, labelled=labelled, dtype=dtype,
                trust_rows=trust_rows, engine=engine, progress=step,
            )  # fmt: skip
        if done:
            say(f"modgap: {done:,} shards were done already")
        columns = fixed.map(modality, as_role).dim_out
        say(f"wrote {target}: {source.n_rows:,} rows of {columns} columns")
        for note in document_notes(fixed, str(correction)) if role == "document" else ():
            say(f"modgap: note: {note}")
    if without_bank is not None:
        write_without_bank(chosen.values(), without_bank)
