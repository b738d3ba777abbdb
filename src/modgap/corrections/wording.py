"""The words of a correction: what it demands (columns, metric, queries), and what to do next."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from modgap.core.drawing import draw_steps
from modgap.core.results import notebook_html, notebook_table
from modgap.core.secrets import without_secrets
from modgap.corrections.affine import Affine
from modgap.corrections.correction import Correction, Metric
from modgap.corrections.files import file_safe
from modgap.io import Embeddings
from modgap.io.file_formats import fused_parts

if TYPE_CHECKING:
    from modgap.corrections.correction import Correction

_NOTHING_ELSE = ", nothing else"
# Of an index, this share of changed documents calls for another look at its correction.
CHANGED_SHARE = 0.5
METRIC_NAMES: dict[Metric, str] = {
    "cosine": "cosine",
    "inner_product": "inner product",
    "euclidean": "Euclidean distance",
}


def demands(correction: Correction) -> list[str]:
    """The printed lines: what it is, then one for each thing to know.

    >>> print("\\n".join(demands(Correction.identity(512))))
    Correction, for image and text queries
      columns    512 before, 512 after
      documents  left as they are
      queries    the same as documents
      rank by    cosine
    """
    return [
        f"{label(correction)}, for {_listed(correction.queries)} queries",
        *(f"  {topic:<11}{words}" for topic, words in demands_by_topic(correction).items()),
    ]


def demands_by_topic(correction: Correction) -> dict[str, str]:
    """What there is to know in words, by what it is about: columns, documents, queries, rank by.

    >>> demands_by_topic(Correction.identity(512))["columns"]
    '512 before, 512 after'
    """
    served = correction.queries
    queries = (
        _rows({name: correction.affine(name, "query") for name in served})
        if correction.roles_differ
        else "the same as documents"
    )
    only = f"{_listed(served)} only: " if len(served) < len(correction.names) else ""
    documents = _rows({name: correction.affine(name) for name in correction.names})
    hubs = correction.hubs
    if hubs is None:
        more = {}
    else:
        documents += f"; one more column, {'from the bank' if hubs.weight else 'a 0'}"
        queries = f"{queries.removesuffix(_NOTHING_ELSE)}; one more column, a 1"
        held = f"a bank of {hubs.n_bank:,} queries"
        said = f"not subtracted; {held}"
        if hubs.weight:
            nearest = f"the mean score of the {hubs.neighbours} nearest"
            said = f"less {hubs.weight:g} of {nearest}, by {held}"
        more = {"hubs": said + ("" if hubs.bank is not None else ", removed")}
    if later := correction.about.get("not_judged"):
        more["not judged"] = f"{_listed(later)}, added later"
    columns = f"{correction.dim_in} before, {correction.dim_out} after"
    if correction.query_model:
        asked = correction.affine(served[0], "query").dim_in
        columns = (
            f"{correction.dim_in} of documents, {asked} of queries, {correction.dim_out} after"
        )
        queries = f"rows of {correction.query_model}, {queries}"
    return {
        "columns": columns,
        "documents": documents,
        "queries": f"{only}{queries}",
        **more,
        "rank by": metric_to_rank_by(correction),
    }


def metric_to_rank_by(correction: Correction) -> str:
    """The metric in words, with the mistake that is easily made."""
    metric = METRIC_NAMES[correction.metric]
    if correction.background is not None:
        return f"{metric} within a modality; merge modalities by expected wrong results"
    if correction.metric != "inner_product":
        return metric
    return f"{metric} (cosine undoes the correction)"


def in_one_sentence(correction: Correction, queries: Sequence[str] | None = None) -> str:
    """The same for a verdict: columns, metric, and what happens to the queries that are asked."""
    before, after = correction.dim_in, correction.dim_out
    columns = f"{after} columns, as before" if before == after else f"{after} columns, not {before}"
    asking = tuple(name for name in correction.queries if queries is None or name in queries)
    how = {_steps(correction.affine(name, "query")) for name in asking}
    what = how.pop() if len(how) == 1 else "mapped, each modality in its own way"
    if correction.hubs is not None:
        what = f"{what.removesuffix(_NOTHING_ELSE)} and get a 1 as their last column"
    if correction.background is not None:
        return (
            "Search each modality by inner product and merge the lists by expected wrong results, "
            "as modgap index search, search.py and modgap.search.merge do. Documents have "
            f"{columns}; {_listed(asking)} queries are {what}."
        )
    return (
        f"Documents have {columns}; rank by {metric_to_rank_by(correction)}; {_listed(asking)} "
        f"queries are {what}."
    )


def label(correction: Correction) -> str:
    """The corrector as it is written in code, where one made it."""
    about = correction.about
    return str(about.get("label") or about.get("method") or "Correction")


def of_preset(correction: Correction) -> str:
    """Where a correction that ships with modgap is from; nothing for others."""
    about = correction.about
    if "preset" not in about:
        return ""
    return (
        f"The correction is the preset {about['preset']}, fitted on {about['data']}, embedded by "
        f"{about['model']}. It was neither fitted nor tested on these rows."
    )


def share_metric(corrections: Iterable[Correction]) -> bool:
    """Whether one index can serve the queries of all: an index ranks by one metric.

    >>> share_metric([Correction.identity(4), Correction.identity(4, metric="euclidean")])
    False
    """
    return len({correction.metric for correction in corrections}) == 1


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
    asking, added = _listed(correction.queries), _listed([*sides])
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


def _rows(maps: dict[str, Affine]) -> str:
    """What happens to the rows of each modality."""
    steps = {name: _steps(affine) for name, affine in maps.items()}
    if len(set(steps.values())) > 1:
        return "; ".join(f"{name}: {words}" for name, words in steps.items())
    own = len(maps) > 1 and not all(affine.keeps_directions for affine in maps.values())
    return next(iter(steps.values())) + (", each modality by its own map" if own else "")


def _steps(affine: Affine) -> str:
    """What a map does to a row, in the order in which it does it."""
    if affine.is_identity:
        return "left as they are"
    if affine.normalise and replace(affine, normalise=False).is_identity:
        return f"brought to unit length{_NOTHING_ELSE}"
    steps = ["brought to unit length"] if affine.normalise else []
    if affine.matrix is not None:
        steps.append("multiplied by a matrix")
    if affine.scale != 1.0:
        steps.append("scaled")
    if affine.offset is not None:
        steps.append("shifted")
    if affine.renormalise:
        steps.append("brought to unit length" + (" again" if affine.normalise else ""))
    if affine.blocks is not None:
        wide = len(affine.blocks) > 1
        steps.append(f"laid out in {len(affine.blocks)} blocks" if wide else "scaled")
    return ", ".join(steps)


def _listed(names: Sequence[str]) -> str:
    return " and ".join(names)


def correction_html(correction: Correction) -> str:
    """The drawing and the table; names are text, never markup."""
    known = {f"{name} documents": correction.map(name) for name in correction.names}
    if correction.roles_differ:
        known |= {f"{name} queries": correction.map(name, "query") for name in correction.queries}
    lanes = [
        (rows, (f"{one.dim_in} columns", *one.steps(), f"{correction.dim_out} columns"))
        for rows, one in known.items()
    ]
    fitted = ", ".join(f"{rows.n:,} {name} rows" for name, rows in correction.fitted.items())
    demanded = [*demands_by_topic(correction).items(), *([("fitted on", fitted)] if fitted else [])]
    served = " and ".join(correction.queries)
    return notebook_html(
        draw_steps(f"{label(correction)}: what is done to rows", lanes),
        notebook_table(("", ""), demanded, f"Serves {served} queries", words=True),
    )
