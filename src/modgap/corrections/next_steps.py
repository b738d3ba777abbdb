"""What to do next with corrections, indexes and rows: the commands, in words of people's files."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from modgap.core.secrets import without_secrets
from modgap.corrections.correction import Correction
from modgap.corrections.files import file_safe
from modgap.io import Embeddings
from modgap.io.file_formats import fused_parts

if TYPE_CHECKING:
    from modgap.corrections.correction import Correction

from modgap.corrections.wording import demands, metric_to_rank_by, share_metric

# Of an index, this share of changed documents calls for another look at its correction.
CHANGED_SHARE = 0.5


def next_commands(
    files: Mapping[str, Correction],
    folder: str = ".",
    *,
    sides: Mapping[str, Embeddings] | None = None,
) -> list[str]:
    """The commands that correct documents and queries, and those that build an index.

    Parameters
    ----------
    files : mapping of paths to Corrections
        One correction, or one for each query modality, by the file it is in.
    folder : str
        The folder that holds them, where there are several.
    sides : mapping of names to Embeddings, optional
        The documents: the commands name their files, where these exist, else NAME.npy.
    """
    names = _modalities(files)
    path, both = (folder, ["--queries", "both"]) if len(files) > 1 else (next(iter(files)), [])
    held = _document_files(names, sides)
    if len({*held.values()}) < len(held):  # one file of all modalities, of which apply reads one
        held = {name: f"{name}.npy" for name in names}
    commands = []
    for name in names:
        # A folder of shards is corrected into another one, and resumes after an interruption.
        suffix = "" if Path(held[name]).is_dir() else ".npy"
        target = f"{file_safe(name)}-documents{suffix}"
        commands.append(_modgap("apply", path, held[name], "--modality", name, *both, "-o", target))
    return [
        *commands,
        *query_commands(files, folder).values(),
        *_index_commands(files, folder, sides).values(),
    ]


def fit_lines(
    files: Mapping[str, Correction], folder: str, *, sides: Mapping[str, Embeddings]
) -> list[str]:
    """What was fitted into which file, what it demands, and what to do next."""
    written = [line for file, one in files.items() for line in (f"wrote {file}", *demands(one))]
    return [*written, *_next_lines(next_commands(files, folder, sides=sides))]


def _next_lines(commands: Sequence[str]) -> list[str]:
    return [f"  {'next' if k == 0 else '':9}  {command}" for k, command in enumerate(commands)]


def extension_lines(
    path: str, correction: Correction, sides: Mapping[str, Embeddings]
) -> list[str]:
    """What to do with modalities that were added to a correction, and what was not judged.

    Parameters
    ----------
    path : str
        Where the correction is.
    correction : Correction
        The extended one.
    sides : mapping of names to Embeddings
        The rows that were added.
    """
    held = _document_files([*sides], sides)
    every = [f"{name}={name}.npy" for name in correction.names]
    judge = _modgap("evaluate", *every, "--correction", path)
    asking, added = " and ".join(correction.queries), " and ".join(sides)
    commands = [
        _modgap("apply", path, file, "--modality", name, "-o", f"{file_safe(name)}-documents.npy")
        for name, file in held.items()
    ]
    return [
        "  existing maps and corrected documents do not change",
        f"  not tested: whether {asking} queries find the right {added} documents, and whether "
        f"their rows are of the same model. To test it with matching rows: {judge}",
        *_next_lines(commands),
    ]


def changed_lines(shares: Mapping[str, float], corrections: Sequence[Correction]) -> list[str]:
    """How many documents of an index changed since it was built, and what to do beyond a limit."""
    said = [
        f"{share:.0%} of {name}" if share >= 0.01 else f"less than 1% of {name}"
        for name, share in shares.items()
        if share
    ]
    if not said:
        return []
    lines = [f"changed since the correction was fitted or the index built: {', '.join(said)}"]
    if max(shares.values()) >= CHANGED_SHARE:
        now = ",".join(f"{name}={name}-now.npy" for name in corrections[0].names)
        check = _modgap("drift", "THEN", now, "--correction", "CORRECTION")
        lines.append(f"  whether the correction still fits: {check}")
        if any(one.background is not None for one in corrections):
            again = _modgap("fit", "--refit", "CORRECTION", *now.split(","))
            lines.append(f"  where it does not, the index may stay: {again}")
    return lines


def migration_lines(folder: str, names: Sequence[str], asking: str) -> list[str]:
    """What to do with a migration: search at once, move documents, switch, and undo it."""
    documents = [f"{name}=new-{file_safe(name)}.npy" for name in names]
    asked = ["QUERIES.npy", "--modality", asking]
    search = _modgap("index", "search", "OLD_INDEX", folder, *asked)
    build = _modgap("index", "build", "NEW_INDEX", f"{folder}/new.safetensors", *documents)
    moved = _modgap("index", "status", "OLD_INDEX", folder, "--new-index", "NEW_INDEX")
    alone = _modgap("index", "search", "NEW_INDEX", f"{folder}/new.safetensors", *asked)
    return [
        f"now:   {search}",
        f"move:  {build} --ids IDS, those of the old documents; more with index add",
        f"       {search} --new-index NEW_INDEX",
        f"       {moved}",
        f"then:  {alone}",
        "undo:  the old index stays as it is; search it with its own correction and old queries",
    ]


def query_commands(files: Mapping[str, Correction], folder: str = ".") -> dict[str, str]:
    """For each query modality, the command that sends its queries through the correction."""
    path = folder if len(files) > 1 else next(iter(files))
    served = {name for correction in files.values() for name in correction.queries}
    return {
        name: _modgap(
            "apply", path, "QUERIES.npy", "--modality", name, "--role", "query",
            "-o", f"{file_safe(name)}-queries.npy",
        )
        for name in _modalities(files)
        if name in served
    }  # fmt: skip


def search_lines(
    address: str, path: str, served: Iterable[str], options: Mapping[str, Any]
) -> list[str]:
    """How to search an index that was built, a command for each query modality; without secrets.

    ``options`` are those of the command that have a value.
    """
    words = ["index", "search", without_secrets(address), path, "QUERIES.npy", "--modality"]
    more = [word for key, value in options.items() if value for word in (key, str(value))]
    # Qdrant's embedded mode keeps pickles, which are opened on request only.
    if address.startswith("qdrant:") and "://" not in address:
        more.append("--trust")
    head = "  the index corrects documents and queries itself: give it raw vectors"
    return [head, *(f"next: {_modgap(*words, name, *more)}" for name in served)]


def text_search_command(address: str, path: str) -> str:
    """The command that searches an index in words."""
    return _modgap("index", "search", address, path, "--text", "a dog on the beach")


def drop_column_command(address: str, column: str) -> str:
    """The command that drops a corrected column."""
    return _modgap("index", "drop-column", address, "--new-column", column)


def document_notes(correction: Correction, path: str) -> list[str]:
    """What the metric and the queries must be for documents just corrected, in one note or none."""
    said = []
    if correction.metric != "cosine":
        said.append(f"these documents are ranked by {metric_to_rank_by(correction)}")
    if any(not correction.map(name, "query").is_identity for name in correction.queries):
        for name, command in query_commands({path: correction}).items():
            said.append(f"map {name} queries with: {command}")
    return ["; ".join(said)] if said else []


def embedded_commands(
    folder: str, modalities: Sequence[str], model: str, pictures: str, labelled: str | None
) -> list[str]:
    """What to do with rows just embedded: fix and look at them, or classify ``labelled`` data."""
    if len(modalities) == 2:
        look = _modgap("report", folder, "--images", pictures, "-o", "report.html")
        return [_modgap("fix", folder, "-o", "fixed"), *([look] if "image" in modalities else [])]
    if labelled is not None:
        return [_modgap("task", "zero_shot", "--model", model, "--data", labelled)]
    return []


def fix_steps(
    files: Mapping[str, Correction],
    folder: str,
    *,
    columns: Mapping[str, str],
    functions: Mapping[str, str],
    sides: Mapping[str, Embeddings] | None = None,
    others: Mapping[str, Embeddings] | None = None,
    pages: bool = True,
) -> tuple[str, ...]:
    """What to do with all that ``fix`` wrote, in lines: a label, then a command or a sentence.

    Parameters
    ----------
    files, folder, sides
        As for ``next_commands``.
    columns : mapping of str to str
        For each query modality the column of the documents that serves it.
    functions : mapping of str to str
        For each query modality the SQL function that searches. Without any, the corrections
        cannot map new documents: neither SQL nor an index is offered.
    others : mapping of str to Embeddings, optional
        The other documents of the index, by modality.
    pages : bool
        Whether there are pages to look at.
    """
    if not files:
        return ()
    made_for = dict(zip(columns, files.values(), strict=True))
    place = shlex.quote(folder)
    choice = [f" --modality {shlex.quote(name)}" if len(files) > 1 else "" for name in columns]
    of_each = [f"-{file_safe(name)}" if len(files) > 1 else "" for name in columns]
    steps = {
        "look at it": [f"{place}/report{one}.html, in a browser" for one in of_each if pages],
        "try it": [f"python {place}/search.py{chosen}" for chosen in choice],
    }
    if functions:
        selects = [f"SELECT * FROM {function}('[…]', 10)" for function in functions.values()]
        steps["in PostgreSQL"] = [
            f"psql -v ON_ERROR_STOP=1 -f {place}/pgvector.sql",
            f"then {' or '.join(selects)}",
            f"undo: psql -f {place}/pgvector-undo.sql",
        ]
        indexes = _index_commands(files, folder, sides)
        steps["in an index"] = [*indexes.values()]
        if others:
            files_of = " and ".join(side.source for side in others.values())
            steps["in an index"].append(
                f"with the rows of {files_of} in the file of their modality"
            )
        if len(indexes) > 1:
            steps["in an index"].append("one index for each, because an index ranks by one metric")
    steps["elsewhere"] = []
    stored = f"{place}/{'*' if others else ''}documents-*.parquet"
    queries = query_commands(files, folder)
    for name, correction in made_for.items():
        if correction.background is not None:
            steps["elsewhere"] += [
                f"for {name} queries: search column {columns[name]} of {stored} "
                "by inner product, 30 results per modality, and merge the lists with "
                "modgap.search.merge. Correct the queries with:",
                queries[name],
            ]
            continue
        steps["elsewhere"] += [
            f"for {name} queries: load column {columns[name]} of {stored} into a flat index "
            f"that ranks by {metric_to_rank_by(correction)}. Correct the queries with:",
            queries[name],
        ]
    if functions:
        steps["elsewhere"].append("for HNSW, build an index: it keeps one graph per modality")
    return tuple(
        f"{label if place == 0 else '':13}  {line}"
        for label, lines in steps.items()
        for place, line in enumerate(lines)
    )


def _index_commands(
    files: Mapping[str, Correction], folder: str, sides: Mapping[str, Embeddings] | None
) -> dict[str, str]:
    """By its name, the command that builds an index: one for all queries where that can be."""
    held = _document_files(_modalities(files), sides)
    whole = {*held.values()}
    documents = [*whole] if len(whole) == 1 else [f"{name}={one}" for name, one in held.items()]
    if len(files) == 1:
        return {"both": _modgap("index", "build", "both.faiss", next(iter(files)), *documents)}
    if share_metric(files.values()):
        words = ["index", "build", "both.faiss", folder, *documents, "--queries", "both"]
        return {"both": _modgap(*words)}
    indexes = {"-".join(one.queries): file for file, one in files.items()}
    return {
        name: _modgap("index", "build", f"{file_safe(name)}.faiss", file, *documents)
        for name, file in indexes.items()
    }


def _document_files(names: Sequence[str], sides: Mapping[str, Embeddings] | None) -> dict[str, str]:
    """The file of each modality, or one file of all; NAME.npy where there are none."""
    found = {name: side.source for name, side in (sides or {}).items()}
    if found and all(Path(one).exists() or fused_parts(one) for one in found.values()):
        return found
    return {name: f"{name}.npy" for name in names}


def _modalities(files: Mapping[str, Correction]) -> tuple[str, ...]:
    return next(iter(files.values())).names


def _modgap(*words: str) -> str:
    return shlex.join(["modgap", *words])
