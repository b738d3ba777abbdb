"""Export a correction as JSON, TypeScript, SQL or NumPy: one function and the numbers it reads."""

from __future__ import annotations

import json
import pprint
from collections.abc import Mapping
from importlib import resources
from typing import Any, Literal, get_args

import numpy as np

from modgap._version import __version__
from modgap.core.checks import InputValueError, check_choice
from modgap.corrections import Correction, one_query_modality
from modgap.corrections.list_background import (
    EVEN,
    FIRST,
    FLATTEST,
    LEAST_HELD,
    LEAST_PLACES,
)
from modgap.exports.sql import merging_sql
from modgap.search.merging import check_mergeable

Target = Literal["json", "typescript", "sql", "duckdb", "numpy"]
TARGETS: tuple[Target, ...] = get_args(Target)
SCHEMA = "modgap/export/1"


def export_correction(correction: Correction, to: Target, queries: str | None = None) -> str:
    """The text of a file that merges result lists of several modalities, without modgap.

    A correction with a background merges by expected wrong results, as ``merge`` does; one that
    keeps the rankings within a modality, as ``Calibrate(mode="keep")`` does, by its scores, as
    ``merge_corrected`` does. Order and scores are theirs.

    Parameters
    ----------
    correction : Correction
        One of these two kinds.
    to : {"json", "typescript", "sql", "duckdb", "numpy"}
        JSON holds the numbers alone; the others are one function with the numbers below it. SQL is
        a function of PostgreSQL, and for DuckDB a macro.
    queries : str, optional
        The modality of the queries, where the correction serves several.
    """
    check_choice(to, "to", TARGETS)
    numbers = merge_numbers(correction, queries)
    if to == "json":
        return _json(numbers) + "\n"
    if to in ("sql", "duckdb"):
        dialect = "postgresql" if to == "sql" else "duckdb"
        return merging_sql(correction, numbers, dialect)  # type: ignore[arg-type]
    suffix = {"typescript": "ts", "numpy": "py"}[to]
    template = resources.files("modgap.exports") / "templates" / f"{numbers['kind']}.{suffix}.txt"
    held = _json(numbers)
    if to == "numpy":
        held = pprint.pformat(numbers, width=98, compact=True, sort_dicts=False)
    text = template.read_text(encoding="utf-8")
    return text.replace("@VERSION@", __version__).replace("@NUMBERS@", held)


def merge_numbers(correction: Correction, queries: str | None = None) -> dict[str, Any]:
    """All numbers that merging needs, as plain values: what ``export_correction`` writes as JSON.

    Parameters
    ----------
    correction, queries
        As for ``export_correction``.
    """
    if correction.background is None:
        check_mergeable(correction)
    asking = one_query_modality(queries, correction)
    head = {"schema": SCHEMA, "made_by": f"modgap {__version__}", "queries": asking}
    if correction.background is not None:
        return head | _of_background(correction)
    lists = {}
    for name in correction.names:
        slope = correction.slope(asking, name)
        weights, constant = correction.level(asking, name)
        assert slope is not None
        if constant:
            raise InputValueError(
                "Export takes a correction that adds nothing to its queries, and this one does. "
                "Store corrected vectors (modgap index build)."
            )
        lists[name] = {"spread": _short(1 / slope), "mean": _rounded(-weights / slope)}
    unit = correction.unit_rows
    return head | {
        "kind": "calibrated",
        "scores": "cosine" if unit else "inner product of rows as given",
        "unit_queries": unit,
        "lists": lists,
    }


def _of_background(correction: Correction) -> dict[str, Any]:
    background = correction.background
    assert background is not None
    surprises = background.surprises(tuple(background.lists))
    hubs = correction.hubs is not None and correction.hubs.weight > 0
    scores = "cosine"
    if hubs:
        scores = "inner product of corrected documents and a query of unit length with a 1 behind"
    return {
        "kind": "expected_wrong",
        "scores": scores,
        "first": FIRST,
        "least_places": LEAST_PLACES,
        "flattest": FLATTEST,
        "even": EVEN,
        "least_held": LEAST_HELD,
        "least_at_most": background.least * len(background.lists),
        "lists": {
            name: {
                "places": one.places,
                "usual_slope": _short(one.slope),
                "signal_means": _rounded(one.signal_scale[0]),
                "signal_weights": _rounded(one.signal_scale[1]),
                "heights": _rounded(one.curve[0]),
                "log_expected": _rounded(one.curve[1]),
            }
            for name, one in background.lists.items()
        },
        "n_bank": len(surprises),
        "surprises": _rounded(surprises[np.isfinite(surprises)]),
    }


def _json(numbers: Mapping[str, Any]) -> str:
    """A line for each of the numbers, and for each list."""
    lines = (f"{json.dumps(key)}: {json.dumps(value)}" for key, value in numbers.items())
    return "{\n" + ",\n".join(lines) + "\n}"


def _short(value: float) -> float:
    """Nine digits: what float32 has, and a little more than the results are good for."""
    return float(f"{value:.9g}")


def _rounded(values: np.ndarray) -> list[float]:
    return [_short(value) for value in values.tolist()]
