"""What a score is, for each metric, and how it comes from the product q · d + bias."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from modgap.arrays import as_float, largest_norm, namespace, sum_squares, to_numpy, unit, wide_dtype
from modgap.core.checks import Array, check_choice
from modgap.corrections import METRIC_NAMES, METRICS, Correction, Metric


def rows_to_multiply(queries: Array, documents: Array, metric: Metric) -> tuple[Array, Array]:
    """Rows whose inner products the metric ranks by: unit rows for cosines, else as given.

    Both are checked already; for cosines no row has length zero.
    """
    return same_precision(row_factors(queries, metric), row_factors(documents, metric))


def row_factors(rows: Array, metric: Metric) -> Array:
    """One side of ``rows_to_multiply``."""
    if metric == "cosine":
        return as_float(unit(rows))
    rows = as_float(rows)
    if fits_float32(largest_norm(rows)):
        return rows
    return namespace(rows).astype(rows, wide_dtype(rows), copy=False)


def fits_float32(largest: Any) -> Any:
    """Whether products of numbers, or rows, up to this one fit float32: squares end at 1e38."""
    return (largest > 1e-12) & (largest < 1e12)


def same_precision(queries: Array, documents: Array) -> tuple[Array, Array]:
    """Both in the wider of their precisions: torch multiplies no float32 by float64."""
    xp = namespace(queries)
    wider = xp.result_type(queries, documents)
    return xp.astype(queries, wider, copy=False), xp.astype(documents, wider, copy=False)


def document_bias(documents: Array, metric: Metric) -> Array | None:
    """What to add to q · d so that the largest sum is the nearest document.

    −‖q − d‖² and q · d − ‖d‖² / 2 rank alike, since ‖q‖ is the same for every document.
    """
    return -0.5 * sum_squares(documents) if metric == "euclidean" else None


def to_scores(products: np.ndarray, queries: Array, metric: Metric) -> np.ndarray:
    """Scores (n, k) from the products q · d + bias that ``top_k`` gives for these queries."""
    if metric != "euclidean":
        return products
    # Rounding may carry the distance of a row to itself past zero.
    return np.minimum(2 * products - to_numpy(sum_squares(queries))[:, None], 0.0)


class OtherMetricWarning(UserWarning):
    """Corrected vectors are ranked by a metric that the correction is not meant for."""


def metric_of(metric: Metric | None, correction: Correction | None, default: Metric) -> Metric:
    """The metric asked for, else the one the correction is meant for, else the default.

    Warns where the one asked for ranks corrected vectors otherwise than the correction's own.
    """
    if metric is None:
        return correction.metric if correction is not None else default
    asked = check_choice(metric, "metric", METRICS)
    if correction is not None and asked != correction.metric and not ranks_alike(correction):
        method = correction.about.get("method", "This correction")
        own = METRIC_NAMES[correction.metric]
        warnings.warn(
            f"{method} makes vectors to be ranked by {own}, and metric={asked!r} ranks them "
            f"otherwise: much of the correction is lost. Leave metric out, or give "
            f"metric={correction.metric!r}.",
            OtherMetricWarning,
            stacklevel=3,
        )
    return asked


def ranks_alike(correction: Correction) -> bool:
    """Whether the metric does not matter to the correction: it leaves rows, or all are unit."""
    maps = correction.maps.values()
    return all(m.is_identity for m in maps) or all(m.gives_unit_rows for m in maps)
