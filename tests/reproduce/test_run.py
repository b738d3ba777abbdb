"""The runner of reproductions: selection, reports, files, resuming, the record, the tables."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from command_line import everything_in, python
from modgap.core.checks import InputValueError, MissingExtraError
from modgap.reproduce import Entry, NotAtHand, Outcome, Setting, check, entries, select
from modgap.reproduce.page import Page
from modgap.reproduce.record import Recorded, change, complaints, recorded, rewrite, verdict_of
from modgap.reproduce.run import keep, reproduce, run_entry
from modgap.reproduce.setting import find_embeddings
from modgap.reproduce.wording import report_lines, value_words

PAPER = SimpleNamespace(key="paper", title="A paper")


def make(
    name="a", holds=True, on="", needs="nothing", run=None, draw=None, evidence=None, **more
) -> Entry:
    """An entry that measures nothing much."""

    def measure(setting: Setting) -> Outcome:
        setting.say("measuring", 1, 2)
        data = {"points": np.arange(3.0)}
        return Outcome({"gap": 0.5}, (check("It holds.", holds),), data, on=on, evidence=evidence)

    more = {"published": {"gap": 0.4, "other": "n/a"}, "how": "A model is missing.", **more}
    return Entry(f"paper/{name}", f"Title {name}", "A claim.", needs,
                 run=measure if run is None else run, draw=draw, **more)  # fmt: skip


def picture(outcome: Outcome):
    from modgap.plot import panels

    return panels(1)[0]


def raising(error: Exception):
    def run(_):
        raise error

    return run


def report(**options):
    return run_entry(make(**options), Setting())[0]


# What there is


def test_listing_loads_neither_torch_nor_numba_nor_what_draws() -> None:
    code = (
        "import sys; from modgap.reproduce import entries; entries(); import modgap.simulate\n"
        "print([m for m in ('torch', 'numba', 'matplotlib', 'umap') if m in sys.modules])"
    )
    assert python(code) == "[]"


def test_the_simulators_are_at_hand_by_their_names() -> None:
    import modgap.simulate as simulate

    assert sorted(simulate.__all__) == sorted(dir(simulate))
    assert all(callable(getattr(simulate, name)) for name in simulate.__all__)
    with pytest.raises(AttributeError, match="attribute nothing"):
        _ = simulate.nothing


def test_keys_papers_and_all_are_selected_once_in_order() -> None:
    chosen = select(["yaras2024", "yaras2024/fig2", "liang2022/table1"])
    assert len(chosen) == 13
    assert chosen[0].key == "liang2022/table1"
    assert len(select(["all"])) == 77


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("yaras2024/fgi2", "Did you mean 'yaras2024/fig2'?"),
        ("yaras", "modgap reproduce --list shows them"),
        ("table5", "Did you mean 'liang2022/table5' or 'yaras2024/table5'?"),
        ("al", "Did you mean 'all'?"),
    ],
)
def test_an_unknown_name_gets_the_nearest(name, hint) -> None:
    with pytest.raises(InputValueError, match=f"There is no entry '{name}'") as error:
        select([name])
    assert hint in str(error.value)


# Running one


@pytest.mark.parametrize(
    ("options", "evidence", "words"),
    [
        ({}, "as printed", "as printed: holds"),
        ({"holds": False}, "as printed", "as printed: fails"),
        ({"on": "made-up rows"}, "other data", "other data: holds"),
        ({"on": "made-up rows", "holds": False}, "other data", "other data: fails"),
        ({"evidence": "own settings", "on": "ten rows"}, "own settings", "own settings: holds"),
        ({"evidence": "consistency only"}, "consistency only", "consistency only"),
    ],
)
def test_a_report_carries_both_fields_of_the_verdict(options, evidence, words) -> None:
    came = report(**options)
    assert (came.evidence, came.words, came.ran) == (evidence, words, True)
    assert came.disagrees == (words == "as printed: fails")
    assert came.measured == {"gap": 0.5}


@pytest.mark.parametrize(
    "error", [NotAtHand("No file."), MissingExtraError("Needs torch. pip install …")]
)
def test_what_is_missing_is_told_and_not_raised(error) -> None:
    came = report(run=raising(error))
    assert (came.evidence, came.missing, came.ran) == ("missing", str(error), False)


def test_an_entry_without_a_run_says_how_it_would_get_one() -> None:
    entry = Entry("paper/a", "T", "C.", "model", how="A model is missing.")
    came, outcome = run_entry(entry, Setting())
    assert (came.evidence, came.missing, outcome) == ("missing", "A model is missing.", None)
    assert entry.lacks(Setting()) == "A model is missing."


def test_an_entry_that_must_run_raises_what_it_lacks(tmp_path) -> None:
    entry = make(run=raising(NotAtHand("No file.")))
    with pytest.raises(NotAtHand, match="No file"):
        list(reproduce([entry], Setting(), tmp_path, required=["paper/a"]))
    model = Entry("paper/a", "T", "C.", "model", how="A model is missing.")
    (came,) = reproduce([model], Setting(), tmp_path, required=["paper/a"])
    assert came.missing == "A model is missing."


def test_a_mistake_is_a_failure_and_the_rest_goes_on(tmp_path) -> None:
    bad = make("a", run=raising(ZeroDivisionError("oh\nno")))
    came = list(reproduce([bad, make("b")], Setting(), tmp_path))
    assert [report.evidence for report in came] == ["failed", "as printed"]
    assert came[0].error == "ZeroDivisionError: oh no"
    assert everything_in(tmp_path) == {"paper", "paper/b.json"}


# Files


def test_numbers_and_pictures_are_kept(tmp_path) -> None:
    (came,) = reproduce([make(draw=picture)], Setting(seed=3), tmp_path)
    assert everything_in(tmp_path) == {"paper", *(f"paper/a.{s}" for s in ("json", "png", "pdf"))}
    written = json.loads((tmp_path / "paper" / "a.json").read_text())
    assert written["schema"] == "modgap/reproduce/2"
    assert (written["seed"], written["setting"]) == (3, "fast")
    assert (written["evidence"], written["finding"]) == ("as printed", "holds")
    assert written["drawn"] == {"points": [0, 1, 2]}
    assert tuple(written["pictures"]) == came.pictures == ("a.png", "a.pdf")


def test_a_picture_that_cannot_be_drawn_without_an_extra_leaves_the_numbers(tmp_path) -> None:
    entry = make(draw=raising(MissingExtraError("Drawing needs matplotlib.")))
    (came,) = reproduce([entry], Setting(), tmp_path)
    assert came.words == "as printed: holds"
    assert "No picture: Drawing needs matplotlib." in came.note
    assert everything_in(tmp_path) == {"paper", "paper/a.json"}


def test_a_picture_that_fails_is_a_failure(tmp_path) -> None:
    (came,) = reproduce([make(draw=raising(KeyError("x")))], Setting(), tmp_path)
    assert came.evidence == "failed"
    assert came.error.startswith("drawing: KeyError")
    assert everything_in(tmp_path) <= {"paper"}


def test_resuming_takes_what_would_only_be_repeated(tmp_path) -> None:
    runs = []

    def run(setting):
        runs.append(setting)
        return Outcome({"gap": 0.5}, (check("It holds.", True),))

    entry, setting = make(run=run), Setting()
    (first,) = reproduce([entry], setting, tmp_path)
    (again,) = reproduce([entry], setting, tmp_path, resume=True)
    assert len(runs) == 1
    assert again.to_dict() == first.to_dict()
    np.save(tmp_path / "features_clip.npy", np.zeros((2, 2, 2)))
    at_hand = Setting(embeddings=(tmp_path,))
    for other in (Setting(seed=1), Setting(full=True), at_hand):
        list(reproduce([entry], other, tmp_path, resume=True))
    assert len(runs) == 4
    list(reproduce([entry], at_hand, tmp_path))
    assert len(runs) == 5
    list(reproduce([entry], Setting(embeddings=(tmp_path,), seeds=3), tmp_path, resume=True))
    assert len(runs) == 7  # two seeds come out the same: nothing is drawn


@pytest.mark.parametrize("damage", ["", "{}", "[1]", '{"schema": "other"}'])
def test_a_damaged_file_is_not_resumed_from(tmp_path, damage) -> None:
    list(reproduce([make()], Setting(), tmp_path))
    path = tmp_path / "paper" / "a.json"
    path.write_text(damage)
    (came,) = reproduce([make()], Setting(), tmp_path, resume=True)
    assert came.words == "as printed: holds"
    assert json.loads(path.read_text())["key"] == "paper/a"


def test_a_picture_that_was_removed_is_drawn_again(tmp_path) -> None:
    list(reproduce([make(draw=picture)], Setting(), tmp_path))
    (tmp_path / "paper" / "a.png").unlink()
    list(reproduce([make(draw=picture)], Setting(), tmp_path, resume=True))
    assert (tmp_path / "paper" / "a.png").is_file()


def test_an_interrupted_run_leaves_what_was_finished(tmp_path) -> None:
    stop = make("b", run=raising(KeyboardInterrupt()))
    came = reproduce([make("a"), stop], Setting(), tmp_path)
    assert next(came).key == "paper/a"
    with pytest.raises(KeyboardInterrupt):
        next(came)
    assert everything_in(tmp_path) == {"paper", "paper/a.json"}


def test_the_folder_of_embeddings_is_the_option_then_the_variable(tmp_path, monkeypatch) -> None:
    monkeypatch.delenv("MODGAP_PUBLISHED", raising=False)
    assert find_embeddings() == ()
    np.save(tmp_path / "features_clip.npy", np.zeros((2, 2, 2)))
    monkeypatch.setenv("MODGAP_PUBLISHED", str(tmp_path))
    assert find_embeddings() == (tmp_path,)
    assert find_embeddings([tmp_path.parent]) == (tmp_path.parent,)  # right below it
    with pytest.raises(InputValueError, match="must be a folder"):
        find_embeddings([tmp_path / "nowhere"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputValueError, match="holds no embeddings"):
        find_embeddings([tmp_path / "empty"])
    monkeypatch.setenv("MODGAP_PUBLISHED", "nowhere")
    with pytest.raises(InputValueError, match="MODGAP_PUBLISHED=nowhere must be a folder"):
        find_embeddings()


# The record


def test_only_a_run_that_came_out_differently_is_a_change() -> None:
    record = {"paper/a": Recorded("as printed", "holds")}
    assert change(report(), record) == ""
    assert change(report(run=raising(NotAtHand("x"))), record) == ""
    assert change(report(), {}) == ""
    said = "paper/a is on record as 'as printed: holds' and came out as 'as printed: fails'"
    assert change(report(holds=False), record) == said
    assert "'other data: holds'" in change(report(on="rows"), record)


def test_the_record_is_rewritten_and_keeps_what_did_not_run(tmp_path) -> None:
    path = tmp_path / "recorded.json"
    keys = ["paper/a", "paper/b", "paper/c"]
    rewrite([(report(name="b"), None), (report(name="a", holds=False), None)], keys, path)
    assert list(recorded(path)) == ["paper/a", "paper/b"]
    missing = [(report(name=name, run=raising(NotAtHand("x"))), None) for name in ("a", "c")]
    rewrite(missing, keys, path)
    assert recorded(path) == {
        "paper/a": Recorded("as printed", "fails", decided_by="It holds."),
        "paper/b": Recorded("as printed", "holds", decided_by="It holds."),
        "paper/c": Recorded("missing", None, 0),
    }


def test_a_statement_that_flips_with_other_seeds_is_too_small_to_say() -> None:
    one, other = report(), report(holds=False)
    assert verdict_of(one, one) == Recorded("as printed", "holds", 1, (), "It holds.")
    flipped = verdict_of(one, other)
    assert flipped == Recorded("as printed", "too small to say", 1, ("It holds.",), "It holds.")
    for came in (one, other):  # either is what the record expects
        assert change(came, {"paper/a": flipped}) == ""


def test_other_data_is_compared_only_where_the_same_was_at_hand() -> None:
    failed = {"paper/a": Recorded("other data", "fails", data=("features_clip",))}
    assert change(report(on="rows"), failed) == ""
    here = {"paper/a": Recorded("other data", "fails")}
    assert "'other data: fails'" in change(report(on="rows"), here)


def test_failures_disagreements_and_changes_are_complaints() -> None:
    record = {
        "paper/c": Recorded("as printed", "fails"),
        "paper/d": Recorded("as printed", "holds"),
    }
    reports = [
        report(name="a", run=raising(ZeroDivisionError("oh no"))),
        report(name="b", holds=False),
        report(name="c"),
        report(name="d"),
        report(name="e", holds=False, needs="trained"),  # not put to the test here alone
    ]
    assert complaints(reports, record) == [
        "paper/a failed: ZeroDivisionError: oh no",
        "paper/b disagrees. This did not hold: It holds.",
        "paper/c is on record as 'as printed: fails' and came out as 'as printed: holds'",
    ]


def test_every_entry_is_on_record() -> None:
    assert list(recorded()) == list(entries())


# Tables


def test_values_are_read_easily() -> None:
    said = [value_words(v) for v in (None, "n/a", 24_995_000, -1, 0.294, -1e-7, 1 / 3, True)]
    assert said == ["–", "n/a", "24,995,000", "−1", "0.294", "−1e-07", "0.33333", "yes"]


def test_one_entry_is_told_in_lines_that_end_with_the_verdict() -> None:
    *lines, verdict = report_lines(report(on="made-up rows", slips=("A slip.",)))
    assert lines == [
        "✓ It holds.",
        "On other data: made-up rows",
        "Slip in the paper: A slip.",
        "The paper's own needs more: A model is missing.",
    ]
    assert verdict.startswith("Verdict: other data: holds (fast setting, ")
    assert report_lines(report(run=raising(NotAtHand("No file.")))) == [
        "Missing: No file.",
        "Verdict: missing",
    ]


def test_the_page_has_a_line_per_entry_slips_and_what_is_missing(tmp_path) -> None:
    shown = make("fig1", draw=picture, slips=("A slip.",), on="rows | here")
    made, outcome = run_entry(shown, Setting())
    made = keep(shown, Setting(), made, outcome, tmp_path)
    others = [
        report(name="fig2", holds=False),
        report(name="fig3", run=raising(NotAtHand("Gone."))),
    ]
    record = {"paper/fig2": Recorded("as printed", "holds")}
    page, data = Page([made, *others], [PAPER], record, 0, tmp_path).write(tmp_path)
    text = page.read_text()
    assert "| [fig1](paper/fig1.png) | A claim. | nothing | gap 0.4; other n/a | gap 0.5 |" in text
    assert (
        "| fig2 | A claim. | nothing | gap 0.4; other n/a | gap 0.5 | **as printed: fails** |"
        in text
    )
    assert "- paper/fig1: A slip." in text
    assert "- paper/fig1: rows | here" in text
    assert "- paper/fig2: ✗ It holds." in text
    assert "- paper/fig3: Gone." in text
    assert "is on record as 'as printed: holds'" in text
    assert "3 entries. As printed: fails 1; other data: holds 1; missing 1." in text
    written = json.loads(data.read_text())
    assert [entry["key"] for entry in written["entries"]] == [
        "paper/fig1",
        "paper/fig2",
        "paper/fig3",
    ]
    assert len(written["changes"]) == 1


def test_a_long_table_is_cut_short_on_the_page() -> None:
    came = report(published={f"cell {k}": float(k) for k in range(50)})
    text = Page([came], [PAPER], {}, 0, Path(".")).markdown(Path("."))
    assert "44 more in the JSON" in text


def test_a_part_of_a_figure_means_the_figure():
    [entry] = select(["liang2022/fig2b"])
    assert entry.key == "liang2022/fig2"
