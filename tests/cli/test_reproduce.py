"""``modgap reproduce``: the list, one entry, a paper, all, refusals and exit statuses."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

from command_line import everything_in, modgap, refuse, start, succeed
from modgap.reproduce import Entry, Outcome, Paper, Setting, check, run
from modgap.reproduce.entry import Evidence
from modgap.reproduce.record import RECORD, Recorded


def measured(holds: bool = True, on: str = ""):
    def run(setting: Setting) -> Outcome:
        setting.say("measuring")
        return Outcome({"gap": 0.5}, (check("It holds.", holds),), {}, on=on)

    return run


def embedded(setting: Setting) -> Outcome:
    setting.arrays("clip")
    return measured()(setting)


DECLARED = """
title = "A paper"

[fig1]
title = "A figure"
claim = "A claim."

[fig1.published]
gap = 0.4

[fig2]
title = "Another"
claim = "A claim."
needs = "embeddings"

[table1]
title = "A table"
claim = "A claim."
needs = "model"
how = "It needs a model: train one."
"""


@pytest.fixture
def small(monkeypatch, tmp_path):
    """A paper of its own in place of the four, and a record of its own."""
    folder = tmp_path / "liang2022"
    folder.mkdir()
    (folder / "paper.toml").write_text(DECLARED)
    paper = Paper(folder)
    paper.run("fig1")(measured())
    paper.run("fig2")(embedded)
    monkeypatch.delenv("MODGAP_PUBLISHED", raising=False)
    monkeypatch.setattr("modgap.reproduce.registry.papers", lambda: (paper,))
    monkeypatch.setattr("modgap.reproduce.page.papers", lambda: (paper,))
    record_is(monkeypatch, {})
    monkeypatch.chdir(tmp_path)
    return paper


def add(paper: Paper, name: str, run, needs: str = "nothing") -> None:
    key = f"{paper.key}/{name}"
    paper.entries[key] = Entry(key, "One more", "A claim.", needs, run=run)


def record_is(monkeypatch: pytest.MonkeyPatch, record: dict[str, Recorded]) -> None:
    for module in ("record", "page"):
        monkeypatch.setattr(f"modgap.reproduce.{module}.recorded", lambda *_: record)


def on_record(monkeypatch: pytest.MonkeyPatch, **verdicts: Recorded) -> None:
    record = {f"liang2022/{name}": verdict for name, verdict in verdicts.items()}
    record_is(monkeypatch, record)


# The list


def test_the_list_has_every_entry_with_needs_state_and_verdict():
    ran = succeed("reproduce", "--list", "--json")
    listed = ran.json["entries"]
    assert len(listed) == 77
    for entry in listed:
        assert entry["can_run"] or entry["missing"], entry["key"]
        assert entry["evidence"] in get_args(Evidence), entry["key"]
    table = succeed("reproduce", "--list", "yaras2024")
    assert "yaras2024/fig2" in table.out
    assert "12 entries" in table.out
    assert "liang2022" not in table.out


def test_the_list_says_what_is_missing_here(small, tmp_path):
    ran = modgap("reproduce", "--list")
    states = [line.rsplit(maxsplit=2)[-2:] for line in ran.out.splitlines()[1:4]]
    assert states == [["run", "–"], ["DIR", "–"], ["model", "–"]]
    assert "3 entries, 1 can run here." in ran.out
    np.save(tmp_path / "features_clip.npy", np.ones((2, 3, 2), "float32"))
    ran = modgap("reproduce", "--list", "--embeddings", tmp_path, "--json")
    assert [entry["can_run"] for entry in ran.json["entries"]] == [True, True, False]
    assert ran.json["entries"][2]["missing"] == "It needs a model: train one."


# One entry


def test_one_entry_prints_published_beside_measured_and_keeps_its_files(small):
    ran = succeed("reproduce", "liang2022/fig1", "-o", "out", "--seed", "4")
    words = " ".join(ran.out.split())
    assert "liang2022/fig1: A figure A claim. published measured gap 0.4 0.5 ✓ It holds." in words
    assert "Verdict: as printed: holds (fast setting" in words
    assert ran.err == f"wrote {Path('out/liang2022/fig1.json')}\n"
    written = json.loads(Path("out/liang2022/fig1.json").read_text())
    assert (written["schema"], written["seed"]) == ("modgap/reproduce/2", 4)


def test_one_entry_can_be_printed_as_json(small):
    ran = modgap("reproduce", "liang2022/fig1", "--full", "--json")
    assert ran.json["setting"] == "full"
    assert ran.json["measured"] == {"gap": 0.5}


def test_an_entry_without_its_embeddings_is_refused_in_one_sentence(small):
    said = refuse("reproduce", "liang2022/fig2")
    assert said.startswith("modgap: The authors' embeddings features_clip.npy are not at hand.")
    assert said.count("\n") == 1


def test_an_entry_that_needs_a_model_says_which(small):
    ran = succeed("reproduce", "liang2022/table1")
    assert "Missing: It needs a model: train one." in ran.out
    assert "Verdict: missing" in ran.out


def test_a_real_entry_is_drawn_as_png_and_pdf(tmp_path):
    succeed("reproduce", "yaras2024/fig3", "-o", tmp_path)
    names = {"yaras2024", *(f"yaras2024/fig3.{suffix}" for suffix in ("json", "png", "pdf"))}
    assert everything_in(tmp_path) == names
    assert (tmp_path / "yaras2024" / "fig3.pdf").read_bytes().startswith(b"%PDF")


# Many


def test_all_writes_one_table_and_names_what_is_missing(small):
    ran = succeed("reproduce", "all", "-o", "out")
    assert "3 entries. As printed: holds 1; missing 2." in ran.out
    assert "Missing for liang2022/table1: It needs a model: train one." in ran.out
    assert "Missing for liang2022/fig2: The authors' embeddings" in " ".join(ran.out.split())
    assert [line.split()[0] for line in ran.err.splitlines()] == [
        "liang2022/fig1", "liang2022/fig2", "liang2022/table1", "wrote", "wrote",
    ]  # fmt: skip
    assert "| fig1 | A claim. |" in Path("out/reproduction.md").read_text()
    assert len(json.loads(Path("out/reproduction.json").read_text())["entries"]) == 3


def test_a_paper_gets_a_table_of_its_own(small):
    modgap("reproduce", "liang2022", "-o", "out")
    assert Path("out/liang2022/reproduction.md").is_file()
    assert not Path("out/reproduction.md").exists()


@pytest.mark.parametrize(
    ("needs", "on", "status"),
    [("nothing", "", 1), ("digits", "", 1), ("digits", "rows", 0), ("model", "", 0)],
)
def test_a_claim_that_needs_no_outside_data_must_hold(small, needs, on, status):
    add(small, "fig9", measured(False, on), needs)
    ran = modgap("reproduce", "all", "-o", "out")
    assert ran.status == status
    assert ("modgap: liang2022/fig9 disagrees. This did not hold: It holds." in ran.err) == bool(
        status
    )


def test_a_verdict_that_is_not_the_one_on_record_is_told(small, monkeypatch):
    on_record(
        monkeypatch, fig1=Recorded("as printed", "holds"), fig2=Recorded("as printed", "holds")
    )
    assert modgap("reproduce", "all").status == 0
    on_record(monkeypatch, fig1=Recorded("as printed", "fails"))
    ran = modgap("reproduce", "all")
    assert ran.status == 1
    said = "liang2022/fig1 is on record as 'as printed: fails' and came out as 'as printed: holds'"
    assert f"modgap: {said}" in ran.err
    assert said in Path("reproduction/reproduction.md").read_text()


def test_verdicts_are_put_on_record_when_asked(small, monkeypatch):
    kept = []
    monkeypatch.setattr(
        "modgap.reproduce.record.rewrite", lambda reports, keys: kept.extend(reports)
    )
    on_record(monkeypatch, fig1=Recorded("as printed", "fails"))
    before = RECORD.read_bytes()
    succeed("reproduce", "all", "--record")
    report, again = kept[0]
    assert report.key == "liang2022/fig1"
    assert again is None  # nothing is drawn
    assert RECORD.read_bytes() == before


def test_ctrl_c_keeps_what_is_finished_and_says_how_to_go_on(tmp_path):
    process = start("reproduce", "yaras2024", "-o", tmp_path, "--seeds", "1")
    for _ in range(6000):
        finished = sorted((tmp_path / "yaras2024").glob("*.json"))
        if finished or process.poll() is not None:
            break
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "--resume goes on from there" in err
    assert finished[0].is_file()
    assert not [name for name in everything_in(tmp_path) if ".modgap-" in name]
    assert finished[0].stem in (tmp_path / "yaras2024" / "reproduction.md").read_text(
        encoding="utf-8"
    )


def test_ctrl_c_right_after_the_files_of_an_entry_keeps_that_entry(small, monkeypatch):
    def interrupted(*given: Any) -> None:
        keep(*given)
        raise KeyboardInterrupt

    keep = run.keep
    monkeypatch.setattr(run, "keep", interrupted)
    ran = modgap("reproduce", "liang2022", "-o", "out")
    assert ran.status == 130
    assert "| fig1 | A claim. |" in Path("out/liang2022/reproduction.md").read_text()


# Refusals


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), "Name a figure or table, a paper or 'all'"),
        (("yaras2024/fig22",), "There is no entry 'yaras2024/fig22'. Did you mean 'yaras2024/"),
        (("all", "--list", "--record"), "--list runs nothing; leave out --record and --resume."),
        (("yaras2024/fig3", "--embeddings", "nowhere"), "--embeddings nowhere must be a folder"),
        (("yaras2024/fig3", "-o", __file__), "-o takes a folder to write to"),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(words, sentence):
    said = refuse("reproduce", *words)
    assert said.startswith(f"modgap: {sentence}")
    assert said.count("\n") == 1
