"""Any number of modalities on the command line: NAME=PATH, groups and queries by name."""

from __future__ import annotations

import numpy as np
import pytest

from command_line import make_files, modgap, refuse, succeed

N = 440


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """image.npy, text.npy and audio.npy of the same things, row by row; labels and queries."""
    X, Y = make_files(tmp_path, N)
    rng = np.random.default_rng(1)
    audio = (X + Y) / 2 + rng.normal(size=X.shape[1]) + 0.2 * rng.normal(size=X.shape)
    audio = audio.astype("float32")
    np.save(tmp_path / "audio.npy", audio)
    np.save(tmp_path / "rows.npy", np.arange(N))
    np.save(tmp_path / "turned.npy", np.arange(N)[::-1].copy())
    np.save(tmp_path / "query.npy", Y[:50] + 0.5)
    np.savetxt(tmp_path / "asked.txt", np.arange(50), fmt="%d")
    np.savez(tmp_path / "all.npz", image=X, text=Y, sound=audio, other=X)
    monkeypatch.chdir(tmp_path)
    return tmp_path


THREE = ("image=image.npy", "text=text.npy", "audio=audio.npy")


def test_measure_has_a_column_for_each_and_a_line_for_every_two(folder):
    ran = modgap("measure", *THREE)
    assert (ran.status, ran.err) == (0, "")
    lines = ran.out.splitlines()
    assert lines[0].split() == ["image", "text", "audio", "all"]
    assert any(line.startswith("gap to audio") for line in lines)
    assert any(line.startswith("image and audio") for line in lines)
    written = modgap("measure", *THREE, "--json").json
    assert written["names"] == ["image", "text", "audio"]
    assert written["schema"] == "modgap/measure/2"
    rows = [np.load(f"{name}.npy").astype(float) for name in written["names"]]
    expected = [[np.linalg.norm(a.mean(0) - b.mean(0)) for b in rows] for a in rows]
    np.testing.assert_allclose(written["gap_matrix"], expected, atol=1e-6)


def test_two_with_names_are_measured_as_two_without(folder):
    named = modgap("measure", "image=image.npy", "text=text.npy", "--json").json
    assert named == modgap("measure", "image.npy", "text.npy", "--json").json
    other = modgap("measure", "b=image.npy", "a=text.npy", "--json").json
    assert other == modgap("measure", "image.npy", "text.npy", "--names", "b,a", "--json").json


def test_groups_are_one_for_all_in_order_or_by_name(folder):
    def pairs(*words: str) -> list[float]:
        ran = succeed("measure", "image=image.npy", "text=text.npy", *words, "--json")
        return [one["pairs"]["alignment"] for one in ran.json["between"]]

    expected = pytest.approx(pairs("audio=audio.npy"))
    assert pairs("audio=audio.npy", "--groups", "rows.npy") == expected
    np.save("back.npy", np.load("audio.npy")[::-1])
    for groups in ("rows.npy,rows.npy,turned.npy", "audio=turned.npy,image=rows.npy,text=rows.npy"):
        assert pairs("audio=back.npy", "--groups", groups) == expected


def test_a_column_is_chosen_by_the_name_or_with_an_option(folder):
    words = ("image=all.npz", "text=all.npz", "audio=all.npz", "--column", "audio=sound")
    found = modgap("measure", *words, "--json").json
    assert found["gap_matrix"] == modgap("measure", *THREE, "--json").json["gap_matrix"]


def test_a_path_may_hold_an_equals_sign(folder):
    np.save("a=b.npy", np.load("image.npy"))
    assert modgap("measure", "a=b.npy", "text.npy").status == 0
    assert modgap("measure", f"{folder}/a=b.npy", "text.npy").status == 0
    assert modgap("measure", "image=a=b.npy", "text=text.npy").status == 0


def test_queries_have_rows_of_their_own(folder):
    words = ("image.npy", "text.npy", "--query-rows", "text=query.npy")
    found = modgap("measure", *words, "--query-groups", "text=asked.txt", "--json").json
    assert [one["name"] for one in found["asking"]] == ["text queries"]
    assert found["asking"][0]["n"] == 50


def test_evaluate_takes_any_number_and_names_who_asks(folder):
    found = succeed("evaluate", *THREE, "--queries", "text", "--sample", "100", "--json")
    every = succeed("evaluate", *THREE, "--queries", "all", "--sample", "100", "--json")
    assert every.out != found.out


def test_report_writes_a_page_of_all(folder):
    words = ("--query-rows", "text=query.npy", "--query-groups", "text=asked.txt", "--no-umap")
    ran = succeed("report", *THREE, *words, "-o", "page.html", "--json")
    assert ran.json["names"] == ["image", "text", "audio"]
    assert ran.json["asking"] == [{"name": "text queries", "n": 50, "source": "query.npy"}]
    assert "audio.npy" in (folder / "page.html").read_text(encoding="utf-8")


def test_fix_goes_the_whole_way_with_three(folder):
    ran = succeed("fix", *THREE, "-o", "fixed")
    assert "image is image.npy, text is text.npy, audio is audio.npy" in ran.err
    assert "440 image, 440 text and 440 audio rows" in ran.out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("image.npy text.npy audio.npy", "Give more than two files with their names, as NAME=PATH"),
        ("image=image.npy text.npy", "Give every file with its name, as NAME=PATH, or none"),
        ("image=image.npy", "Give two modalities or more as NAME=PATH, got image=image.npy alone"),
        ("image=image.npy image=text.npy", "Data with names names image twice"),
        ("image=image.npy text=", "Data with names takes NAME=PATH, got 'text='"),
        ("image=image.npy text=nope.npy", "There is no file or folder 'nope.npy'"),
        ("image=image.npy text=text.npy --names a,b", "--names is for files without names"),
        ("image=image.npy text=text.npy --x-column a", "use --column NAME=COLUMN"),
        ("image.npy text.npy --column image=a", "use --x-column and --y-column"),
        ("image=image.npy text=text.npy --column a", "--column takes NAME=COLUMN, got 'a'"),
        ("{} --groups rows.npy,rows.npy", "groups must name a column of image.npy or a file"),
        ("{} --query-rows query.npy", "--query-rows takes NAME=PATH, got 'query.npy'"),
        ("{} --query-groups text=asked.txt", "--query-groups says what the queries of --query-row"),
        ("{} --query-rows text=wide.npy", "The text queries must have the 16 columns of the docum"),
    ],
)
def test_wrong_mixes_are_one_sentence(folder, words, sentence):
    np.save("wide.npy", np.ones((N, 17), "float32"))
    said = refuse("measure", *words.format(" ".join(THREE)).split())
    assert sentence in said
    assert said.count("\n") == 1


def test_who_asks_must_be_one_of_them(folder):
    for command in ("fit", "diagnose", "fix"):
        ran = modgap(
            command, *THREE, "--queries", "both", *(("-o", "x") if command == "fix" else ())
        )
        assert ran.status == 2
        assert "queries both is for two modalities, got 3: image, text, audio. Say all." in ran.err


def test_serve_says_that_it_searches_two(folder):
    pytest.importorskip("fastapi", reason="fastapi is not installed")
    said = refuse("serve", *THREE, "--port", "0")
    assert "The live explorer searches two modalities, got 3: image, text, audio." in said
    assert said.count("\n") == 1
