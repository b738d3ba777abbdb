"""The metrics of a monitor for Prometheus: names, units and help texts in one place.

Labels are modalities of the reference and "other", so there are only ever as many series.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from modgap.core.checks import require
from modgap.drift.named_moments import modality_and_role

if TYPE_CHECKING:
    from modgap.drift.monitor import GapMonitor

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_STREAM = ("modality", "role")
_GAP = ("first", "second")
_OF_QUERIES = ("modality",)
# Name, labels and help of each gauge of a set of rows, by the field of StreamDrift it shows.
_OF_STREAMS = {
    "n_now": ("modgap_window_rows", "Rows in the window that is looked at."),
    "clustering": (
        "modgap_clustering_ratio", "How many rows count as one, as they come in sessions."
    ),
    "mean_shift": (
        "modgap_mean_shift_ratio",
        "Distance of the mean to the reference's, in units of its spread.",
    ),
    "spread_ratio": ("modgap_spread_ratio", "Trace of the covariance, now over the reference."),
    "shape_distance": (
        "modgap_shape_distance_ratio",
        "Distance of the covariances at trace 1, in units of the reference's.",
    ),
    "foreign": (
        "modgap_foreign_ratio",
        "About 0 for rows like the reference's, about 1 for rows of another model.",
    ),
}  # fmt: skip
_OF_GAPS = {
    "distance_now": ("modgap_gap_distance", "Distance between the means of two modalities now."),
    "distance_then": ("modgap_gap_reference_distance", "The same distance in the reference."),
    "change": (
        "modgap_gap_change_ratio", "Change of the gap vector, in units of the reference's gap."
    ),
    "cosine": ("modgap_gap_cosine", "Cosine between the gap vectors of now and the reference."),
    "z": ("modgap_gap_drift_z", "How unlikely by chance the change of the gap is, at most 37."),
}  # fmt: skip


def families(monitor: GapMonitor) -> Iterator[Any]:
    """The metrics as prometheus_client has them."""
    core = require("prometheus_client.core", "monitor", "The metrics of a monitor")
    report = monitor.check()  # rows that wait are counted from here on
    counts, left_out = monitor.counts()
    counter = core.CounterMetricFamily(
        "modgap_rows", "Rows that the monitor has counted.", labels=_STREAM
    )
    for name, n in counts.items():
        counter.add_metric(modality_and_role(name), n)
    yield counter
    counter = core.CounterMetricFamily(
        "modgap_rows_left_out",
        "Rows that could not be used: not finite, of length zero, of other columns or names.",
        labels=(*_STREAM, "reason"),
    )
    for (name, reason), n in left_out.items():
        counter.add_metric((*modality_and_role(name), reason), n)
    yield counter
    yield from _of_answers(monitor, core)

    def gauge(name: str, about: str, labels: tuple[str, ...], values: Mapping[Any, float]) -> Any:
        family = core.GaugeMetricFamily(name, about, labels=labels)
        for key, value in values.items():
            family.add_metric(key, float(value))
        return family

    judged = [stream for stream in report.streams if stream.judged]
    for field, (name, about) in _OF_STREAMS.items():
        shown = report.streams if field == "n_now" else judged
        values = {modality_and_role(s.name): getattr(s, field) for s in shown}
        yield gauge(name, about, _STREAM, values)
    kinds = ("mean", "spread", "shape")
    yield gauge(
        "modgap_drift_z",
        "How unlikely by chance a change is, as a normal deviate, at most 37.",
        (*_STREAM, "of"),
        {(*modality_and_role(s.name), of): getattr(s, f"{of}_z") for s in judged for of in kinds},
    )
    yield gauge(
        "modgap_drift_alarm",
        "1 where a change is significant and large.",
        (*_STREAM, "of"),
        {(*modality_and_role(s.name), of): of in s.moved for s in judged for of in kinds},
    )
    for field, (name, about) in _OF_GAPS.items():
        yield gauge(
            name, about, _GAP, {(g.first, g.second): getattr(g, field) for g in report.gaps}
        )
    yield gauge(
        "modgap_gap_alarm",
        "1 where the change of the gap is significant and large.",
        _GAP,
        {(g.first, g.second): g.alarm for g in report.gaps},
    )
    known = [one for one in report.corrections if one.fits is not None]
    yield gauge(
        "modgap_correction_fits",
        "1 where the correction for these queries still fits, 0 where it is to be fitted again; "
        "nothing where it is unknown.",
        ("asking",),
        {(asking,): bool(one.fits) for one in known for asking in one.odds},
    )
    yield gauge(
        "modgap_correction_odds_ratio",
        "Odds of the favoured modality among the best results, now over when it was fitted.",
        ("asking",),
        {(asking,): odds for one in report.corrections for asking, odds in one.odds.items()},
    )


def _of_answers(monitor: GapMonitor, core: Any) -> Iterator[Any]:
    """Counters, of which rates give the shares over any time and any number of services."""
    answered = {modality_and_role(name)[0]: one for name, one in monitor.answered().items()}
    searches, without, first = (
        core.CounterMetricFamily(name, about, labels=labels)
        for name, about, labels in (
            ("modgap_searches", "Queries whose results the monitor has counted.", _OF_QUERIES),
            ("modgap_searches_without_result", "Those that found nothing.", _OF_QUERIES),
            (
                "modgap_first_ten_results",
                "The first ten results of these queries, by the modality of the result.",
                (*_OF_QUERIES, "found"),
            ),
        )
    )
    for modality, one in answered.items():
        searches.add_metric((modality,), one.n)
        without.add_metric((modality,), one.n_without_result)
        for found, n in one.first_ten.items():
            first.add_metric((modality, found), n)
    yield from (searches, without, first)
