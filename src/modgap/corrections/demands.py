"""What a correction demands of who uses it, in words: columns, metric, queries, next commands."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from modgap.corrections.affine import Affine
from modgap.corrections.correction import Correction

METRIC_WORDS = {
    "cosine": "cosine",
    "inner_product": "inner product (not cosine, which would undo the correction)",
    "euclidean": "Euclidean distance",
}


def demands(correction: Correction) -> list[str]:
    """One line for each thing to know: what it is, documents, queries, metric, other queries."""
    served = correction.queries
    what = {name: _words(correction.map(name, "query")) for name in served}
    same = len(set(what.values())) == 1
    queries = what[served[0]] if same else "; ".join(f"{name}: {what[name]}" for name in served)
    return [
        f"{label(correction)}, for {' and '.join(served)} queries",
        f"  columns    {correction.dim_in} before, {correction.dim_out} after",
        f"  documents  {_documents(correction)}",
        f"  queries    {' and '.join(served)} only: {queries}"
        if len(served) < len(correction.names)
        else f"  queries    {queries}",
        f"  rank by    {METRIC_WORDS[correction.metric]}",
    ]


def in_one_sentence(correction: Correction, queries: Sequence[str] | None = None) -> str:
    """The same for a verdict: columns, metric, and what happens to the queries that are asked."""
    before, after = correction.dim_in, correction.dim_out
    columns = f"{after} columns, as before" if before == after else f"{after} columns, not {before}"
    asking = [name for name in correction.queries if queries is None or name in queries]
    what = {_words(correction.map(name, "query")) for name in asking}
    how = what.pop() if len(what) == 1 else "mapped, each modality in its own way"
    return (
        f"Documents have {columns}; rank by {METRIC_WORDS[correction.metric]}; "
        f"{' and '.join(asking)} queries are {'left ' if how == 'as they are' else ''}{how}."
    )


def label(correction: Correction) -> str:
    """The method and its parameters, as far as they are known."""
    about = correction.about
    given = about.get("parameters") or {}
    shown = ", ".join(f"{name}={value!r}" for name, value in given.items())
    return f"{about.get('method', 'Correction')}({shown})"


def next_commands(correction: Correction, file: str = "correction.safetensors") -> list[str]:
    """The commands that correct documents and queries, and the one that builds an index."""
    path, names = shlex.quote(file), [shlex.quote(name) for name in correction.names]
    lines = [
        f"modgap apply {path} {name}.npy --modality {name} -o {name}-documents.npy"
        for name in names
    ]
    asking = shlex.quote(correction.queries[-1])
    files = " ".join(f"{name}={name}.npy" for name in names)
    return [
        *lines,
        f"modgap apply {path} queries.npy --modality {asking} --role query -o {asking}-queries.npy",
        f"modgap index build both.faiss {path} {files}",
    ]


def _documents(correction: Correction) -> str:
    maps = [correction.map(name) for name in correction.names]
    if all(affine.is_identity for affine in maps):
        return "as they are"
    words = {_words(affine) for affine in maps}
    how = words.pop() if len(words) == 1 else "each modality through a map of its own"
    return f"{how} (role document)"


def _words(affine: Affine) -> str:
    """What a map does to a row."""
    if affine.is_identity:
        return "as they are"
    steps = []
    if affine.normalise:
        steps.append("brought to unit length")
    if affine.matrix is not None:
        steps.append("multiplied by a matrix")
    if affine.offset is not None:
        steps.append("shifted")
    if affine.scale != 1.0 or affine.blocks is not None:
        wide = affine.blocks is not None and len(affine.blocks) > 1
        steps.append(f"laid out in {len(affine.blocks or ())} blocks" if wide else "scaled")
    if affine.renormalise:
        steps.append("brought to unit length" + (" again" if affine.normalise else ""))
    return ", ".join(steps)
