"""What a monitor knows of the answers of searches, and the example that Prometheus reads."""

from __future__ import annotations

import json
import re
import sys
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from modgap import GapMonitor
from modgap.core.checks import InputValueError
from modgap.drift import SearchAnswers
from modgap.search import Hits
from streams import DIM, Clock, stream

EXAMPLES = Path(__file__).parents[2] / "examples"
RESULTS = st.lists(st.lists(st.sampled_from(["image", "text", "", "map"]), max_size=14))


@pytest.fixture
def reference(rng):
    return {"image": stream(rng, 300, mean=2.0), "text": stream(rng, 300)}


def hits(*lines: str) -> Hits:
    """Results by the first letters of their modalities; a dot is a result that is missing."""
    names = {"i": "image", "t": "text", ".": ""}
    modalities = np.array([[names[one] for one in line] for line in lines], dtype=object)
    return Hits(np.where(modalities == "", None, 7), np.where(modalities == "", -np.inf, 1.0),
                modalities)  # fmt: skip


@given(RESULTS)
def test_answers_are_counted_query_by_query(results):
    found = SearchAnswers.of(results, ("image", "text"))
    nothing, first = 0, Counter()
    for line in results:
        there = [name for name in line if name]
        nothing += not there
        first.update("other" if name == "map" else name for name in there[:10])
    assert (found.n, found.n_without_result) == (len(results), nothing)
    assert found.first_ten == dict(first)
    assert sum(found.shares.values()) == pytest.approx(1 if first else 0)


@given(RESULTS, RESULTS)
def test_answers_add(some, more):
    known = ("image", "text")
    assert SearchAnswers.of(some, known) + SearchAnswers.of(more, known) == SearchAnswers.of(
        [*some, *more], known
    )


def test_a_monitor_says_how_many_found_nothing_and_what_came_first(reference):
    monitor = GapMonitor(reference)
    monitor.add_results("text queries", hits("iit", "t..", "...", "..."))
    monitor.add_results("text queries", [["text"] * 30, []])
    (found,) = monitor.check().answers.values()
    assert found.nothing_found == 0.5
    assert found.first_ten == {"image": 2, "text": 12}
    assert monitor.check().sentences()[-1] == (
        "6 text queries: 50% found nothing; first ten results: 14% image and 86% text."
    )
    assert json.loads(json.dumps(monitor.check().to_dict()))["answers"]["text queries"]["n"] == 6


def test_answers_of_long_ago_are_forgotten_but_counters_only_grow(reference):
    clock = Clock()
    monitor = GapMonitor(reference, window=60, slices=4, least_rows=50, clock=clock)
    for answer in ("...", "iii"):
        for _ in range(50):
            monitor.add_results("text queries", hits(answer, answer))
            clock.now += 15
    found = monitor.check().answers["text queries"]
    assert found.nothing_found == 0
    assert 0.75 * 50 <= found.n < 60  # all slices but the last are whole
    assert monitor.answered()["text queries"].n == 200
    assert monitor.answered()["text queries"].nothing_found == 0.5


def test_a_saved_monitor_goes_on_counting(reference, tmp_path):
    monitor = GapMonitor(reference)
    monitor.add_results("text queries", hits("it", ".."))
    monitor.save(tmp_path / "monitor.safetensors")
    again = GapMonitor.load(tmp_path / "monitor.safetensors")
    again.add_results("text queries", hits("ii"))
    for one in (again.answered(), again.check().answers):
        assert one == {"text queries": SearchAnswers(3, 1, {"image": 3, "text": 1})}


def test_what_cannot_be_read_stops_nothing(reference, caplog):
    monitor = GapMonitor(reference)
    monitor.add_results("text queries", 7)
    monitor.add_results("queries of another name", [["image"]])
    assert "cannot be read" in caplog.text
    assert monitor.answered() == {"other": SearchAnswers(1, 0, {"image": 1})}


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """The names and labels of all metrics that the example shows, read from its own address."""
    client = pytest.importorskip("prometheus_client")
    pytest.importorskip("faiss")
    from prometheus_client.parser import text_string_to_metric_families

    sys.path.insert(0, str(EXAMPLES))
    before = set(client.REGISTRY._collector_to_names)
    try:
        import monitored_search

        texts = []
        with pytest.MonkeyPatch.context() as patch:
            # Nobody else's port, and the metrics as they are after the last query.
            patch.setattr(monitored_search, "start_http_server", lambda *_, **__: None)
            patch.setattr(
                monitored_search, "sleep",
                lambda _: texts.append(client.generate_latest(client.REGISTRY).decode()),
            )  # fmt: skip
            with warnings.catch_warnings():
                monitored_search.main(seconds=60, change_after=25)
    finally:
        sys.path.remove(str(EXAMPLES))
        for collector in set(client.REGISTRY._collector_to_names) - before:
            client.REGISTRY.unregister(collector)
    return [
        {
            (sample.name, *sorted(sample.labels.items())): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name.startswith("modgap_")
        }
        for text in (texts[20], texts[-1])
    ]


def _value(found: dict, name: str, **labels: str) -> float:
    return next(v for (n, *own), v in found.items() if n == name and labels.items() <= {*own})


def test_the_example_shows_that_queries_of_another_model_find_nothing(exported):
    before, after = exported
    asked = _value(before, "modgap_searches_total", modality="text")
    nothing = _value(before, "modgap_searches_without_result_total", modality="text")
    assert asked == 21 * 20
    assert nothing < 0.4 * asked
    more = _value(after, "modgap_searches_total", modality="text") - 500
    assert more == 35 * 20
    lost = _value(after, "modgap_searches_without_result_total", modality="text") - nothing
    assert lost > 0.8 * more
    assert _value(before, "modgap_foreign_ratio") < 0.1
    assert _value(after, "modgap_foreign_ratio") > 0.5


def _expressions() -> list[tuple[str, str]]:
    """Every expression of the dashboard, with its legend, and of the alerts."""
    dashboard = json.loads((EXAMPLES / "monitoring" / "grafana.json").read_text())
    targets = [target for panel in dashboard["panels"] for target in panel["targets"]]
    found = [(target["expr"], target["legendFormat"]) for target in targets]
    alerts = (EXAMPLES / "monitoring" / "alerts.yml").read_text()
    for alert in alerts.split("- alert:")[1:]:
        expression, words = re.split(r"\n\s+for: ", alert.split("expr:")[1])
        found.append((expression, words))
    return found


def test_dashboard_and_alerts_read_metrics_and_labels_that_are_there(exported):
    labels: dict[str, set[str]] = {}
    for name, *pairs in (key for found in exported for key in found):
        labels.setdefault(name, set()).update(label for label, _ in pairs)
    # Rows that cannot be used are counted only where there are any.
    labels["modgap_rows_left_out_total"] = {"modality", "role", "reason"}
    expressions = _expressions()
    assert len(expressions) > 15
    read = set()
    for expression, legend in expressions:
        named = re.findall(r"modgap_\w+", expression)
        assert named
        read |= {*named}
        for name in named:
            grouped = {
                label.strip()
                for group in re.findall(r"\bby \(([^)]*)\)", expression)
                for label in group.split(",")
            }
            shown = set(re.findall(r"\{\{ ?\$?(?:labels\.)?(\w+)", legend)) - {"value"}
            assert name in labels
            assert shown <= labels[name] | grouped
            assert grouped <= set().union(*(labels[one] for one in named))
    assert {
        "modgap_searches_without_result_total", "modgap_first_ten_results_total",
        "modgap_correction_fits", "modgap_drift_alarm", "modgap_foreign_ratio",
    } <= read  # fmt: skip


def test_panels_of_the_dashboard_do_not_lie_on_each_other():
    dashboard = json.loads((EXAMPLES / "monitoring" / "grafana.json").read_text())
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells = Counter(
        (x, y)
        for place in (panel["gridPos"] for panel in panels)
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    )
    assert set(cells.values()) == {1}
    assert max(x for x, _ in cells) == 23


def test_a_monitor_file_with_broken_answers_is_refused(reference, tmp_path):
    from modgap.core.tensor_file import read_tensors, write_tensors
    from modgap.drift.named_moments import MONITOR

    path = tmp_path / "monitor.safetensors"
    monitor = GapMonitor(reference)
    monitor.add("text", np.ones(DIM))
    monitor.save(path)
    header, tensors = read_tensors(path, MONITOR)
    for broken in ({"text queries": {"all": {"n": 1}}}, {"text queries": 3}, [1]):
        write_tensors(path, MONITOR, tensors, header | {"searches": broken}, checksum=True)
        with pytest.raises(InputValueError, match="not a whole"):
            GapMonitor.load(path)
