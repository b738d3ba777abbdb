"""The texts that a fix writes: a search that runs, and what is in the folder."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from modgap.corrections import METRIC_NAMES, Correction, correction_file_name, demands, file_safe
from modgap.corrections.wording import of_preset
from modgap.index.stored_vectors import vector_names
from modgap.io import Embeddings

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
