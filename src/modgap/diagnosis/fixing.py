"""``fix``: the whole way, from two files to corrected documents, a page and a search that runs."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from modgap._version import __version__
from modgap.core.checks import Array, InputValueError
from modgap.core.files import atomic_folder, folder_to_write, write_text
from modgap.core.limits import read_json
from modgap.core.locks import sole_writer_of
from modgap.core.results import (
    NOT_IN_JSON,
    Progress,
    Result,
    document,
    notebook_html,
    notebook_table,
    silent,
    to_json,
)
from modgap.corrections import (
    METRIC_NAMES,
    Correction,
    Metric,
    RecognitionWarning,
    correction_file_name,
    demands,
    file_safe,
    load_corrections,
    open_preset,
    query_modalities,
    recognise,
)
from modgap.corrections.next_steps import fix_steps, text_search_command
from modgap.corrections.wording import of_preset, share_metric
from modgap.diagnosis.run import diagnose
from modgap.diagnosis.verdict import Diagnosis
from modgap.evaluation import Goal
from modgap.index import open_index
from modgap.index.sql import pgvector_sql, search_function, undo_sql
from modgap.index.stored_vectors import vector_names
from modgap.io import Embeddings, Modalities, write_embeddings, write_vectors
from modgap.io.modalities import DEFAULT_NAMES

SEARCH_FILE, LIST_FILE = "search.py", "fix.json"
SQL_FILE, UNDO_FILE = "pgvector.sql", "pgvector-undo.sql"
_EXAMPLES = 5


@dataclass(frozen=True, eq=False)
class Fix(Result):
    """What was found and written.

    ``diagnoses`` and ``corrections`` are keyed by the query modality; a correction is missing
    where the verdict is to leave it alone. A preset is not diagnosed. ``files`` were written, in
    this order.
    """

    folder: str
    diagnoses: Mapping[str, Diagnosis]
    files: tuple[str, ...]
    next_steps: tuple[str, ...]
    corrections: Mapping[str, Correction] = field(
        default_factory=dict, repr=False, metadata=NOT_IN_JSON
    )

    def _brief(self) -> str:
        verdicts = (
            f"{name} queries: {found.verdict} {found.recommended or ''}".rstrip()
            for name, found in self.diagnoses.items()
        )
        return ", ".join([repr(self.folder), *verdicts, f"{len(self.files)} files"])

    def _repr_html_(self) -> str:
        written = [(Path(file).name,) for file in self.files]
        parts = [found._repr_html_() for found in self.diagnoses.values()]
        parts.append(notebook_table(("",), written, f"Written to {self.folder}"))
        if self.next_steps:
            parts.append(notebook_table(("",), [(step,) for step in self.next_steps], "Next"))
        return notebook_html(*parts)


def fix(
    X: Array | Embeddings | Modalities | Mapping[str, Array | Embeddings],
    Y: Array | Embeddings | None = None,
    folder: str | os.PathLike[str] = "modgap-fix",
    names: Sequence[str] = DEFAULT_NAMES,
    *,
    groups: tuple[Any, Any] | Mapping[str, Any] | None = None,
    paired: bool | None = None,
    queries: str | Sequence[str] | None = None,
    goal: Goal = "mixed",
    metric: Metric = "cosine",
    bank: Array | Embeddings | None = None,
    keep_bank: bool = True,
    model: str | None = None,
    preset: str | None = None,
    trust_pairs: bool = False,
    group_duplicates: bool = True,
    seed: int = 0,
    progress: Progress | None = None,
) -> Fix:
    """Diagnose, fit the chosen correction on all rows, and write all that a search needs.

    The folder gets the correction, the corrected documents of each modality as Parquet, a
    ``search.py`` that runs, SQL for pgvector, and the diagnosis as a page and as JSON, all of it or
    nothing. The metrics of the verdict stay those of held-out rows. Where the verdict is to leave
    it alone, only the diagnosis is written.

    Parameters
    ----------
    X, Y, names, groups, paired
        The modalities, as for ``measure``.
    folder : path
        Where to write: a new or an empty folder, or one that ``fix`` wrote and that holds nothing
        else; it is then replaced.
    queries : str or several, optional
        The query modality, as for ``diagnose``. For several, each gets a correction of its
        own, and each document a vector for each.
    goal, metric, bank, model, trust_pairs, group_duplicates, seed
        As for ``diagnose``; a bank is for the queries of one modality.
    keep_bank : bool
        Whether the written correction keeps its bank of queries, where it has hubs. Without it the
        correction maps queries only: new documents need a new fix. Query logs are private.
    preset : str, optional
        A correction that ships with modgap, such as ``clip-vit-b-32-captions``, instead of a
        diagnosis and a fit. It needs no pairs and judges nothing; rows of another model are
        refused.
    progress : callable, optional
        Called as ``progress(step, done, total)``.
    """
    say, place = progress or silent, Path(folder)
    check_replaceable(place)
    data = Modalities.of(X, Y, names, groups=groups, paired=paired)
    if len({file_safe(name) for name in data.names}) < len(data.names):
        raise InputValueError(
            f"The names {', '.join(map(repr, data.names))} would give two files one name. Choose "
            "names that differ in letters or digits."
        )
    found: dict[str, Diagnosis] = {}
    corrections: dict[str, Correction] = {}
    asking: tuple[str, ...] = ()
    options: dict[str, Any] = {}
    if preset is not None:
        if bank is not None or goal != "mixed" or metric != "cosine":
            raise InputValueError(
                "A preset is chosen and fitted already: leave out bank, goal and metric."
            )
        corrections = _of_preset(preset, data, queries)
    else:
        asking = query_modalities(queries, data.names)[::-1]  # text first, of image and text
        options = {"goal": goal, "metric": metric, "model": model, "seed": seed}
        options |= {"trust_pairs": trust_pairs, "bank": bank}
        data = _to_diagnose(data, asking, bank, group_duplicates)
    with sole_writer_of(place):
        if asking:
            found = diagnose_each(data, asking, group_duplicates=False, **options, progress=say)
            corrections = {
                name: one.correction for name, one in found.items() if one.correction is not None
            }
        check_replaceable(place)  # diagnosing takes a while
        with atomic_folder(place, replace=True) as temporary:
            written = []
            for name, one in found.items():
                one_of = f"-{file_safe(name)}" if len(found) > 1 else ""
                written.append(temporary / f"diagnosis{one_of}.json")
                write_text(written[-1], to_json(document("diagnose", one)) + "\n")
                written.append(temporary / f"report{one_of}.html")
                _write_page(data, one, written[-1], metric=metric, model=model, progress=say)
            written += _write_fix(data, corrections, temporary, say, keep_bank=keep_bank)
            listed = {"version": __version__, "files": [path.name for path in written]}
            write_text(temporary / LIST_FILE, to_json(listed) + "\n")
    files = tuple(str(place / name) for name in (*listed["files"], LIST_FILE))
    several, banks = (
        len(corrections) > 1,
        keep_bank or not any(c.hubs for c in corrections.values()),
    )
    steps = fix_steps(
        {
            str(place / correction_file_name(name, several=several)): one
            for name, one in corrections.items()
        },
        str(place),
        columns=document_columns(corrections),
        functions={name: search_function(name) for name in corrections} if banks else {},
        sides=data.sides,
        others=data.others,
        pages=bool(found),
    )
    return Fix(str(place), found, files, steps, corrections)


def _to_diagnose(
    data: Modalities,
    asking: Sequence[str],
    bank: Array | Embeddings | None,
    group_duplicates: bool,
) -> Modalities:
    """The rows that are diagnosed, refused where they or the bank cannot be."""
    if data.undecided:
        raise InputValueError(data.undecided)
    if bank is not None and len(asking) > 1:
        raise InputValueError(
            f"A bank holds queries of one modality, and {' and '.join(asking)} ask. Run it once "
            "for each."
        )
    return data.with_duplicates_grouped() if group_duplicates else data


def _of_preset(
    name: str,
    data: Modalities,
    queries: str | Sequence[str] | None,
) -> dict[str, Correction]:
    """A correction that ships with modgap, where it serves these rows."""
    correction = open_preset(name)
    if {*data.names} != {*correction.names}:
        raise InputValueError(
            f"The preset {name} is for {' and '.join(correction.names)}, and the rows are "
            f"{' and '.join(data.names)}. Name them image=PATH text=PATH."
        )
    asking = query_modalities(queries, data.names, correction)
    for modality, side in (*data.sides.items(), *data.others.items()):
        if side.dim != correction.dim_in:
            raise InputValueError(
                f"The preset {name} takes rows of {correction.about['model']}, "
                f"{correction.dim_in} columns, and {modality} has {side.dim}."
            )
        found = recognise(correction, side, modality)
        if found.refused:
            raise InputValueError(f"{found.sentence} Or leave out the preset.")
        if found.finding not in ("fits", "not judged"):
            warnings.warn(found.sentence, RecognitionWarning, stacklevel=3)
    return dict.fromkeys(asking, correction)


def diagnose_each(
    data: Modalities, queries: Sequence[str], *, group_duplicates: bool = True, **options: Any
) -> dict[str, Diagnosis]:
    """A diagnosis for each query modality; of several, each correction serves its queries alone."""
    data = data.with_duplicates_grouped() if group_duplicates else data
    options["group_duplicates"] = False  # they are, or are not to be
    found = {name: diagnose(data, queries=name, **options) for name in queries}
    return found if len(found) == 1 else {name: _narrowed(one) for name, one in found.items()}


def _narrowed(diagnosis: Diagnosis) -> Diagnosis:
    """The same, with a correction for the queries that it was judged by."""
    whole = diagnosis.correction
    if whole is None:
        return diagnosis
    own = replace(whole, queries=diagnosis.queries)
    tried = {label: own if one is whole else one for label, one in diagnosis.corrections.items()}
    return replace(diagnosis, correction=own, corrections=tried)


def build_indexes(
    data: Modalities,
    corrections: Mapping[str, Correction],
    folder: Path,
    progress: Progress | None = None,
) -> dict[Path, Path]:
    """FAISS indexes of all documents beside the folder of a fix, with the corrections they take.

    One serves all queries where their corrections share a metric, else there is one for each.
    """
    several = len(corrections) > 1
    if not several or share_metric(corrections.values()):
        file = correction_file_name(next(iter(corrections)), several=False)
        plan = {beside(folder, ".faiss"): (folder if several else folder / file, dict(corrections))}
    else:
        plan = {
            beside(folder, f"-{file_safe(name)}.faiss"): (
                folder / correction_file_name(name, several=True),
                {name: one},
            )
            for name, one in corrections.items()
        }
    for place, (_, served) in plan.items():
        with open_index(place, served, create=True, replace=True) as index:
            index.write_all(dict(data.sides), progress)
    return {place: path for place, (path, _) in plan.items()}


def index_lines(built: Mapping[Path, Path]) -> Iterator[str]:
    """What indexes were built, and how to search them in words; by their corrections."""
    for place, path in built.items():
        yield f"wrote {place}"
        if "text" in load_corrections(path):
            yield f"next: {text_search_command(str(place), str(path))}"


def beside(folder: Path, ending: str) -> Path:
    """A name beside the folder of a fix."""
    return folder.parent / f"{folder.name}{ending}"


def check_replaceable(place: Path, list_file: str = LIST_FILE, by: str = "fix") -> None:
    """A folder that can be replaced without a loss: new, empty, or written by one command alone.

    ``list_file`` lists the files that the command ``by`` wrote.
    """
    if not folder_to_write(place).exists():
        return
    held = {entry.name for entry in place.iterdir()}
    ours = {list_file}
    if list_file in held:
        try:
            ours |= {*read_json(place / list_file, "a list of files")["files"]}
        except (ValueError, KeyError, TypeError):
            ours = set()
    if others := sorted(held - ours):
        raise InputValueError(
            f"{place} holds files that modgap {by} did not write ({', '.join(others[:3])}"
            f"{' …' if len(others) > 3 else ''}). Choose a new or an empty folder."
        )


def _write_fix(
    data: Modalities,
    corrections: Mapping[str, Correction],
    place: Path,
    say: Progress,
    *,
    keep_bank: bool,
) -> Iterator[Path]:
    if not corrections:
        return
    for asking, correction in corrections.items():
        path = place / correction_file_name(asking, several=len(corrections) > 1)
        correction.save(path, bank=keep_bank)
        yield path
    # One type for all, so that the files can be joined.
    dtype = np.result_type(*(side.dtype for side in data.sides.values()))
    for name, side in data.sides.items():
        path = place / f"documents-{file_safe(name)}.parquet"
        keys = data.keys_of(name) if any(one.hubs for one in corrections.values()) else None
        _write_documents(path, side, name, keys, corrections, str(dtype), say)
        yield path
    for name, side in data.others.items():
        path = place / f"other-documents-{file_safe(name)}.parquet"
        _write_documents(path, side, name, None, corrections, str(dtype), say)
        yield path
    for asking in corrections:
        path = place / f"example-queries-{file_safe(asking)}.npy"
        side = data.queries_of(asking)
        write_embeddings(path, side.take(np.arange(min(_EXAMPLES, side.n_rows))))
        yield path
    written = {name: one if keep_bank else one.without_bank() for name, one in corrections.items()}
    texts = {SEARCH_FILE: search_script(written, data.others)}
    if all(one.hubs is None or one.hubs.bank is not None for one in written.values()):
        texts[SQL_FILE] = pgvector_sql(written, file=SQL_FILE, undo=UNDO_FILE)  # with the bank
        texts[UNDO_FILE] = undo_sql(written)
    texts["README.md"] = readme(written, data.names, data.others)
    for name, text in texts.items():
        write_text(place / name, text)
        yield place / name


def _write_page(data: Modalities, diagnosis: Diagnosis, path: Path, **options: Any) -> None:
    """The page of a diagnosis."""
    # Pages come after diagnoses in the way of the data: found by name, when one is wanted.
    report = import_module("modgap.reports").report
    report(data, diagnosis=diagnosis, seed=diagnosis.seed, **options).save(path)


def _write_documents(
    path: Path,
    side: Embeddings,
    name: str,
    keys: np.ndarray | None,
    corrections: Mapping[str, Correction],
    dtype: str,
    say: Progress,
) -> None:
    """The documents of a modality, mapped batch by batch, with their ids, captions and labels."""
    step = f"correcting {name}"
    streams = [
        one.map(name).over(side.batches_with_progress(say, step), name, keys, dtype=dtype)
        for one in corrections.values()
    ]
    columns: dict[str, Any] = {
        "ids": side.ids, "captions": side.captions, "labels": side.labels, "dtype": dtype
    }  # fmt: skip
    if len(streams) == 1:
        write_embeddings(path, streams[0], **columns)
        return
    names = document_columns(corrections).values()
    write_vectors(path, dict(zip(names, streams, strict=True)), **columns)


_SEARCH = '''\
"""Search the corrected documents beside this file with raw query vectors, exactly.

python search.py                          the example queries
python search.py QUERIES.npy -k 10{usage}

Give raw vectors, of any length: the correction maps them. Other exact indexes give the same
results if they rank alike: {ranking}. For graphs use
modgap index build, which keeps one for each modality. A correction that merges by expected wrong
results prints them, and --at-most 1 leaves out results with more of them.
"""

import argparse
import sys
from pathlib import Path

import numpy as np

from modgap import Correction, open_embeddings
from modgap.corrections import recognise
from modgap.search import search_corrected

HERE = Path(__file__).parent
CORRECTIONS = {files!r}  # by query modality
COLUMNS = {columns!r}
DOCUMENTS = {documents!r}
EXAMPLES = {examples!r}


def main():
    parser = argparse.ArgumentParser(description="Search the corrected documents.")
    parser.add_argument("queries", nargs="?", help="embeddings as the model gives them")
    parser.add_argument("--modality", choices=list(CORRECTIONS), default={asking!r}, metavar="NAME")
    parser.add_argument("-k", type=int, default=10, help="results of each query")
    parser.add_argument("--at-most", type=float, metavar="E", help="expected wrong results")
    given = parser.parse_args()

    correction = Correction.load(HERE / CORRECTIONS[given.modality])
    documents, ids = {{}}, {{}}
    for name, files in DOCUMENTS.items():
        sides = [open_embeddings(HERE / file, column=COLUMNS[given.modality]) for file in files]
        documents[name] = np.concatenate([side.rows() for side in sides])
        ids[name] = [
            f"other {{row}}" if side.ids is None and place else str(row)
            for place, side in enumerate(sides)
            for row in (range(side.n_rows) if side.ids is None else side.ids.tolist())
        ]

    raw = open_embeddings(given.queries or HERE / EXAMPLES[given.modality]).rows()
    found = recognise(correction, raw, given.modality, "query")  # judges 20 rows or more
    if found.finding not in ("fits", "not judged"):
        print(f"search.py: warning: {{found.sentence}}", file=sys.stderr)
    hits = search_corrected(
        correction, raw, documents, given.k, modality=given.modality, at_most=given.at_most
    )
    for query, rows in enumerate(hits.ids):
        print(f"query {{query}}" + (", nothing found" if hits.nothing_found[query] else ""))
        for place, row in enumerate(rows):
            if row is not None:
                name = hits.modalities[query, place]
                line = f"  {{place + 1:3}}  {{name:10}} {{ids[name][row]:20}} "
                print(line + f"{{hits.scores[query, place]:.4f}}" + expected(hits, query, place))


def expected(hits, query, place):
    if hits.expected_wrong is None:
        return ""
    return f"  {{max(hits.expected_wrong[query, place], hits.least):.2g}} wrong expected"


if __name__ == "__main__":
    try:
        main()
    except (ValueError, TypeError, OSError) as error:
        sys.exit(f"search.py: {{error}}")
'''

_README = """\
# What is in this folder

Written by `modgap fix`. {origin}

| file | what it is |
|---|---|
{files}

```
{demands}
```

Queries are raw vectors of {asking}, as the model gives them; `search.py` and the SQL function
bring them to the right form themselves. Wherever else the documents are loaded, send queries
through the correction first; {ranking}. A graph (HNSW) of these columns alone finds less:
`modgap index build` makes one for each modality over rows of equal length.

```python
from modgap import Correction

correction = Correction.load("{first}")
query = correction.apply(rows, {first_asking!r}, role="query")
{new}```
{hubs}"""
_HUBS = """
The last column of a document says how much of a hub it is, measured on a bank of {n} queries; the
correction appends a 1 to queries. {bank}
"""
_BANK = """\
The correction{s} and `pgvector.sql` carry the bank and are as
private as its queries are. Who maps queries only does not need it:
`correction.save("queries.safetensors", bank=False)`."""
_NO_BANK = """\
The bank was left out of these files, so the correction{s}
cannot map new documents: these need another run of `modgap fix`."""


def search_script(
    corrections: Mapping[str, Correction], others: Mapping[str, Embeddings] | None = None
) -> str:
    """The text of ``search.py``; ``others`` are the other documents that were written."""
    asking, correction = next(iter(corrections.items()))
    several = len(corrections) > 1
    # Into the text of the script itself only names that cannot end its docstring.
    plain = all(re.fullmatch(r"[\w -]+", name) for name in corrections)
    choices = " | ".join(corrections) if plain else "MODALITY"
    return _SEARCH.format(
        usage=f" [--modality {choices}]" if several else "",
        ranking=_ranking(corrections) if plain else _ranking({"MODALITY": correction}),
        files={name: correction_file_name(name, several=several) for name in corrections},
        columns=document_columns(corrections),
        documents={
            name: [
                f"documents-{file_safe(name)}.parquet",
                *([f"other-documents-{file_safe(name)}.parquet"] if name in (others or {}) else []),
            ]
            for name in correction.names
        },
        examples={name: f"example-queries-{file_safe(name)}.npy" for name in corrections},
        asking=asking,
    )


def readme(
    corrections: Mapping[str, Correction],
    names: Sequence[str],
    others: Mapping[str, Embeddings] | None = None,
) -> str:
    """The text of ``README.md``; corrections without their bank do not come with SQL."""
    several = len(corrections) > 1
    hubs = [one.hubs for one in corrections.values() if one.hubs is not None]
    bare = any(one.bank is None for one in hubs)
    columns = ", ".join(f"`{column}`" for column in document_columns(corrections).values())
    files = {name: correction_file_name(name, several=several) for name in corrections}
    listed = [
        *((file, f"the correction for {name} queries") for name, file in files.items()),
        *(
            (f"documents-{file_safe(name)}.parquet", f"the {name} documents, in {columns}")
            for name in names
        ),
        *(
            (f"other-documents-{file_safe(name)}.parquet", f"the other {name} documents")
            for name in others or {}
        ),
        *((f"example-queries-{file_safe(n)}.npy", f"a few raw {n} rows") for n in corrections),
        ("search.py", "`python search.py [QUERIES.npy]`: an exact search of all documents"),
        *(
            []
            if bare
            else [
                ("pgvector.sql", "the same inside PostgreSQL, from the raw vectors there"),
                ("pgvector-undo.sql", "leaves that database as it was"),
            ]
        ),
    ]
    first = next(iter(corrections))
    origin = of_preset(corrections[first])
    if not origin:
        origin = (
            "The metrics in `diagnosis*.json` are held-out; the correction here was\n"
            "refitted on all data."
        )
        listed += [
            ("report*.html", "the verdict and every metric, to look at in a browser"),
            ("diagnosis*.json", "the same as JSON"),
        ]
    bank = (_NO_BANK if bare else _BANK).format(s="s" if several else "")
    return _README.format(
        origin=origin,
        files="\n".join(f"| `{name}` | {_cell(what)} |" for name, what in listed),
        demands="\n".join(line for c in corrections.values() for line in demands(c)),
        asking=_cell(" or ".join(corrections)),
        ranking=_cell(_ranking(corrections)),
        first=files[first],
        first_asking=first,
        new="" if bare else f"document = correction.apply(rows, {names[0]!r})  # a new one\n",
        hubs=_HUBS.format(n=f"{hubs[0].n_bank:,}", bank=bank) if hubs else "",
    )


def _ranking(corrections: Mapping[str, Correction]) -> str:
    """The metric for each kind of query."""
    return ", ".join(
        f"{name} queries rank by {METRIC_NAMES[one.metric]}" for name, one in corrections.items()
    )


def _cell(text: str) -> str:
    """Text of one line, without what would end a cell of the table."""
    return re.sub(r"\s+", " ", text).replace("|", r"\|")


def document_columns(corrections: Mapping[str, Correction]) -> dict[str, str]:
    """The column of the documents that serves the queries of each modality."""
    return dict(zip(corrections, vector_names([*corrections.values()]), strict=True))
