"""``modgap drift``: every way to give rows, the table and JSON, exit statuses."""

from __future__ import annotations

import re

import numpy as np
import pytest

from command_line import modgap, refuse, succeed
from modgap import GapMonitor
from streams import SPREADS, stream


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(5)
    gap = 2 * np.eye(12)[0]
    for day, move in (("then", 0.0), ("same", 0.0), ("moved", 1.5)):
        np.save(f"{day}-image.npy", stream(rng, 600, mean=1 + gap))
        np.save(f"{day}-text.npy", stream(rng, 600) + move * SPREADS)
        np.savez(f"{day}.npz", image=np.load(f"{day}-image.npy"), text=np.load(f"{day}-text.npy"))
    return tmp_path


def test_drift_is_shown_as_a_table_and_sentences(folder):
    assert modgap("fit", "then-image.npy", "then-text.npy").status == 0
    ran = succeed("drift", "then.npz", "moved.npz", "--correction", "correction.safetensors")
    assert "Drift of text (mean" in ran.out
    assert "The mean of text moved by" in ran.out
    assert "image–text" in ran.out
    assert "Calibrate(mode='keep')" in ran.out
    ran = modgap("drift", "then.npz", "same.npz", "--correction", "correction.safetensors")
    assert "No significant drift." in ran.out
    assert "still fits" in ran.out


def test_rows_of_another_model_are_named_in_the_first_sentence(folder):
    def said(now):
        ran = succeed("drift", "then.npz", now)
        return " ".join(ran.out.split())

    turned = np.linalg.qr(np.random.default_rng(0).normal(size=(12, 12)))[0]
    np.savez(
        "other.npz", **{name: np.load(f"same-{name}.npy") @ turned for name in ("image", "text")}
    )
    first, second = "Rows are of another model: on a scale from 0", "Drift of image"
    assert re.search(rf"{first}.*they are image at .* and text at .*{second}", said("other.npz"))
    assert "model:" not in said("moved.npz")
    assert "model:" not in said("same.npz")


def test_the_very_same_rows_moved_in_no_direction(folder):
    found = modgap("drift", "then.npz", "then.npz", "--json").json["streams"]
    assert [(s["mean_shift"], s["shape_distance"], s["direction_ratio"]) for s in found] == [
        (0.0, 0.0, 1.0)
    ] * 2


def test_json_has_its_schema_and_the_same_numbers(folder):
    said = modgap("drift", "then.npz", "moved.npz", "--json").json
    assert said["schema"] == "modgap/drift/2"
    assert said["drifted"] is True
    assert [s["name"] for s in said["streams"]] == ["image", "text"]
    assert said["streams"][1]["moved"][0] == "mean"
    assert said["corrections"] == []


def test_cron_can_be_told_by_the_exit_status(folder):
    assert modgap("drift", "then.npz", "moved.npz").status == 0
    assert modgap("drift", "then.npz", "moved.npz", "--fail-on-drift").status == 1
    assert modgap("drift", "then.npz", "same.npz", "--fail-on-drift").status == 0
    assert modgap("drift", "then.npz", "none.npz", "--fail-on-drift").status == 2


def test_rows_may_be_given_in_every_way(folder):
    expected = modgap("drift", "then.npz", "moved.npz", "--json").json["streams"]
    ways = [
        ("then-image.npy,then-text.npy", "moved-image.npy,moved-text.npy"),
        ("image=then-image.npy,text=then-text.npy", "text=moved-text.npy,image=moved-image.npy"),
    ]
    for a, b in ways:
        found = modgap("drift", a, b, "--json").json["streams"]
        assert {s["name"]: s for s in found} == {s["name"]: s for s in expected}
    assert (
        modgap("measure", "then.npz", "--unpaired", "--save-moments", "m.safetensors").status == 0
    )
    assert modgap("drift", "m.safetensors", "moved.npz", "--json").json["streams"] == expected
    monitor = GapMonitor("then.npz")
    monitor.add("text queries", np.load("moved-text.npy"))
    monitor.save("monitor.safetensors")
    (found,) = modgap("drift", "then.npz", "monitor.safetensors", "--json").json["streams"]
    assert (found["name"], found["compared_with"]) == ("text queries", "text")
    (one,) = modgap("drift", "then-text.npy", "moved-text.npy", "--json").json["streams"]
    assert one["name"] == "rows"
    (one,) = modgap("drift", "text=then-text.npy", "text queries=moved-text.npy", "--json").json[
        "streams"
    ]
    assert one["name"] == "text queries"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["then.npz", "none.npy"], "There is no file or folder 'none.npy'"),
        (["then.npz", "image=same-image.npy,same-text.npy"], "A set of rows is one path, two"),
        (["then.npz", "a.npy,b.npy,c.npy"], "A set of rows is one path, two"),
        (["then.npz", "text=same-text.npy,text=same-text.npy"], "names text twice"),
        (["text=then-text.npy", "sound=same-text.npy"], "There is nothing to compare"),
        (["then.npz", "same.npz", "--correction", "none.safetensors"], "none.safetensors"),
    ],
)
def test_what_cannot_be_used_is_one_sentence(folder, words, said):
    told = refuse("drift", *words)
    assert said in told
    assert len(told.strip().splitlines()) == 1


def test_a_monitor_without_rows_is_one_sentence_and_no_table(folder):
    GapMonitor("then.npz").save("monitor.safetensors")
    lines = modgap("drift", "then.npz", "monitor.safetensors").out.splitlines()
    assert lines[0] == "There are no rows yet."
    assert len(lines) == 2


def test_moments_are_not_written_over_a_folder(folder):
    (folder / "there").mkdir()
    said = refuse("measure", "then.npz", "--save-moments", "there")
    assert "there is a folder" in said
