"""Papers as their files declare them: entries, printed tables, sentences and pictures."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from scipy.stats import spearmanr

from modgap import plot
from modgap.reproduce import Outcome, Paper, Setting, check, papers
from modgap.reproduce.checks import above, below
from modgap.reproduce.drawing import (
    LIMITS,
    OWN,
    bin_counts,
    draw_panels,
    limits,
    some,
)
from modgap.reproduce.entry import Evidence
from modgap.reproduce.statistics import by_chance, falls, rank_correlation
from modgap.reproduce.threads import one_thread

DECLARED = """
title = "A paper"

[sentences]
rows = "made-up rows"
many = "5,000 {rows}"

[claims]
closes = '''
The gap of {name}
closes. Otherwise: {name} keeps it.'''

[printed]
falls = "It falls. Otherwise: It rises."

[consistency]
adds = "The sum is right."

[[panels.line]]
kind = "curves"
x = "x"
ys = { line = "y" }
xlabel = "x"
ylabel = "y"

[table1]
title = "A table"
claim = "A claim."
fast = "{many}"
on = "{rows}"
note = '''
Two
lines.'''
slips = ["One {rows}."]

[table1.table]
columns = ["gap", "recall"]
cells = "{column} of {row}"

[table1.table.rows]
CLIP = [0.8, 30]
BLIP = [0.5, 40]

[table1.published]
rows = 2

[[table1.panels]]
use = "line"

[fig1]
title = "A figure"
claim = "A claim."
needs = "model"
how = "It needs a model."
"""


@pytest.fixture
def paper(tmp_path: Path) -> Paper:
    (tmp_path / "paper.toml").write_text(DECLARED)
    return Paper(tmp_path)


def ran(setting: Setting, **words: str) -> Outcome:
    return Outcome({"gap": 1}, [check("It holds.", np.True_)], {"x": [1, 2], "y": [3, 4]}, **words)


def test_entries_are_declared_in_the_papers_order_with_their_sentences(paper: Paper) -> None:
    paper.run("table1")(ran)
    table, figure = paper
    assert (table.key, figure.key) == (f"{paper.key}/table1", f"{paper.key}/fig1")
    assert (table.needs, figure.needs) == ("nothing", "model")
    assert (table.fast, table.full) == ("5,000 made-up rows", "the same")
    assert table.slips == ("One made-up rows.",)
    assert (figure.run, figure.draw, figure.full) == (None, None, "")


def test_a_run_gets_the_declared_words_unless_it_has_its_own(paper: Paper) -> None:
    paper.run("table1")(ran)
    table = next(iter(paper))
    outcome = table.run(Setting())
    assert (outcome.on, outcome.note) == ("made-up rows", "Two lines.")
    assert outcome.checks[0].holds is True
    paper = Paper(paper.folder)
    paper.run("table1")(lambda setting: ran(setting, on="digits", note="Mine."))
    outcome = next(iter(paper)).run(Setting())
    assert (outcome.on, outcome.note) == ("digits", "Mine.")


def test_a_printed_table_names_its_cells_and_gives_its_columns(paper: Paper) -> None:
    assert dict(next(iter(paper)).published) == {
        "gap of CLIP": 0.8,
        "recall of CLIP": 30,
        "gap of BLIP": 0.5,
        "recall of BLIP": 40,
        "rows": 2,
    }
    table = paper.table("table1")
    assert table.column("recall").tolist() == [30, 40]
    assert table.points("gap", "recall", ["BLIP"]).tolist() == [[0.5, 40]]


def test_checks_have_the_declared_words(paper: Paper) -> None:
    closes = paper.below("closes", 0.5, 0.1, name="CLIP")
    assert closes == below("The gap of CLIP closes.", 0.5, 0.1, "CLIP keeps it.")
    assert paper.above("falls", 1.0) == above("It falls.", 1.0, 0.0, "It rises.", "paper")
    right = paper.check("adds", np.True_)
    assert right == check("The sum is right.", True, "A mistake of ours.", "consistency")


def test_what_nobody_declared_or_what_is_there_twice_is_a_mistake(paper: Paper) -> None:
    paper.run("table1")(ran)
    with pytest.raises(AssertionError, match="table1 is registered twice"):
        paper.run("table1")(ran)
    paper.run_on_model("fig9")(ran)
    with pytest.raises(AssertionError, match=r"declares no \['fig9'\]"):
        _ = paper.entries


# Pictures


def test_shared_panels_are_drawn(paper: Paper) -> None:
    [ax] = next(iter(paper)).draw(ran(Setting())).axes
    assert ax.lines[0].get_ydata().tolist() == [3, 4]


def curve(**more) -> dict:
    return {"kind": "curves", "x": "x", "ys": {"a": "y"}, "xlabel": "", "ylabel": "", **more}


def test_paths_lead_into_the_data_and_words_are_filled_from_it() -> None:
    data = {"x": [1, 2], "runs": [{"y": [0, 1]}, {"y": [1, 3]}], "at": {"end": 2.0}, "unit": "m"}
    panel = curve(
        ys={"a": "runs/1/y", "b": "runs/0/y"},
        vertical={"end": "at/end", "start": 1},
        marks={"a": ["at/end", 3]},
        xlabel="length, {unit}",
        xlim=[0, 3],
    )
    figure = draw_panels([panel], data, size=[3, 2])
    [ax] = figure.axes
    assert [line.get_ydata().tolist() for line in ax.lines[:2]] == [[1, 3], [0, 1]]
    assert (ax.get_xlabel(), ax.get_xlim()) == ("length, m", (0, 3))
    assert figure.get_size_inches().tolist() == [3, 2]


def test_each_item_gets_a_panel_and_is_looked_into_first() -> None:
    data = {
        "x": [1, 2],
        "y": [5, 5],
        "parts": {"one": {"y": [1, 2], "loss": 0.25}, "two": {"loss": 0.5}},
        "rows": [{"CLIP": 1.0}, {"CLIP": 2.0}],
    }
    panels = [
        curve(each="parts", title="{name}: {loss:.1f}", same_limits=True),
        {"kind": "bars", "each": "rows", "values": ".", "ylabel": "gap {name}"},
    ]
    axes = draw_panels(panels, data).axes
    assert [ax.get_title() for ax in axes] == ["one: 0.2", "two: 0.5", "", ""]
    assert axes[0].lines[0].get_ydata().tolist() == [1, 2]
    assert axes[1].lines[0].get_ydata().tolist() == [5, 5]
    assert axes[0].get_ylim() == axes[1].get_ylim()
    assert [ax.get_ylabel() for ax in axes[2:]] == ["gap 0", "gap 1"]


def test_legends_can_be_left_out_or_gathered_below() -> None:
    data = {"x": [1, 2], "y": [1, 2], "z": [2, 1], "items": [1, 2]}
    two = {"a": "y", "b": "z"}
    axes = draw_panels(
        [curve(ys=two), curve(ys=two, legend=False), curve(ys=two, each="items", legend="first")],
        data,
    ).axes
    assert [ax.get_legend() is not None for ax in axes] == [True, False, True, False]
    figure = draw_panels([curve(), curve(ys=two)], data, legend="below")
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["a", "b"]
    assert all(ax.get_legend() is None for ax in figure.axes)


def test_spheres_get_axes_in_space() -> None:
    rows = np.eye(3)
    panel = {"kind": "sphere", "points_x": "x", "points_y": "x", "title": ""}
    flat, solid = draw_panels([curve(x="t", ys={"a": "t"}), panel], {"x": rows, "t": [1, 2]}).axes
    assert (flat.name, solid.name) == ("rectilinear", "3d")


def test_a_path_that_leads_nowhere_is_an_error() -> None:
    with pytest.raises(KeyError, match="nowhere"):
        draw_panels([curve(x="nowhere")], {"y": [1]})


def names(paper: Paper) -> list[str]:
    return [key.partition("/")[2] for key in paper.entries]


def test_a_paper_declares_nothing_that_is_not_read() -> None:
    words = {"title", "claim", "needs", "how", "fast", "full", "on", "note", "slips", "evidence"}
    words |= {"changed", "bounds"}  # read by tools/make_evidence.py
    for paper in papers():
        sources = "".join(path.read_text(encoding="utf-8") for path in paper.folder.glob("*.py"))
        stated = tuple(
            re.findall(r'PAPER\.(?:above|below|check)\(\s*f?"(?:{\w+}_)?(\w+)"', sources)
        )
        assert [name for name in paper.statements if not name.endswith(stated)] == []
        used = {
            panel["use"]
            for name in names(paper)
            for panel in paper.declared[name].get("panels", ())
            if "use" in panel
        }
        assert used == set(paper.declared.get("panels", {})), paper.key
        for name in names(paper):
            declared = paper.declared[name]
            assert set(declared) <= words | {"published", "table", "figure", "panels"}, name
            assert declared.get("evidence", "as printed") in get_args(Evidence), name
            assert set(declared.get("figure", {})) <= {"size", "columns", "legend"}, name
            assert set(declared.get("table", {})) <= {"columns", "cells", "rows"}, name


def declared_panels() -> list:
    return [
        pytest.param(panel, id=f"{paper.key}-{name}-{k}")
        for paper in papers()
        for name in names(paper)
        for k, panel in enumerate(paper.panels(name))
    ]


@pytest.mark.parametrize("panel", declared_panels())
def test_a_declared_panel_names_a_function_and_its_arguments(panel) -> None:
    wanted = inspect.signature(getattr(plot, panel["kind"])).parameters
    given = set(panel).difference(OWN, LIMITS)
    assert given <= set(wanted)
    needed = {name for name, wants in wanted.items() if wants.default is wants.empty}
    assert needed <= given


# What entries share


def test_some_rows_are_evenly_spaced() -> None:
    assert some(np.arange(3), 5).tolist() == [0, 1, 2]
    assert some(np.arange(101), 3).tolist() == [0, 50, 100]


def test_limits_leave_a_little_room() -> None:
    points = {"a": np.array([[0.0, 1.0]]), "b": np.array([[1.0, 3.0]])}
    assert np.allclose(limits(points), [(-0.03, 1.03), (0.94, 3.06)])


def test_histograms_share_their_bins() -> None:
    groups = {"a": np.array([0.0, 1.0]), "b": np.array([2.0, 4.0])}
    found = bin_counts(groups, 4)
    assert found["edges"].tolist() == [0, 1, 2, 3, 4]
    assert {name: list(c) for name, c in found["counts"].items()} == {
        "a": [1, 1, 0, 0],
        "b": [0, 0, 1, 1],
    }
    assert bin_counts(groups, 4, tail=0.5)["edges"][-1] == np.quantile([0, 1, 2, 4], 0.5)
    assert bin_counts(groups, np.array([0.0, 2.0, 5.0]))["counts"]["b"].tolist() == [0, 2]


def test_a_rank_correlation_is_spearmans_and_sees_only_the_order(rng) -> None:
    a, b = rng.integers(0, 9, size=(2, 40))
    assert rank_correlation(a, a + b) == pytest.approx(spearmanr(a, a + b).statistic)
    assert rank_correlation([1, 2, 3], [1, 10, 100]) == pytest.approx(1)
    assert rank_correlation([1, 2, 3], np.array([3.0, 2.0, 1.0])) == pytest.approx(-1)
    assert by_chance(401) == pytest.approx(0.2)


def test_values_fall_where_each_is_smaller_than_the_one_before() -> None:
    assert falls([3, 2, 1])
    assert not falls([3, 2, 2])


def test_one_thread_is_given_back() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    before = torch.get_num_threads()
    with one_thread():
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == before
