"""What is said while the report is made and after it ended, in every state: it must be true."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient

from modgap.core.checks import InputValueError
from modgap.io import Modalities
from modgap.serve import Explorer
from serving import HeldReport, endless_evaluation, fit, make_client, make_data

LEAVE = "Leave it alone: no correction raises NDCG@10 without costing recall@1."


def ending(how: Any) -> Any:
    """How a report ends: with a verdict, or with an error."""

    def made(_: Any) -> dict[str, Any]:
        if isinstance(how, Exception):
            raise how
        return {"schema": "modgap/report/2", "verdict": {"sentences": ["A gap.", how]}}

    return made


@contextmanager
def reported(ends: Any) -> Iterator[tuple[TestClient, HeldReport]]:
    report = HeldReport(ending(ends))
    with make_client(document=report) as client:
        assert report.begun.wait(30)
        yield client, report
        report.go.set()


def ended(client: TestClient) -> None:
    client.app.state.document.wait(30)


def said(client: TestClient) -> tuple[int, str, str]:
    """The status and the words of the report, and why no correction is recommended."""
    report = client.get("/api/report")
    listed = client.get("/api/corrections").json()
    assert listed["corrections"] == []
    return report.status_code, report.json().get("detail", ""), listed["none_recommended"]


@pytest.mark.parametrize(
    ("ends", "status", "detail", "why"),
    [
        (LEAVE, 200, "", f"The report recommends no correction. {LEAVE}"),
        (
            InputValueError("The rows hold NaN."), 409,
            "The report could not be made. The rows hold NaN.",
            "The report could not be made. The rows hold NaN. So it recommends no correction.",
        ),
    ],
)  # fmt: skip
def test_nobody_is_told_to_wait_for_a_report_that_has_ended(ends, status, detail, why):
    with reported(ends) as (client, report):
        assert said(client) == (
            202, "The report is being made: diagnosing (hubs), 20 % done.",
            "The report is being made, and may recommend a correction.",
        )  # fmt: skip
        report.go.set()
        ended(client)
        assert said(client) == (status, detail, why)


def test_a_report_is_cancelled_while_it_is_made_and_made_anew():
    with reported(LEAVE) as (client, report):
        cancelled = "The report was cancelled at: diagnosing (hubs), 20 % done."
        status = client.delete("/api/report").json()
        assert (status["detail"], status["state"]) == (cancelled, "cancelled")
        assert said(client) == (409, cancelled, f"{cancelled} So it recommends no correction.")
        report.begun.clear()
        again = client.post("/api/report")
        assert (again.status_code, again.json()["state"]) in {(202, "queued"), (202, "running")}
        assert report.begun.wait(30)  # the first one has stopped: there is one thread
        report.go.set()
        ended(client)
        made = client.get("/api/report").content
        for method in ("POST", "DELETE"):  # what is made stays
            assert client.request(method, "/api/report").json()["state"] == "done"
        assert client.get("/api/report").content == made


def steps_of(explorer: Explorer) -> tuple[dict[str, Any], list[tuple[str, int, int]]]:
    heard: list[tuple[str, int, int]] = []
    return dict(explorer.document(lambda *step: heard.append(step))), heard


def test_rows_that_look_unpaired_are_told_once_and_with_options_that_there_are():
    data = make_data(60, 60)
    explorer = Explorer(Modalities.of(data.X, data.Y[np.random.default_rng(0).permutation(60)]))
    document, _ = steps_of(explorer)  # a warning beside it would be an error here
    (sentence,) = document["verdict"]["sentences"]
    assert sentence.count("look unpaired") == 1
    assert "--unpaired" in sentence
    assert "diagnose or fix with --trust-pairs" in sentence


@pytest.mark.parametrize(
    "data", [make_data(40, 40), make_data(40, 50, paired=False), make_data(5, 5)],
    ids=["pairs", "no pairs", "too few"],
)  # fmt: skip
def test_progress_of_the_report_never_goes_back(data):
    _, heard = steps_of(Explorer(data))
    done = [step[1] for step in heard]
    assert done == sorted(done)
    assert {step[2] for step in heard} == {100}
    assert done[-1] >= 98


def test_a_fit_is_cancelled_while_it_evaluates_and_the_next_one_runs():
    client = make_client(Explorer(make_data()))
    with endless_evaluation() as evaluating:
        job = client.post("/api/corrections", json={"method": "Center"}).json()["job"]
        assert evaluating.wait(30)
        cancelled = client.delete(f"/api/jobs/{job}").json()
    assert (cancelled["state"], cancelled["step"]) == ("cancelled", "evaluating Center()")
    assert client.get("/api/corrections").json()["corrections"] == []
    assert fit(client, "Shift", amount=0.4)["name"] == "Shift(amount=0.4)"
    listed = client.get("/api/corrections").json()["corrections"]
    assert [one["name"] for one in listed] == ["Shift(amount=0.4)"]
