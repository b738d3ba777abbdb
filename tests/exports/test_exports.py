"""Exported files merge as modgap does, with nothing but JSON, NumPy or PostgreSQL."""

from __future__ import annotations

import json
import subprocess
import sys

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
    json_answers,
    numpy_answers,
    of_numpy,
    sql_answers,
)
from index_services import postgres_url
from modgap.core.checks import InputValueError
from modgap.corrections import Affine, Calibrate, Center, Correction, ExpectedWrong
from modgap.exports import TARGETS, export_correction, merge_numbers

FEW = settings(max_examples=15, suppress_health_check=[HealthCheck.too_slow], deadline=None)


@FEW
@given(EXPECTED_WRONG | CALIBRATED)
def test_json_and_numpy_merge_as_modgap_does(case):
    case.check_all(numpy_answers(case))
    if case.at_most is None:
        case.check_all(json_answers(case))


@settings(FEW, max_examples=8)
@given(EXPECTED_WRONG | CALIBRATED)
def test_postgresql_merges_as_modgap_does(case):
    psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed")
    with psycopg.connect(postgres_url(), autocommit=True) as connection:
        case.check_all(sql_answers(case, "sql", connection))


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
