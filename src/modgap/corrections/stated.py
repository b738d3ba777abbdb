"""What a correction demands of who uses it, in words: columns, metric, queries, next commands."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from modgap.corrections.affine import Affine
from modgap.corrections.correction import Correction, Metric

_NOTHING_ELSE = ", nothing else"
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
        documents += "; one more column, from the bank"
        queries = f"{queries.removesuffix(_NOTHING_ELSE)}; one more column, a 1"
        share = f"{hubs.weight:g} of the mean score of the {hubs.neighbours} nearest"
        held = f"{hubs.n_bank:,} queries" + ("" if hubs.bank is not None else ", removed")
        more = {"hubs": f"less {share}, by a bank of {held}"}
    return {
        "columns": f"{correction.dim_in} before, {correction.dim_out} after",
        "documents": documents,
        "queries": f"{only}{queries}",
        **more,
        "rank by": metric_to_rank_by(correction),
    }


def metric_to_rank_by(correction: Correction) -> str:
    """The metric in words, with the mistake that is easily made."""
    metric = METRIC_NAMES[correction.metric]
    if correction.metric != "inner_product":
        return metric
    return f"{metric} (not cosine, which loses the correction)"


def in_one_sentence(correction: Correction, queries: Sequence[str] | None = None) -> str:
    """The same for a verdict: columns, metric, and what happens to the queries that are asked."""
    before, after = correction.dim_in, correction.dim_out
    columns = f"{after} columns, as before" if before == after else f"{after} columns, not {before}"
    asking = tuple(name for name in correction.queries if queries is None or name in queries)
    how = {_steps(correction.affine(name, "query")) for name in asking}
    what = how.pop() if len(how) == 1 else "mapped, each modality in its own way"
    if correction.hubs is not None:
        what = f"{what.removesuffix(_NOTHING_ELSE)} and get a 1 as their last column"
    return (
        f"Documents have {columns}; rank by {metric_to_rank_by(correction)}; {_listed(asking)} "
        f"queries are {what}."
    )


def label(correction: Correction) -> str:
    """The corrector as it is written in code, where one made it."""
    about = correction.about
    return str(about.get("label") or about.get("method") or "Correction")


def next_commands(
    correction: Correction,
    file: str = "correction.safetensors",
    *,
    several: bool = False,
    rows: Mapping[str, str] | None = None,
) -> list[str]:
    """The commands that correct documents and queries, and the one that builds an index.

    Parameters
    ----------
    correction : Correction
        What is applied.
    file : str
        Its file; the folder where there are several.
    several : bool
        Whether there is one for each modality that asks.
    rows : mapping of names to paths, optional
        The file of each modality; by default it is called like the modality.
    """
    path, names = shlex.quote(file), [shlex.quote(name) for name in correction.names]
    both = " --queries both" if several else ""
    asking = names if several else [shlex.quote(name) for name in correction.queries]
    given = [shlex.quote(rows[n]) if rows else f"{shlex.quote(n)}.npy" for n in correction.names]
    # Of a folder of shards another one is made, which goes on after a kill.
    shards = [rows is not None and Path(rows[n]).is_dir() for n in correction.names]
    suffixes = ["" if of_shards else ".npy" for of_shards in shards]
    files = " ".join(f"{name}={held}" for name, held in zip(names, given, strict=True))
    return [
        *(
            f"modgap apply {path} {held} --modality {name}{both} -o {name}-documents{suffix}"
            for name, held, suffix in zip(names, given, suffixes, strict=True)
        ),
        *(
            f"modgap apply {path} QUERIES.npy --modality {name} --role query -o {name}-queries.npy"
            for name in asking
        ),
        f"modgap index build both.faiss {path} {files}{both}",
    ]


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


def _listed(names: tuple[str, ...]) -> str:
    return " and ".join(names)
