"""The API: what every route answers, and how it refuses."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from modgap import Correction, diagnose
from modgap._version import __version__
from modgap.core.checks import InputValueError
from modgap.corrections import Center, Shift, next_commands
from modgap.io.images import ImageError
from modgap.serve import Explorer, Jobs
from serving import (
    DIM,
    N_X,
    N_Y,
    NASTY,
    PNG,
    brief,
    finished,
    fit,
    make_client,
    make_data,
    slow_search,
)


@pytest.fixture(scope="module")
def client():
    return make_client()


def test_info_tells_what_is_explored(client):
    info = client.get("/api/info").json()
    assert info["version"] == __version__
    assert (info["names"], info["dim"], info["paired"]) == (["image", "text"], DIM, True)
    image, text = info["modalities"]
    assert (image["rows"], image["live_rows"], text["rows"]) == (N_X, N_X, N_Y)
    assert (image["captions"], image["ids"], text["captions"]) == (False, True, True)
    assert info["sampling"] == []
    methods = {method["name"]: method for method in info["methods"]}
    assert methods["Shift"]["parameters"] == [
        {"name": "amount", "type": "number", "default": 0.5, "minimum": -10, "maximum": 10,
         "choices": None}
    ]  # fmt: skip
    assert methods["Calibrate"]["parameters"][0]["choices"] == ["keep", "mixed"]
    assert all(method["available"] for method in methods.values())
    assert "gap" in info["metrics"]
    assert info["queries"] == ["text"]
    assert "text_retrieval_recall@1" not in info["metrics"]


def test_info_says_what_was_sampled_and_what_needs_pairs():
    info = make_client(Explorer(make_data(paired=False), rows=50)).get("/api/info").json()
    assert info["sampling"] == [
        "The live index holds 50 of the 90 text rows, a sample drawn with seed 0."
    ]
    unavailable = [m["name"] for m in info["methods"] if not m["available"]]
    assert unavailable == ["Procrustes"]


def test_the_report_says_how_far_it_is_and_then_comes_whole():
    go, reached = threading.Event(), threading.Event()

    def slow(progress: Any) -> dict[str, Any]:
        progress("measuring", 2, 5)
        reached.set()
        assert go.wait(30)
        return {"schema": "modgap/report/2", "title": NASTY, "gap": np.float32("nan"), "n": [1, 2]}

    client = make_client(document=slow)
    assert client.get("/api/report").status_code == 202
    assert reached.wait(30)
    waiting = client.get("/api/report")
    assert waiting.json() == {
        "detail": "The report is being made: measuring, 40 % done.",
        "state": "running", "step": "measuring", "done": 2, "total": 5,
    }  # fmt: skip
    go.set()
    client.app.state.document.wait(30)
    done = client.get("/api/report")
    assert done.status_code == 200
    assert json.loads(done.text, parse_constant=pytest.fail) == {
        "schema": "modgap/report/2", "title": NASTY, "gap": None, "n": [1, 2], "live": True
    }  # fmt: skip


def test_the_report_is_begun_when_the_server_starts_and_made_once():
    made = []
    client = make_client(document=lambda _: made.append(1) or {"schema": "modgap/report/2"})
    with client:
        client.app.state.document.wait(30)
        assert made == [1]
        for _ in range(3):
            assert client.get("/api/report").status_code == 200
    assert made == [1]


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (InputValueError("It needs 8 pairs."), 409, "It needs 8 pairs."),
        (RuntimeError("no"), 500, "It failed unexpectedly: RuntimeError: no."),
    ],
)
def test_a_report_that_cannot_be_made_says_why_and_the_rest_works(error, status, said):
    def fails(_: Any) -> dict[str, Any]:
        raise error

    client = make_client(document=fails)
    client.app.state.document.wait(30)
    answer = client.get("/api/report")
    detail = f"The report could not be made. {said}"
    assert (answer.status_code, answer.json()) == (status, {"detail": detail})
    assert client.post("/api/search", json={"modality": "text", "row": 0}).status_code == 200


def test_items_are_paged_and_searched(client):
    page = client.get("/api/items", params={"modality": "text", "contains": "thing 7"}).json()
    assert page["total"] == 3
    assert [item["row"] for item in page["items"]] == [7, 47, 87]
    assert page["items"][0]["caption"] == "Caption 7 of thing 7"
    second = client.get("/api/items?modality=image&offset=20&limit=15").json()
    assert (second["offset"], len(second["items"])) == (20, 15)
    assert second["items"][0] == {
        "modality": "image", "row": 20, "caption": None, "id": "scan-20.png", "thumbnail": None
    }  # fmt: skip
    assert client.get("/api/items?modality=image&offset=999999").json()["items"] == []


def test_search_gives_raw_beside_corrected(client):
    data = make_data()
    correction = fit(client, "Calibrate", mode="mixed")
    asked = {"modality": "text", "row": 4, "k": 7, "correction": correction["id"]}
    answer = client.post("/api/search", json=asked).json()
    query = data.y.take([4])[0]
    raw = slow_search(data, query, "text", 7, Correction.identity(DIM), ("text", 4))
    assert brief(answer["raw"]) == [hit[:2] for hit in raw]
    assert [hit["score"] for hit in answer["raw"]] == pytest.approx([s for *_, s in raw], abs=1e-6)
    fitted = client.app.state.explorer.corrections.get(correction["id"])
    corrected = slow_search(data, query, "text", 7, fitted.serving("text"), ("text", 4))
    assert brief(answer["corrected"]) == [hit[:2] for hit in corrected]
    assert answer["corrected_demands"] == correction["demands"][0]["sentence"]
    assert (answer["metric"], answer["corrected_metric"]) == ("cosine", "inner_product")
    assert answer["query"]["caption"] == "Caption 4 of thing 4"
    matched = [hit for hit in answer["corrected"] if hit["match"]]
    assert ("image", 4) in brief(matched)


def test_queries_of_either_modality_are_searched_with_a_correction_of_their_own(client, tmp_path):
    data = make_data()
    correction = fit(client, "Calibrate")
    assert correction["queries"] == ["text"]
    assert [one["queries"] for one in correction["demands"]] == [["text"], ["image"]]
    answer = client.post(
        "/api/search", json={"modality": "image", "row": 4, "k": 7, "correction": correction["id"]}
    ).json()
    assert "image queries are brought to unit length" in answer["corrected_demands"]
    address = f"/api/corrections/{correction['id']}/file"
    loaded = {}
    for name, options in (("text", ""), ("image", "?queries=image")):
        got = client.get(address + options)
        assert got.headers["content-disposition"].endswith(f'-{name}.safetensors"')
        (tmp_path / name).write_bytes(got.content)
        loaded[name] = Correction.load(tmp_path / name)
        assert loaded[name].queries == (name,)
    expected = slow_search(data, data.x.take([4])[0], "image", 7, loaded["image"], ("image", 4))
    assert brief(answer["corrected"]) == [hit[:2] for hit in expected]
    assert client.get(f"{address}?queries=sound").status_code == 422


def test_a_correction_says_what_it_demands(client):
    whiten = fit(client, "Whiten")
    (demands,) = whiten["demands"]
    assert demands["queries"] == ["image", "text"]
    assert (demands["columns"], demands["metric"]) == ([DIM, DIM], "cosine")
    assert list(demands["demands"]) == ["columns", "documents", "queries", "rank by"]
    fitted = client.app.state.explorer.corrections.get(whiten["id"])
    file = "correction-Whiten-shrinkage=0.1.safetensors"
    assert demands["commands"] == next_commands({file: fitted.correction})
    assert all(file in command for command in demands["commands"])


def test_the_index_with_one_side_per_group_is_asked_for_by_name(client):
    asked = {"modality": "text", "row": 4, "k": 100, "index": "one_side"}
    answer = client.post("/api/search", json=asked).json()
    assert brief([hit for hit in answer["raw"] if hit["match"]]) == [("image", 4)]
    assert client.post("/api/search", json={**asked, "index": "half"}).status_code == 422
    unpaired = make_client(Explorer(make_data(paired=False)))
    assert unpaired.post("/api/search", json=asked).status_code == 422


def test_a_vector_of_a_row_finds_that_row_first(client):
    vector = make_data().x.take([9])[0].tolist()
    answer = client.post("/api/search", json={"modality": "image", "vector": vector, "k": 1}).json()
    assert brief(answer["raw"]) == [("image", 9)]
    assert (answer["query"], answer["corrected"]) == (None, None)


def test_captions_are_text_in_every_answer(client):
    answer = client.post("/api/search", json={"modality": "text", "row": 1, "k": 1})
    assert answer.json()["query"]["caption"] == NASTY
    assert answer.headers["content-type"] == "application/json"


def test_a_fit_is_a_job_whose_metrics_are_those_of_diagnose(client):
    data = make_data()
    started = client.post(
        "/api/corrections", json={"method": "Shift", "parameters": {"amount": 0.4}}
    )
    assert started.status_code == 202
    assert started.headers["location"] == f"/api/jobs/{started.json()['job']}"
    job = finished(client, started.json()["job"])
    assert (job["state"], job["title"], job["error"]) == ("done", "Shift(amount=0.4)", None)
    assert (job["step"], job["done"], job["total"]) == ("done", 5, 5)
    result = diagnose(data, correctors=[Shift(0.4)]).to_dict()
    assert job["result"]["raw"] == result["raw"]
    assert job["result"]["corrected"] == result["trials"][0]["confirm"]
    assert job["result"]["about"]["parameters"] == {"amount": 0.4}
    listed = client.get("/api/corrections").json()["corrections"]
    assert job["result"] in listed


def test_the_recommended_correction_is_listed_first():
    data = make_data(420, 420)
    explorer = Explorer(data)
    client = make_client(explorer)
    fit(client, "Shift", amount=0.1)
    result = diagnose(data, correctors=[Center()])
    assert result.recommended == "Center()"
    client.app.state.document.wait(30)
    before = client.get("/api/corrections").json()["none_recommended"]
    assert before == "The report recommends no correction."
    explorer.corrections.recommend(result)
    listed = client.get("/api/corrections").json()
    assert listed["none_recommended"] is None
    listed = listed["corrections"]
    assert [(c["name"], c["recommended"]) for c in listed] == [
        ("Center()", True), ("Shift(amount=0.1)", False)
    ]  # fmt: skip
    assert listed[0]["corrected"] == result.trials[0].confirm.to_dict()
    found = client.post(
        "/api/search", json={"modality": "text", "row": 0, "correction": listed[0]["id"]}
    )
    assert len(found.json()["corrected"]) == 10


def test_a_correction_is_downloaded_as_the_file_that_load_reads(client, tmp_path):
    correction = fit(client, "OrthogonalShift", explained_variance=0.5, move="x")
    answer = client.get(f"/api/corrections/{correction['id']}/file")
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-disposition"] == (
        'attachment; filename="correction-OrthogonalShift-move=-x-explained_variance=0.5'
        '.safetensors"'
    )
    path = tmp_path / "c.safetensors"
    path.write_bytes(answer.content)
    loaded = Correction.load(path)
    assert loaded.about["method"] == "OrthogonalShift"
    assert loaded.metric == "euclidean"


def test_a_job_that_fails_says_why_and_the_server_goes_on(client):
    started = client.post(
        "/api/corrections",
        json={"method": "OrthogonalShift", "parameters": {"explained_variance": 1.0}},
    )
    job = finished(client, started.json()["job"])
    assert (job["state"], job["result"]) == ("failed", None)
    assert "moves nothing" in job["error"]
    assert fit(client, "Center")["name"] == "Center()"


def test_jobs_wait_in_a_short_queue_and_are_cancelled_and_forgotten():
    jobs, go, running = Jobs(waiting=1), threading.Event(), threading.Event()
    client = make_client(jobs=jobs)
    jobs.submit("holds the thread", lambda _: running.set() or go.wait(30))
    assert running.wait(30)
    waiting = client.post("/api/corrections", json={"method": "Center"}).json()["job"]
    assert client.get(f"/api/jobs/{waiting}").json()["state"] == "queued"
    full = client.post("/api/corrections", json={"method": "Center"})
    assert (full.status_code, full.headers["retry-after"]) == (429, "5")
    assert "1 jobs are waiting" in full.json()["detail"]
    assert client.delete(f"/api/jobs/{waiting}").json()["state"] == "cancelled"
    assert client.delete(f"/api/jobs/{waiting}").status_code == 200
    assert client.delete(f"/api/jobs/{waiting}").status_code == 404
    go.set()


def test_procrustes_without_pairs_is_a_conflict():
    client = make_client(Explorer(make_data(paired=False)))
    answer = client.post("/api/corrections", json={"method": "Procrustes"})
    assert answer.status_code == 409
    assert "needs pairs" in answer.json()["detail"]


def test_thumbnails_come_as_the_images_they_are():
    pictures = {1: PNG, 2: b"\xff\xd8\xff" + bytes(8), 3: b"<svg onload=alert(1)>"}

    def picture(row):
        if row > 4:
            raise ImageError("it is cut short") if row > 5 else OSError("the disk is gone")
        return pictures.get(row)

    client = make_client(Explorer(make_data(pictures=picture)))
    sides = client.get("/api/info").json()["modalities"]
    assert [side["thumbnails"] for side in sides] == [True, False]
    hit = client.get("/api/items?modality=image&offset=1&limit=1").json()["items"][0]
    assert hit["thumbnail"] == "/api/thumbnails/image/1"
    answer = client.get(hit["thumbnail"])
    assert (answer.content, answer.headers["content-type"]) == (PNG, "image/png")
    assert client.get("/api/thumbnails/image/2").headers["content-type"] == "image/jpeg"
    for none in (*(f"image/{row}" for row in (3, 4, 5, 6, 99999, -1)), "text/1", "nothing/1"):
        assert client.get(f"/api/thumbnails/{none}").status_code == 404


NAN, INF = float("nan"), float("inf")
# What is posted to /api/search, the status, and words of the answer.
SEARCHES = [
    ({"row": 0, "k": 101}, 422, "k: input should be less than or equal"),
    ({"row": 0, "k": 0}, 422, "k: "),
    ({"row": 0, "k": -INF}, 422, "k: "),
    ({"row": 0.5}, 422, "row: "),
    ({"row": "0"}, 422, "row: "),
    ({"row": True}, 422, "row: "),
    ({"row": NAN}, 422, "row: "),
    ({"row": N_Y}, 422, "row must be a row number of text, from 0 to 89, got 90."),
    ({"row": -1}, 422, "row: "),
    ({"row": 10**30}, 422, "row: "),
    ({}, 422, "A search takes a row or a vector, and not both."),
    ({"row": 0, "vector": [1.0] * DIM}, 422, "and not both."),
    ({"vector": [1.0]}, 422, "must have 8 numbers, one per column of the data, got 1."),
    ({"vector": [0.0] * DIM}, 422, "must not be all zeros"),
    ({"vector": [1e300] * DIM}, 422, "between 1e-12 and 1e12, got 1e+300"),
    ({"vector": ["1"] * DIM}, 422, "vector.0: "),
    ({"vector": [10**400] * DIM}, 422, "vector.0: "),
    ({"vector": [NAN] * DIM}, 422, "vector.0: "),
    ({"vector": [INF] * DIM}, 422, "vector.0: "),
    ({"modality": "sound", "row": 0}, 422, "modality must be one of 'image', 'text', got 'sound'"),
    ({"modality": 3, "row": 0}, 422, "modality: "),
    ({"modality": NAN, "row": 0}, 422, "modality: "),
    ({"modality": "\ud800", "row": 0}, 422, ""),
    ({"row": 0, "more": 1}, 422, "more: "),
    ({"row": 0, "correction": "none"}, 404, "There is no correction 'none'"),
    ([], 422, ""),
    ("text", 422, ""),
    (None, 422, ""),
    (NAN, 422, ""),
    (b'{"modality": "text", "vector": [1e999, 1, 1, 1, 1, 1, 1, 1]}', 422, "vector.0: "),
    (b"{not json", 422, ""),
    (b'{"modality": "text", "row": 0', 422, ""),
    (b"", 422, ""),
    (b"\xff\xfe", 422, ""),
    (b"[" * 5_000, 422, ""),
]
FITS = [
    ({"method": "Shift", "parameters": {"amount": NAN}}, 422, "finite"),
    ({"method": "Shift", "parameters": {"amount": 99}}, 422, "between -10 and 10"),
    ({"method": "Shift", "parameters": {"amount": True}}, 422, "parameters.amount"),
    ({"method": "Shift", "parameters": {"a": 1}}, 422, "no parameter 'a'"),
    ({"method": "Shift", "parameters": [1]}, 422, "parameters"),
    ({"method": "__class__"}, 422, "method must be one of"),
]


@pytest.mark.parametrize(
    ("address", "body", "status", "said"),
    [("/api/search", *one) for one in SEARCHES] + [("/api/corrections", *one) for one in FITS],
)
def test_what_cannot_be_done_is_refused_in_a_sentence(client, address, body, status, said):
    if isinstance(body, dict) and address == "/api/search":
        body = {"modality": "text", **body}
    content = body if isinstance(body, bytes) else json.dumps(body)
    answer = client.post(address, content=content, headers={"content-type": "application/json"})
    assert answer.status_code == status
    found = json.loads(answer.text, parse_constant=pytest.fail)
    assert list(found) == ["detail"]
    assert said in found["detail"]
    assert found["detail"].endswith((".", "?"))
    assert len(found["detail"]) < 300


@pytest.mark.parametrize(
    ("address", "status"),
    [
        ("/api/items", 422),
        ("/api/items?modality=sound", 422),
        ("/api/items?modality=text&limit=101", 422),
        ("/api/items?modality=text&limit=0", 422),
        ("/api/items?modality=text&offset=-1", 422),
        (f"/api/items?modality=text&contains={'x' * 201}", 422),
        ("/api/jobs/none", 404),
        ("/api/corrections/none/file", 404),
        ("/api/nothing", 404),
        ("/nothing", 404),
        ("/api/search", 405),
    ],
)
def test_other_refusals_are_sentences_too(client, address, status):
    answer = client.get(address)
    assert answer.status_code == status
    assert answer.json()["detail"].endswith(".")


def test_searches_and_a_fit_at_once_answer_as_one_by_one(client):
    correction = fit(client, "Calibrate")["id"]
    bodies = [
        {"modality": modality, "row": row, "k": 20, "correction": correction}
        for modality in ("image", "text")
        for row in range(12)
    ]

    def search(body: dict[str, Any]) -> Any:
        return client.post("/api/search", json=body).json()

    alone = [search(body) for body in bodies]
    started = client.post("/api/corrections", json={"method": "Whiten"}).json()["job"]
    with ThreadPoolExecutor(6) as pool:
        together = list(pool.map(search, bodies))
    assert together == alone
    assert finished(client, started)["state"] == "done"


def test_the_page_and_its_files_are_served_and_need_not_be_sent_twice(client):
    assert client.get("/").headers["content-type"].startswith("text/html")
    script = client.get("/static/app.js")
    assert (script.text, script.headers["content-type"].partition(";")[0]) == (
        "'use strict';", "text/javascript"
    )  # fmt: skip
    again = client.get("/static/app.js", headers={"if-none-match": script.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert client.get("/healthz").json() == {"status": "ok"}


def test_the_api_page_lists_every_route_and_loads_nothing(client):
    page = client.get("/docs").text
    paths = client.get("/openapi.json").json()["paths"]
    assert len(paths) == 9
    for path in paths:
        assert path in page
    for outside in ("http://", "https://", "<script", "src="):
        assert outside not in page


def test_every_route_is_documented(client):
    document = client.get("/openapi.json").json()
    for path, operations in document["paths"].items():
        for verb, operation in operations.items():
            where = f"{verb} {path}"
            assert operation["summary"], where
            assert operation["description"], where
            if path.startswith("/api"):
                assert {"403", "413", "421"} <= set(operation["responses"]), where
            if "requestBody" in operation:
                body = operation["requestBody"]["content"]["application/json"]
                assert len(body["examples"]) == 2, where
