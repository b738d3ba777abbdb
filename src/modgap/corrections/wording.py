"""The words of a correction: what it demands (columns, metric, queries)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from modgap.core.drawing import draw_steps
from modgap.core.results import notebook_html, notebook_table
from modgap.corrections.affine import Affine
from modgap.corrections.correction import Correction, Metric

if TYPE_CHECKING:
    from modgap.corrections.correction import Correction

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
        f"{label(correction)}, for {' and '.join(correction.queries)} queries",
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
    only = f"{' and '.join(served)} only: " if len(served) < len(correction.names) else ""
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
        more["not judged"] = f"{' and '.join(later)}, added later"
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
            f"{columns}; {' and '.join(asking)} queries are {what}."
        )
    return (
        f"Documents have {columns}; rank by {metric_to_rank_by(correction)}; "
        f"{' and '.join(asking)} queries are {what}."
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
