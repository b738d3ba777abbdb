"""The monitor of live rows: its window, its threads, its files, odd rows, and what it says."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from functools import reduce

import numpy as np
import pytest

from conftest import unit
from modgap import Correction, GapMonitor, detect_drift
from modgap.core.checks import InputValueError
from modgap.corrections import Calibrate
from modgap.moments import Moments, PairMoments
from streams import DIM, SPREADS, Clock, stream


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def reference():
    rng = np.random.default_rng(1)
    gap = np.zeros(DIM)
    gap[0] = 2.0
    return {"image": stream(rng, 1000, mean=1 + gap), "text": stream(rng, 1000)}


def close(found: Moments, expected: Moments) -> None:
    assert found.n == expected.n
    assert found.given.mean == pytest.approx(expected.given.mean, rel=1e-12)
    assert found.given.scatter == pytest.approx(expected.given.scatter, rel=1e-9, abs=1e-9)


def test_rows_one_by_one_and_in_batches_give_the_moments_of_all(rng, reference):
    rows = stream(rng, 700)
    monitor = GapMonitor(reference)
    for row in rows[:300]:
        monitor.add("text", row)
    monitor.add("text", rows[300:].astype(np.float64))
    close(monitor.moments()["text"], Moments.from_batch(unit(rows)).at_unit_length())
    assert monitor.check().streams[0].n_now == 700
    given = GapMonitor(reference, rows="given")
    given.add("text", rows)
    close(given.moments()["text"], Moments.from_batch(rows))


def test_the_check_is_the_drift_between_reference_and_window(rng, reference):
    rows = stream(rng, 900) + 0.4 * SPREADS
    correction = Calibrate().fit(reference["image"], reference["text"]).correction_
    monitor = GapMonitor(reference, correction)
    monitor.add("text", rows)
    expected = detect_drift(reference, {"text": rows}, correction)
    found = monitor.check()
    assert found.drifted
    assert found.streams[0].moved == expected.streams[0].moved
    assert found.streams[0].mean_z == pytest.approx(expected.streams[0].mean_z, rel=0.05)
    assert found.corrections[0].odds == pytest.approx(expected.corrections[0].odds)
    again = detect_drift(reference, monitor, correction)
    assert again.streams == found.streams
    moments = monitor.moments()
    refitted = Calibrate().fit_moments(
        PairMoments(Moments.from_batch(unit(reference["image"])), moments["text"])
    )
    assert refitted.correction_.queries == ("text",)


def test_nothing_seen_yet_is_said_so(reference):
    monitor = GapMonitor(reference, Correction.identity(DIM))
    report = monitor.check()
    assert report.verdict == "There are no rows yet."
    assert report.fits is None
    assert not report.drifted
    assert repr(monitor) == "GapMonitor(no rows yet, of image, text)"
    monitor.add("text", stream(np.random.default_rng(0), 10))
    assert monitor.check().verdict == "Too few rows to judge text."


def test_the_window_forgets_so_that_the_last_hour_counts_after_a_year(rng, reference, clock):
    monitor = GapMonitor(reference, window=3600, slices=4, least_rows=100, clock=clock)
    for _ in range(200):  # a year in short
        monitor.add("text", stream(rng, 260))
        clock.now += 900
    assert not monitor.check().drifted
    assert sum(one.seen.n for one in monitor._streams["text"].window.slices) <= 5 * 260
    now = [stream(rng, 260) + SPREADS for _ in range(4)]
    for rows in now:
        monitor.add("text", rows)
        clock.now += 900
    (found,) = monitor.check().streams
    close(monitor.moments()["text"], Moments.from_batch(unit(np.vstack(now))).at_unit_length())
    assert found.moved[0] == "mean"
    assert dict(monitor.counts()[0]) == {"text": 204 * 260}


def test_a_quiet_service_is_judged_by_its_last_rows(rng, reference, clock):
    monitor = GapMonitor(reference, window=60, slices=4, least_rows=200, clock=clock)
    rows = stream(rng, 600)
    for row in rows:
        monitor.add("text", row)
        monitor.live()
        clock.now += 60
    held = monitor.live()["text"]
    assert 200 <= held.n <= 260
    close(monitor.moments()["text"], Moments.from_batch(unit(rows[-held.n :])).at_unit_length())


def test_old_rows_go_where_there_are_enough_new_ones(rng, reference, clock):
    monitor = GapMonitor(reference, window=60, slices=4, least_rows=100, clock=clock)
    monitor.add("text", stream(rng, 5000))
    clock.now += 20
    monitor.add("text", stream(rng, 300))
    assert monitor.live()["text"].n == 5300
    clock.now += 100
    assert monitor.live()["text"].n == 300
    clock.now -= 1e6  # the clock is set back
    monitor.add("text", stream(rng, 300))
    assert monitor.live()["text"].n == 600


def test_many_threads_count_what_one_would(rng, reference):
    rows = [stream(rng, 400) for _ in range(8)]
    monitor, alone = GapMonitor(reference), GapMonitor(reference)
    checks: list[bool] = []

    def add(own: np.ndarray) -> None:
        for row in own[:100]:
            monitor.add("text queries", row)
        monitor.add("text queries", own[100:])
        checks.append(monitor.check().drifted)
        monitor.metrics()

    threads = [threading.Thread(target=add, args=(own,)) for own in rows]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for own in rows:
        alone.add("text queries", own)
    assert len(checks) == 8
    assert monitor.counts() == ({"text queries": 3200}, {})
    assert alone.check().streams[0].n_now == 3200
    close(monitor.moments()["text queries"], alone.moments()["text queries"])


def test_the_caller_may_change_its_rows_afterwards(rng, reference):
    monitor = GapMonitor(reference)
    rows = stream(rng, 50)
    before = unit(rows)
    monitor.add("text", rows)
    rows[:] = 0
    close(monitor.moments()["text"], Moments.from_batch(before).at_unit_length())


ODD = {
    "not finite": np.full((3, DIM), np.nan), "infinite": np.full((3, DIM), np.inf),
    "zero": np.zeros((3, DIM)), "columns": np.ones((3, DIM + 1)), "huge": np.full((3, DIM), 1e200),
}  # fmt: skip


def test_odd_rows_are_counted_and_left_out(rng, reference, caplog):
    monitor = GapMonitor(reference)
    good = stream(rng, 500)
    monitor.add("text", good)
    for rows in ODD.values():
        monitor.add("text", rows)
    monitor.add("sound", good)
    for unreadable in (
        "words",
        None,
        object(),
        [[1, 2], [3]],
        np.ones((2, 2, 2)),
        1.0,
        [[1j] * DIM],
    ):
        monitor.add("text", unreadable)
    monitor.add("text", np.ones((0, DIM)))
    assert monitor.check().streams[0].n_now == 500
    counts, left_out = monitor.counts()
    assert counts == {"text": 500}
    assert left_out == {
        ("text", "not finite"): 9, ("text", "zero"): 3, ("text", "columns"): 3,
        ("other", "unknown name"): 500, ("other", "unreadable"): 7,
    }  # fmt: skip
    assert len(caplog.records) == 1  # once, not for each


def test_rows_of_very_different_length_count_alike_at_unit_length(rng, reference):
    monitor = GapMonitor(reference)
    rows = stream(rng, 300)
    monitor.add("text", rows * 10.0 ** rng.uniform(-140, 140, size=(300, 1)))
    close(monitor.moments()["text"], Moments.from_batch(unit(rows)).at_unit_length())


def test_torch_tensors_and_whole_numbers_are_rows_too(rng, reference):
    torch = pytest.importorskip("torch")
    monitor = GapMonitor(reference)
    monitor.add("text", torch.ones(4, DIM, requires_grad=True))
    monitor.add("text", np.ones((4, DIM), dtype=np.int8))
    monitor.add("text", [1.0] * DIM)
    assert monitor.moments()["text"].n == 9


def test_a_saved_monitor_goes_on(rng, reference, clock, tmp_path):
    path = tmp_path / "monitor.safetensors"
    monitor = GapMonitor(reference, window=600, least={"mean": 0.2}, clock=clock)
    monitor.add("text", stream(rng, 500))
    monitor.add("text", np.zeros((2, DIM)))
    monitor.save(path)
    again = GapMonitor.load(path, clock=clock)
    assert again.check() == monitor.check()
    assert again.counts() == monitor.counts()
    assert (again.window, again.least["mean"]) == (600, 0.2)
    more = stream(rng, 300)
    for one in (monitor, again):
        one.add("text", more)
    assert again.check() == monitor.check()
    monitor.snapshot(tmp_path / "live.safetensors")
    assert not detect_drift(tmp_path / "live.safetensors", path).drifted
    assert GapMonitor(tmp_path / "live.safetensors").dim == DIM
    with pytest.raises(InputValueError, match="seen no rows yet"):
        GapMonitor(reference).snapshot(path)


def test_a_file_that_is_not_whole_is_refused_in_a_sentence(rng, reference, tmp_path):
    path = tmp_path / "monitor.safetensors"
    monitor = GapMonitor(reference)
    monitor.add("text", stream(rng, 300))
    monitor.save(path)
    whole = path.read_bytes()
    for data in (whole[:-100], whole[:50], b"", whole[:-9] + b"\0" * 9):
        path.write_bytes(data)
        with pytest.raises(InputValueError, match="monitor"):
            GapMonitor.load(path)
    Correction.identity(3).save(path)
    with pytest.raises(InputValueError, match="it holds a correction"):
        GapMonitor.load(path)
    with pytest.raises(InputValueError, match="There is no gap monitor"):
        GapMonitor.load(tmp_path / "none.safetensors")


def test_a_kill_while_saving_leaves_the_file_that_was_there(tmp_path):
    path = tmp_path / "monitor.safetensors"
    code = (
        "import os, signal, numpy as np\n"
        "from modgap import GapMonitor\n"
        "rng = np.random.default_rng(0)\n"
        "monitor = GapMonitor({'text': rng.normal(size=(300, 4))})\n"
        "monitor.add('text', rng.normal(size=(300, 4)))\n"
        f"monitor.save({str(path)!r})\n"
        "monitor.add('text', rng.normal(size=(300, 4)))\n"
        "os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        f"monitor.save({str(path)!r})\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -signal.SIGKILL
    again = GapMonitor.load(path)
    assert again.counts()[0] == {"text": 300}
    again.save(path)
    assert os.listdir(tmp_path) == [path.name]


def test_a_monitor_can_be_kept_in_a_file_while_it_works(rng, reference, tmp_path):
    path = tmp_path / "monitor.safetensors"
    monitor = GapMonitor(reference)
    with monitor.kept_at(path, every=0.01):
        assert path.exists()
        monitor.add("text", stream(rng, 300))
        for _ in range(500):
            if GapMonitor.load(path).counts()[0]:
                break
            time.sleep(0.01)
        assert GapMonitor.load(path).counts()[0] == {"text": 300}
        monitor.add("text", stream(rng, 1))
    assert GapMonitor.load(path).counts()[0] == {"text": 301}
    with pytest.raises(InputValueError), monitor.kept_at(tmp_path):
        pass


def test_metrics_are_what_prometheus_reads(rng, reference):
    parser = pytest.importorskip("prometheus_client.parser")
    correction = Calibrate().fit(reference["image"], reference["text"]).correction_
    monitor = GapMonitor(reference, correction)
    monitor.add("text queries", stream(rng, 500) + 2 * SPREADS)
    monitor.add("image", np.full(DIM, np.nan))
    for name in ("a", "b", "c"):  # names that nobody knows are one label
        monitor.add(name, np.ones(DIM))
    found = {}
    for family in parser.text_string_to_metric_families(monitor.metrics()):
        assert family.documentation.endswith(".")
        assert family.name.startswith("modgap_")
        for sample in family.samples:
            found[sample.name, *sorted(sample.labels.values())] = sample.value
    report = monitor.check()
    (text,) = report.streams
    (gap,) = report.gaps
    assert found["modgap_rows_total", "query", "text"] == 500
    assert found["modgap_rows_left_out_total", "document", "image", "not finite"] == 1
    assert found["modgap_rows_left_out_total", "document", "other", "unknown name"] == 3
    assert found["modgap_drift_z", "mean", "query", "text"] == pytest.approx(text.mean_z)
    assert found["modgap_drift_alarm", "mean", "query", "text"] == 1
    assert found["modgap_mean_shift_ratio", "query", "text"] == pytest.approx(text.mean_shift)
    assert found["modgap_gap_distance", "image", "text queries"] == pytest.approx(gap.distance_now)
    assert found["modgap_gap_alarm", "image", "text queries"] == 1
    assert found["modgap_correction_fits", "text"] == float(report.fits)
    client = pytest.importorskip("prometheus_client")
    registry = client.CollectorRegistry()
    registry.register(monitor)
    assert (
        registry.get_sample_value("modgap_window_rows", {"modality": "text", "role": "query"})
        == 500
    )


def test_a_check_costs_nothing_while_nothing_new_comes(rng, reference):
    monitor = GapMonitor(reference)
    monitor.add("text", stream(rng, 500))
    first = monitor.check()
    assert monitor.check() is first
    monitor.add("text", stream(rng, 1))
    assert monitor.check() is not first
    monitor.watch(Correction.identity(DIM))
    assert monitor.check().corrections


def test_what_a_monitor_cannot_work_with_is_refused(reference):
    for options, words in (
        ({"window": 0}, "window must be above 0"), ({"slices": 0}, "slices must be"),
        ({"least_rows": 10}, "least_rows must be at least 50"), ({"alpha": 2.0}, "alpha"),
        ({"least": {"x": 1.0}}, "least takes"), ({"rows": "long"}, "rows must be"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=words):
            GapMonitor(reference, **options)
    with pytest.raises(InputValueError, match="no rows"):
        GapMonitor({})


def test_moments_of_the_reference_need_no_rows(rng, reference):
    parts = [reference["text"][:500], reference["text"][500:]]
    moments = reduce(Moments.__add__, (Moments.from_batch(part) for part in parts))
    monitor = GapMonitor({"text": moments})
    monitor.add("text", stream(rng, 600))
    assert not monitor.check().drifted
    monitor.add("text", stream(rng, 3000) + 2 * SPREADS)
    assert monitor.check().drifted
    json.dumps(monitor.check().to_dict())


def test_a_monitor_shows_every_row_that_was_added():
    monitor = GapMonitor({"text": np.random.default_rng(0).normal(size=(500, 8))})
    assert repr(monitor) == "GapMonitor(no rows yet, of text)"
    monitor.add("text queries", np.ones((3, 8)))
    assert repr(monitor) == "GapMonitor(text queries 3 rows)"
