"""What feeds a monitor: an index, and the live explorer with its /metrics."""

from __future__ import annotations

import numpy as np
import pytest

from conftest import unit
from index_services import corrections, rows
from modgap import GapMonitor
from modgap.core.checks import InputValueError
from modgap.corrections import ExpectedWrong
from modgap.drift import SearchAnswers
from modgap.index import open_index
from modgap.serve import Explorer
from modgap.serve.monitoring import make_monitor
from serving import DIM, make_client, make_data

X, Y = rows()
CORRECTION = next(c for c in corrections(X, Y).values() if "text" in c.queries and c.unit_rows)


class Broken:
    def add(self, name: str, rows: object) -> None:
        raise RuntimeError("out of order")

    add_results = add


def test_a_monitor_that_fails_stops_no_search_and_no_build(tmp_path, caplog):
    pytest.importorskip("faiss")
    with open_index(tmp_path / "a.faiss", CORRECTION, create=True, monitor=Broken()) as index:
        assert index.write(Y, "text") == len(Y)
        assert index.search(Y[:2], "text", 3).ids.shape == (2, 3)
    assert "The monitor failed on text rows" in caplog.text


def test_an_index_tells_what_all_modalities_answered_and_how_many_found_nothing(tmp_path):
    pytest.importorskip("faiss")
    X, Y = rows(200)
    fixed = ExpectedWrong().fit(X, Y).correction_
    monitor = GapMonitor({"image": X, "text": Y}, fixed)
    with open_index(tmp_path / "a.faiss", fixed, create=True, monitor=monitor) as index:
        index.search(Y[:3], "text", 3)  # nothing is there yet
        assert monitor.answered()["text queries"] == SearchAnswers(3, 3, {})
        index.write_all({"image": X, "text": Y})
        hits = index.search(Y[:20], "text", 30, at_most=0.1)
        index.search(Y[:20], "text", 3, only="image")
    nothing = int(np.sum(hits.nothing_found))
    assert 0 < nothing < 20
    first = hits.modalities[:, :10]
    assert monitor.answered()["text queries"] == SearchAnswers(
        23, 3 + nothing, {name: int(np.sum(first == name)) for name in ("image", "text")}
    )


def served(**options):
    explorer = Explorer(make_data())
    monitor = make_monitor(explorer)
    return explorer, monitor, make_client(explorer, monitor=monitor, **options)


def test_the_server_tells_its_monitor_of_queries_and_prometheus_of_both():
    parser = pytest.importorskip("prometheus_client.parser")
    explorer, monitor, client = served()
    with client:
        for row in range(30):
            assert client.post("/api/search", json={"modality": "text", "row": row}).is_success
        asked = {"modality": "image", "vector": [1.0] * DIM}
        assert client.post("/api/search", json=asked).is_success
        bad = {"modality": "image", "vector": [0.0] * DIM}
        assert client.post("/api/search", json=bad).status_code == 422
        answer = client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    found = {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in parser.text_string_to_metric_families(answer.text)
        for sample in family.samples
    }
    assert found["modgap_rows_total", "query", "text"] == 30
    assert found["modgap_rows_total", "image", "query"] == 1
    assert found["modgap_searches_total", "text"] == 30
    assert found["modgap_searches_without_result_total", "text"] == 0
    assert sum(monitor.answered()["image queries"].first_ten.values()) == 10
    own = explorer.data.sides["text"].rows()[:30].astype("float64")
    assert monitor.moments()["text queries"].given.mean == pytest.approx(unit(own).mean(axis=0))


def test_metrics_are_behind_the_token_and_there_only_where_asked_for():
    _, _, client = served(token="a token of ours")
    with client:
        assert client.get("/metrics").status_code == 401
        bearer = {"Authorization": "Bearer a token of ours"}
        assert client.get("/metrics", headers=bearer).status_code == 200
        assert client.get("/metrics", headers={**bearer, "Host": "evil.example"}).status_code == 421
    with make_client() as plain:
        assert plain.get("/metrics").status_code == 404


def test_a_restarted_server_goes_on_with_its_monitor(tmp_path):
    file = tmp_path / "monitor.safetensors"
    _, monitor, client = served()
    with client, monitor.kept_at(file):
        client.post("/api/search", json={"modality": "text", "row": 3})
    again = make_monitor(Explorer(make_data()), file)
    assert again.counts()[0] == {"text queries": 1}
    other = Explorer({"image": np.random.default_rng(0).normal(size=(60, 5)),
                      "text": np.random.default_rng(1).normal(size=(60, 5))})  # fmt: skip
    with pytest.raises(InputValueError, match="of a monitor of other rows"):
        make_monitor(other, file)
