"""``modgap demo`` and ``modgap diagnose``: the verdict, the report and the correction file."""

from __future__ import annotations

import json

import numpy as np
import pytest

import modgap as library
from command_line import DIM, Ran, everything_in, few_digits, make_files, modgap, succeed
from modgap.io import write_pair

pytestmark = pytest.mark.xdist_group("diagnose")  # the demo is run once
WRITTEN = {"diagnosis.json", "report.md", "report.html", "correction.safetensors"}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pairs")
    make_files(folder)
    return folder


@pytest.fixture(scope="module")
def diagnosed(files):
    """Two files, and what diagnosing them printed and wrote."""
    out = files / "out"
    ran = modgap(
        "diagnose", files / "image.npy", files / "text.npy", "-o", out, "--no-umap",
        "--model", "toy",
    )  # fmt: skip
    return ran, out


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo") / "new" / "out"
    return modgap("demo", "-o", folder), folder


def verdict(ran: Ran) -> str:
    assert ran.status == 0, ran.err
    return ran.json["verdict"]


def test_the_demo_prints_the_search_and_the_verdict_and_says_where_the_page_is(demo):
    ran, folder = demo
    assert ran.status == 0
    assert "1,000 handwritten digits and 5,000 captions" in ran.out
    assert ran.out.index("As it is") < ran.out.index("Corrected") < ran.out.index("Use ")
    assert "modgap fix IMAGES.npy TEXTS.npy -o out" in ran.out
    assert ran.out.index("Before and after") < ran.out.index("Every correction")
    assert everything_in(folder) == WRITTEN
    kept = json.loads((folder / "diagnosis.json").read_text(encoding="utf-8"))
    assert kept["verdict"] == "use"
    *written, last = ran.err.splitlines()
    assert written == [
        f"wrote {folder / name}"
        for name in ("diagnosis.json", "report.md", "report.html", "correction.safetensors")
    ]
    assert f"open {(folder / 'report.html').resolve()}" in last


def test_the_demo_prints_as_json_what_it_writes(tmp_path, monkeypatch):
    few = few_digits(100)
    monkeypatch.setattr("modgap.datasets.load_digits", lambda: few)
    assert modgap("demo", "-o", tmp_path / "plain").status == 0
    ran = modgap("demo", "--json", "-o", tmp_path / "out")
    for folder in ("plain", "out"):
        written = (tmp_path / folder / "diagnosis.json").read_text(encoding="utf-8")
        assert ran.json == json.loads(written)
    assert everything_in(tmp_path / "out") == WRITTEN


def test_the_correction_of_the_demo_brings_the_right_scan_first(demo):
    digits = library.load_digits()
    fix = library.Correction.load(demo[1] / "correction.safetensors")
    data = library.Modalities.of(digits.X, digits.Y, groups=digits.groups)
    before, after = (
        library.mixed_retrieval(data, correction=one, queries="text").ndcg for one in (None, fix)
    )
    assert before < 0.01
    assert after > 0.6
    assert fix.about["model"] == "modgap digits"


def test_a_gap_that_hurts_is_mended(diagnosed, files):
    ran, out = diagnosed
    assert ran.status == 0
    assert "Use " in ran.out
    assert everything_in(out) == WRITTEN
    fix = library.Correction.load(out / "correction.safetensors")
    assert fix.names == ("image", "text")
    assert fix.about["model"] == "toy"
    assert fix.dim_in == DIM
    # Judged on held-out rows, then fitted on all.
    assert fix.about["fitted_on"]["image"] == len(np.load(files / "image.npy"))
    assert fix.about["judged_on"] == "held-out rows"


def test_the_files_say_what_was_printed_and_what_wrote_them(diagnosed):
    _, out = diagnosed
    report = (out / "report.md").read_text(encoding="utf-8")
    result = json.loads((out / "diagnosis.json").read_text(encoding="utf-8"))
    assert result["sentence"] in report
    assert "Correction.load('correction.safetensors')" in report
    for trial in result["trials"]:
        assert trial["method"] in report
    assert result["schema"] == "modgap/diagnose/2"
    assert result["version"] == library.__version__
    assert result["seed"] == 0
    assert result["goal"] == "mixed"
    assert result["n_groups"] == {"fit": 220, "choose": 110, "confirm": 110}


def test_one_stacked_file_gives_the_same_answer(diagnosed, files, tmp_path):
    X, Y = np.load(files / "image.npy"), np.load(files / "text.npy")
    np.save(tmp_path / "both.npy", np.stack([X, Y]))
    ran = modgap("diagnose", tmp_path / "both.npy", "--json")
    assert ran.json == json.loads((diagnosed[1] / "diagnosis.json").read_text(encoding="utf-8"))
    assert ran.err == ""
    assert everything_in(tmp_path) == {"both.npy"}


@pytest.mark.parametrize("goal", ["robust", "quantised"])
def test_the_goal_is_what_is_improved(files, goal):
    ran = succeed(
        "diagnose", files / "image.npy", files / "text.npy", "--goal", goal, "--json", "--seed", 3
    )
    assert (ran.json["goal"], ran.json["seed"]) == (goal, 3)


def test_rows_of_a_parquet_file_match_by_group(files, tmp_path):
    X, Y = np.load(files / "image.npy"), np.load(files / "text.npy")
    shuffled = np.random.default_rng(0).permutation(len(Y))
    groups = np.array([f"item {i}" for i in range(len(X))])
    path = tmp_path / "pairs.parquet"
    write_pair(path, X, Y[shuffled], groups=(groups, groups[shuffled]), names=("picture", "words"))
    named = ("--x-column", "picture", "--y-column", "words", "--names", "picture,words")
    asks = ("--queries", "words", "--json")
    ran = modgap("diagnose", path, *named, "--groups", "picture_group,words_group", *asks)
    assert verdict(ran) == "use"
    assert ran.json["names"] == ["picture", "words"]
    assert ran.json["queries"] == ["words"]
    assert verdict(modgap("diagnose", path, *named, "--unpaired", *asks)) == "no pairs"


def test_both_kinds_of_query_get_a_verdict_each(files, tmp_path):
    paths = (files / "image.npy", files / "text.npy")
    ran = succeed("diagnose", *paths, "--queries", "both", "--json", "--no-umap", "-o", tmp_path)
    for name in ("text", "image"):
        assert ran.json[name]["queries"] == [name]
        assert everything_in(tmp_path / name) == WRITTEN
        kept = json.loads((tmp_path / name / "diagnosis.json").read_text(encoding="utf-8"))
        assert kept == ran.json[name]


def test_a_correction_of_an_earlier_run_is_not_left_to_be_mistaken_for_this_one(files, tmp_path):
    stale = tmp_path / "out" / "correction.safetensors"
    stale.parent.mkdir()
    library.Correction.identity(DIM).save(stale)
    rows = np.load(files / "image.npy")
    noise = 0.01 * np.random.default_rng(0).normal(size=rows.shape).astype(np.float32)
    np.save(tmp_path / "near.npy", rows + noise)
    ran = modgap(
        "diagnose", files / "image.npy", tmp_path / "near.npy", "--no-umap", "-o", stale.parent
    )
    assert "Leave it alone" in ran.out
    assert not stale.exists()
    assert f"removed {stale}" in ran.err


def test_names_and_paths_are_printed_as_they_are_not_as_markup(files, tmp_path):
    out = tmp_path / "[red] ü" / "out[/bold]"
    ran = succeed(
        "diagnose", files / "image.npy", files / "text.npy", "--names", "[red]x,<b>",
        "--queries", "<b>", "--no-umap", "-o", out,
    )  # fmt: skip
    assert "[red]x recall@1" in ran.out
    assert "<b> queries are" in ran.out
    assert f"wrote {out / 'report.md'}\n" in ran.err
