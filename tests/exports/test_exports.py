"""Exported files merge as modgap does, with nothing but JSON, NumPy or PostgreSQL."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from command_line import refuse, succeed
from exported import (
    CALIBRATED,
    EXPECTED_WRONG,
    NAMES,
    calibrated_case,
    expected_wrong_case,
    flat,
)
from index_services import postgres_url
from modgap.core.checks import InputValueError
from modgap.corrections import Affine, Calibrate, Center, Correction, ExpectedWrong
from modgap.exports import TARGETS, export_correction, merge_numbers

FEW = settings(max_examples=15, suppress_health_check=[HealthCheck.too_slow], deadline=None)


def of_numpy(case) -> dict[str, Any]:
    """What the exported Python file defines."""
    names: dict[str, Any] = {}
    text = export_correction(case.correction, "numpy", NAMES[1])
    exec(compile(text, "merge.py", "exec"), names)
    return names


def read_by_hand(numbers: dict[str, Any], lists: dict, k: int) -> list[tuple]:
    """What the page says of the numbers, one hit after the other."""
    hits = []
    for name, (ids, scores) in lists.items():
        bank, better = numbers["lists"][name], 0.0
        r = bank["places"]
        if len(scores) < r:
            r = max(min(6, len(scores)), len(scores) // 2)
        usual = slope = bank["usual_slope"]
        if r >= 4:
            rise = sum(scores[i - 1] - scores[r - 1] for i in range(4, r + 1))
            slope = rise / sum(math.log(r / (i - 0.5)) for i in range(4, r + 1))
        for key, score in zip(ids, scores, strict=True):
            u = (score - scores[r - 1]) / math.sqrt(max(slope, 0.01 * usual) * usual)
            e = math.exp(np.interp(u, bank["heights"], bank["log_expected"]))
            held = max(e, 1e-30)
            hits.append((held * (1 + 0.05 * better), (key, name, score, len(lists) * e)))
            better += 1 / held
    return [hit for _, hit in sorted(hits, key=lambda one: one[0])][:k]


@FEW
@given(EXPECTED_WRONG)
def test_json_and_numpy_merge_by_expected_wrong_results_as_modgap_does(case):
    merge = of_numpy(case)["merge_by_expected_wrong"]
    numbers = json.loads(export_correction(case.correction, "json"))
    for query in range(len(case.queries)):
        lists = case.of_query(query)
        case.check(query, merge(lists, case.k, case.at_most))
        if case.at_most is None:
            case.check(query, read_by_hand(numbers, lists, case.k))


@FEW
@given(CALIBRATED)
def test_json_and_numpy_merge_by_calibrated_scores_as_modgap_does(case):
    merge = of_numpy(case)["merge_calibrated"]
    numbers = json.loads(export_correction(case.correction, "json", NAMES[1]))
    for query, row in enumerate(case.queries.tolist()):
        lists = case.of_query(query)
        case.check(query, merge(row, lists, case.k))
        length = math.sqrt(sum(q * q for q in row)) if numbers["unit_queries"] else 1.0
        hits = []
        for name, held in numbers["lists"].items():
            level = sum(q * m for q, m in zip(row, held["mean"], strict=True)) / length
            hits += [
                (key, name, (score - level) / held["spread"])
                for key, score in zip(*lists[name], strict=True)
            ]
        case.check(query, sorted(hits, key=lambda hit: -hit[2])[: case.k])


@settings(FEW, max_examples=5)
@given(EXPECTED_WRONG, CALIBRATED)
def test_postgresql_merges_as_modgap_does(by_e, calibrated):
    psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed")
    with psycopg.connect(postgres_url(), autocommit=True) as connection:
        for case in (by_e, calibrated):
            connection.execute(export_correction(case.correction, "sql", NAMES[1]))
        for query in range(len(by_e.queries)):
            found = connection.execute(
                "SELECT * FROM merge_by_expected_wrong(%s, %s, %s, %s, %s)",
                (*flat(by_e.of_query(query)), by_e.k, by_e.at_most),
            ).fetchall()
            by_e.check(query, found)
        for query, row in enumerate(calibrated.queries.tolist()):
            found = connection.execute(
                "SELECT * FROM merge_calibrated(%s, %s, %s, %s, %s)",
                (row, *flat(calibrated.of_query(query)), calibrated.k),
            ).fetchall()
            calibrated.check(query, found)


def test_equal_scores_keep_their_order_and_an_empty_list_counts_for_nothing():
    case = expected_wrong_case(0, 40, 0, 8, 0.0, 50, None)
    merge = of_numpy(case)["merge_by_expected_wrong"]
    equal = ([f"d{i}" for i in range(40)], [0.5] * 40)
    assert [hit[0] for hit in merge({"image": equal}, 40)] == equal[0]
    alone = merge({"image": equal, NAMES[1]: ([], [])}, 40)
    assert alone == merge({"image": equal}, 40)
    assert merge({}, 3) == []


def test_a_cut_below_what_the_bank_tells_is_refused_by_the_file():
    case = expected_wrong_case(0, 40, 0, 8, 0.0, 5, None)
    with pytest.raises(ValueError, match=r"at_most must be 0\.25 or more, got 0\.1"):
        of_numpy(case)["merge_by_expected_wrong"](case.of_query(0), at_most=0.1)


def test_the_python_file_runs_where_there_is_no_modgap(tmp_path):
    case = calibrated_case(1, 40, 6, "single", True, 5)
    (tmp_path / "merge.py").write_text(export_correction(case.correction, "numpy"))
    (tmp_path / "case.json").write_text(json.dumps([case.queries[0].tolist(), case.of_query(0)]))
    code = (
        "import json, sys; sys.modules['modgap'] = None; from merge import *; "
        "print(json.dumps(merge_calibrated(*json.load(open('case.json')), 5)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    case.check(0, json.loads(done.stdout))


def test_the_command_writes_every_form_and_says_which_scores_it_takes(tmp_path):
    for case in (
        expected_wrong_case(2, 40, 0, 8, 0.25, 5, None),
        calibrated_case(2, 40, 8, "single", True, 5),
    ):
        case.correction.save(tmp_path / "c.safetensors")
        numbers = merge_numbers(case.correction)
        for to in TARGETS:
            place = tmp_path / f"merge.{to}"
            ran = succeed("export", tmp_path / "c.safetensors", "--to", to, "-o", place)
            assert place.read_text(encoding="utf-8") == export_correction(case.correction, to)
            assert numbers["scores"] in ran.err
            assert ("with a 1 behind" in ran.err) == case.by_e


def test_what_cannot_be_merged_is_refused_in_a_sentence(tmp_path):
    rng = np.random.default_rng(0)
    X, Y = (rng.normal(size=(150, 6)) + side for side in (1.0, -1.0))
    place = tmp_path / "c.safetensors"
    for method, said in (
        (Center(), "Center changes rankings within a modality"),
        (Calibrate(hubs=0.5), "A correction with hubs changes rankings"),
        (Calibrate(form="compromise"), "serves image and text queries. Choose with --queries"),
    ):
        method.fit(X, Y).correction_.save(place)
        assert said in refuse("export", place, "--to", "json", "-o", tmp_path / "x.json")
    ExpectedWrong().fit(X, Y).correction_.save(place)
    assert "serves text queries" in refuse(
        "export", place, "--to", "sql", "-o", tmp_path / "x.sql", "--queries", "image"
    )
    assert "to must be one of" in refuse("export", place, "--to", "cobol", "-o", tmp_path / "x")
    assert "being read" in refuse("export", place, "--to", "json", "-o", place)
    assert not list(tmp_path.glob("x*"))
    with pytest.raises(InputValueError, match="to must be one of"):
        export_correction(Calibrate().fit(X, Y).correction_, "cobol")


def test_a_query_map_that_adds_a_constant_is_refused():
    wider = np.eye(4)[:, :2]
    stored, asked = (Affine(2, wider, offset=np.array([0, 0, c, 0])) for c in (2.0, 1.0))
    maps = {("image", "document"): stored, ("text", "document"): stored, ("text", "query"): asked}
    correction = Correction(("image", "text"), maps, "inner_product", queries=("text",))
    with pytest.raises(InputValueError, match="adds nothing to its queries"):
        merge_numbers(correction)
