"""``modgap measure`` and ``modgap evaluate``: figures as a table and as JSON."""

from __future__ import annotations

import numpy as np
import pytest

import modgap as library
from command_line import DIM, make_files, modgap, succeed


@pytest.fixture
def files(tmp_path):
    make_files(tmp_path, 60)
    return tmp_path / "image.npy", tmp_path / "text.npy"


@pytest.fixture
def center(files, tmp_path):
    """A correction fitted on the rows of the files."""
    path = tmp_path / "center.safetensors"
    assert modgap("fit", *files, "--method", "center", "-o", path).status == 0
    return path


def test_the_table_has_the_figures_of_the_library(files):
    ran = modgap("measure", *files)
    X, Y = (np.load(path) for path in files)
    lines = {line[:34].strip(): line[34:].split() for line in ran.out.splitlines()}
    assert (ran.status, ran.err) == (0, "")
    assert lines["gap distance of rows as given"] == [f"{library.gap_distance(X, Y):.4f}"]
    assert lines["rows"] == ["60", "60"]
    assert "The gap distance and the measures of each modality use every row." in ran.out


def test_measure_prints_json_that_says_what_it_is(files):
    ran = modgap("measure", *files, "--json", "--seed", 5)
    X, Y = (np.load(path) for path in files)
    assert (ran.status, ran.err) == (0, "")
    assert ran.json["schema"] == "modgap/measure/2"
    assert ran.json["version"] == library.__version__
    assert ran.json["seed"] == 5
    assert ran.json["names"] == ["image", "text"]
    assert ran.json["gap_distance"] == pytest.approx(library.gap_distance(X, Y))


def test_json_has_null_and_never_nan_where_a_figure_does_not_exist(tmp_path):
    make_files(tmp_path, 1)
    ran = succeed("measure", tmp_path / "image.npy", tmp_path / "text.npy", "--json")
    assert "NaN" not in ran.out
    assert "null" in ran.out
    assert ran.json["dim"] == DIM


def test_a_column_is_chosen_by_name(files, tmp_path):
    X, Y = (np.load(path) for path in files)
    np.savez(tmp_path / "many.npz", a=X, b=Y, c=X + 1)
    ran = modgap(
        "measure", tmp_path / "many.npz", "--x-column", "a", "--y-column", "b", "--json"
    )  # fmt: skip
    assert ran.json == modgap("measure", *files, "--json").json


def test_unpaired_rows_have_no_figures_of_pairs(files):
    assert modgap("measure", *files, "--json").json["pairs"] is not None
    assert modgap("measure", *files, "--json", "--unpaired").json["pairs"] is None


def test_evaluate_prints_every_figure_with_an_interval(files):
    ran = modgap("evaluate", *files)
    assert (ran.status, ran.err) == (0, "")
    assert "as it is" in ran.out
    assert "corrected" not in ran.out
    assert "Image recall@1" in ran.out
    assert "_" not in ran.out  # keys are for JSON
    assert "60 pairs" in ran.out


def test_evaluate_compares_a_correction_with_the_rows_as_they_are(files, center):
    ran = succeed("evaluate", *files, "--correction", center)
    heads = ran.out.splitlines()[0].split()
    assert heads == ["as", "it", "is", "corrected", "change"]
    assert "+" in next(line for line in ran.out.splitlines() if "Mixed NDCG@10" in line)


def test_evaluate_prints_json_with_both_sides(files, center):
    ran = modgap("evaluate", *files, "--correction", center, "--json", "--seed", 2)
    assert ran.json["schema"] == "modgap/evaluate/2"
    assert (ran.json["version"], ran.json["seed"]) == (library.__version__, 2)
    before, after = (ran.json[side]["metrics"] for side in ("raw", "corrected"))
    assert before.keys() == after.keys()
    assert after["mixed_ndcg@10"]["value"]["value"] > before["mixed_ndcg@10"]["value"]["value"]
    alone = modgap("evaluate", *files, "--json").json
    assert alone["corrected"] is None


def test_a_correction_fitted_on_these_very_rows_is_pointed_out(files, center, tmp_path):
    ran = modgap("evaluate", *files, "--correction", center, "--json")
    assert ran.err.startswith("modgap: warning: the correction was fitted on these very rows")
    assert ran.json["fitted_on_these_rows"] is True
    for path in files:
        np.save(tmp_path / f"new-{path.name}", np.load(path)[:40])
    new = (tmp_path / "new-image.npy", tmp_path / "new-text.npy")
    held_out = modgap("evaluate", *new, "--correction", center, "--json")
    assert held_out.err == ""
    assert held_out.json["fitted_on_these_rows"] is False


def test_evaluate_takes_a_sample_of_groups(files):
    assert modgap("evaluate", *files, "--sample", 20, "--json").json["n_groups"] == 20


def test_the_metric_changes_how_the_rows_are_ranked(files):
    ranked = {
        metric: modgap("evaluate", *files, "--json", "--metric", metric).json["raw"]["metrics"]
        for metric in ("cosine", "inner_product", "euclidean")
    }
    name = "text_retrieval_recall@1"
    assert len({figures[name]["value"]["value"] for figures in ranked.values()}) > 1


def test_each_line_is_explained_on_request(files):
    plain, explained = (succeed("measure", *files, *more).out for more in ((), ("--explain",)))
    assert explained.startswith(plain)
    said = explained.removeprefix(plain)
    for label, source in (("Gap distance", "Liang et al. 2022"), ("Shell offset", "Levi and Gil")):
        assert said.count(f"{label}. ") == 1
        assert source in said.partition(f"{label}. ")[2].partition("\n\n")[0]


def test_a_row_is_a_line_of_the_zoo(files):
    ran = modgap("measure", *files, "--row", "my model")
    assert (ran.status, ran.err) == (0, "")
    assert ran.out.startswith("| my model | 60 | ")
    assert ran.out.count("\n") == 1
    found = modgap("measure", *files, "--row", "my model", "--json").json
    assert found["schema"] == "modgap/row/2"
    assert f"{found['gap']:.3f}" in ran.out
