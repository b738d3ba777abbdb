"""What ``fix`` writes for people: a search that runs, and a page that says what the files are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from modgap.corrections import Correction, demands

_SEARCH = '''\
"""Search the corrected documents beside this file with raw query vectors, exactly.

python search.py                          the example queries
python search.py QUERIES.npy -k 10{usage}

Raw vectors go in, of any length: the correction does to them what they need. In place of the
exact search any index does that ranks by {metric}.
"""

import argparse
from pathlib import Path

import numpy as np

from modgap import Correction, open_embeddings
from modgap.search import search

HERE = Path(__file__).parent
CORRECTIONS = {files!r}  # by the modality that asks
COLUMNS = {columns!r}

parser = argparse.ArgumentParser()
parser.add_argument("queries", nargs="?", help="embeddings to search with, as the model gives them")
parser.add_argument("--modality", choices=list(CORRECTIONS), default={asking!r})
parser.add_argument("-k", type=int, default=10)
given = parser.parse_args()

correction = Correction.load(HERE / CORRECTIONS[given.modality])
documents, names, ids = [], [], []
for name in correction.names:
    side = open_embeddings(HERE / f"documents-{{name}}.parquet", column=COLUMNS[given.modality])
    documents.append(side.rows())
    names += [name] * side.n_rows
    ids += list(range(side.n_rows)) if side.ids is None else side.ids.tolist()

path = given.queries or HERE / f"example-queries-{{given.modality}}.npy"
queries = correction.apply(open_embeddings(path).rows(), given.modality, role="query")
rows, scores = search(queries, np.concatenate(documents), given.k, correction.metric)
for query, (best, score) in enumerate(zip(rows, scores)):
    print(f"query {{query}}")
    for place, (row, value) in enumerate(zip(best, score), start=1):
        print(f"  {{place:3}}  {{names[row]:10}} {{ids[row]!s:20}} {{value:.4f}}")
'''

_README = """\
# What is in this folder

Written by `modgap fix`. The correction is fitted on all rows; the figures in `diagnosis*.json` are
those of rows it had not seen.

| file | what it is |
|---|---|
{files}

```
{demands}
```

Queries are raw vectors of {asking}, as the model gives them; `search.py` and the SQL function
bring them to the right form themselves. Wherever else the documents are loaded, rank by
{metric}, and send queries through the correction first:

```python
from modgap import Correction

correction = Correction.load("{first}")
query = correction.apply(rows, "{first_asking}", role="query")
document = correction.apply(rows, "{name}")  # a new one
```
"""
_METRICS = {
    "cosine": "cosine",
    "inner_product": "inner product, not cosine",
    "euclidean": "Euclidean distance",
}


def search_script(corrections: Mapping[str, Correction]) -> str:
    """The text of ``search.py``."""
    asking = next(iter(corrections))
    several = len(corrections) > 1
    usage = "".join(f" [--modality {' | '.join(corrections)}]" for _ in range(several))
    return _SEARCH.format(
        usage=usage,
        metric=_METRICS[corrections[asking].metric],
        files={name: correction_file(name, several) for name in corrections},
        columns={name: document_column(name, several) for name in corrections},
        asking=asking,
    )


def readme(corrections: Mapping[str, Correction], names: Sequence[str]) -> str:
    """The text of ``README.md``."""
    several = len(corrections) > 1
    columns = ", ".join(f"`{document_column(name, several)}`" for name in corrections)
    listed = [
        *(
            (correction_file(name, several), f"the correction for {name} queries")
            for name in corrections
        ),
        *((f"documents-{name}.parquet", f"the {name} documents, in {columns}") for name in names),
        *((f"example-queries-{name}.npy", f"a few raw {name} rows") for name in corrections),
        ("search.py", "`python search.py [QUERIES.npy]`: an exact search of all documents"),
        ("pgvector.sql", "the same inside PostgreSQL, from the raw vectors that are there"),
        ("diagnosis*.json", "the verdict and every metric"),
    ]
    first, correction = next(iter(corrections.items()))
    return _README.format(
        files="\n".join(f"| `{name}` | {what} |" for name, what in listed),
        demands="\n".join(line for c in corrections.values() for line in demands(c)),
        asking=" or ".join(corrections),
        metric=_METRICS[correction.metric],
        first=correction_file(first, several),
        first_asking=first,
        name=names[0],
    )


def correction_file(asking: str, several: bool) -> str:
    """The name of a correction's file: plain where there is one only."""
    return f"correction-{asking}.safetensors" if several else "correction.safetensors"


def document_column(asking: str, several: bool) -> str:
    """The column of the documents that serves these queries."""
    return f"embedding_{asking}" if several else "embedding"
