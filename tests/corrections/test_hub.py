"""Corrections in folders and on a hub: what was pushed comes back, and nothing else is opened."""

from __future__ import annotations

import pickle
import socket

import numpy as np
import pytest

from command_line import python
from hub_server import call_instead, own_hub
from modgap import Calibrate, Correction, diagnose, evaluate_correction
from modgap.core.checks import InputValueError
from modgap.core.results import text_table
from modgap.corrections import ExpectedWrong, NoCardWarning, open_preset
from modgap.corrections.files import correction_bytes
from modgap.corrections.fingerprints import fingerprint

FILE = "correction.safetensors"
NOWHERE = "0" * 40


@pytest.fixture(scope="module")
def pairs():
    rng = np.random.default_rng(0)
    topic = rng.normal(size=(600, 8))
    return tuple(topic + 0.3 * rng.normal(size=topic.shape) + 3 * side for side in (1, -1))


@pytest.fixture(scope="module")
def correction(pairs):
    return Calibrate().fit(*pairs).correction_


@pytest.fixture
def hub(monkeypatch, tmp_path):
    with own_hub(monkeypatch, tmp_path / "cache") as server:
        yield server


def test_a_preset_comes_by_its_name_without_the_library_of_the_hub():
    name = "modgap/clip-vit-b-32-captions"
    code = (
        "import sys; sys.modules['huggingface_hub'] = None\n"
        f"import modgap; print(modgap.Correction.from_pretrained({name!r}).about['preset'])"
    )
    assert python(code).strip() == "clip-vit-b-32-captions"
    with pytest.raises(InputValueError, match="ships with modgap, and has no revisions"):
        Correction.from_pretrained(name, revision=NOWHERE)


def test_a_folder_holds_the_correction_and_a_card_that_says_what_it_is(tmp_path, pairs, correction):
    diagnosis = diagnose(*pairs)
    place = tmp_path / "ours"
    for _ in range(2):  # written again, it is replaced
        correction.save_pretrained(
            place, judged=diagnosis, model="CLIP ViT-B/32", data="600 made-up\npairs", licence="mit"
        )
    assert sorted(path.name for path in place.iterdir()) == ["README.md", FILE]
    again = Correction.from_pretrained(place)
    assert fingerprint(again) == fingerprint(correction)
    card = (place / "README.md").read_text(encoding="utf-8")
    head, body = card.removeprefix("---\n").split("\n---\n")
    assert head.splitlines()[:2] == ["library_name: modgap", "license: mit"]
    for said in (
        "- **Model**: CLIP ViT-B/32\n",
        "- **Data**: 600 made-up pairs; 600 image rows, 600 text rows\n",
        str(correction),
        str(diagnosis).strip(),
        "Correction.from_pretrained('ours')",
    ):
        assert said in body
    evaluation = evaluate_correction(*pairs, correction)
    correction.save_pretrained(place, judged=evaluation)
    card = (place / "README.md").read_text(encoding="utf-8")
    assert f"```\n{evaluation}\n\n{text_table(*evaluation.table())}\n```" in card
    correction.save_pretrained(tmp_path / "plain")
    plain = (tmp_path / "plain" / "README.md").read_text(encoding="utf-8")
    assert "Nobody has judged it" in plain
    assert "license" not in plain


def test_the_card_of_a_preset_says_its_model_and_data(tmp_path):
    open_preset("clip-vit-b-32-captions").save_pretrained(tmp_path / "one")
    card = (tmp_path / "one" / "README.md").read_text(encoding="utf-8")
    assert "- **Model**: CLIP ViT-B/32\n" in card
    assert "- **Data**: 500 photos of Unsplash and their captions; 500 image rows" in card


def test_what_is_pushed_comes_back_at_its_commit_and_stays_when_another_is_pushed(
    hub, correction, pairs
):
    first = correction.push_to_hub("me/ours", judged="A good one.", model="CLIP")
    other = Calibrate(mode="mixed").fit(*pairs).correction_
    second = other.push_to_hub("me/ours")
    assert first != second
    for commit, wanted in ((first, correction), (second, other)):
        found = Correction.from_pretrained("me/ours", revision=commit)
        assert fingerprint(found) == fingerprint(wanted)
        assert found.about["hub"] == {"name": "me/ours", "revision": commit}
        rows = pairs[0][:5]
        np.testing.assert_array_equal(found.apply(rows, "image"), wanted.apply(rows, "image"))
    files = hub.repositories["me/ours"][first]
    assert sorted(files) == [".gitattributes", "README.md", FILE]
    assert b"A good one." in files["README.md"]
    # The same once more changes nothing.
    assert correction.push_to_hub("me/ours", judged="A good one.", model="CLIP")


def test_a_commit_must_be_named_and_comes_from_the_cache_afterwards(hub, correction):
    commit = correction.push_to_hub("me/ours")
    with pytest.raises(InputValueError, match=f"revision='{commit}' is the newest"):
        Correction.from_pretrained("me/ours")
    with pytest.raises(InputValueError, match=f"revision='{commit}' is main"):
        Correction.from_pretrained("me/ours", revision="main")
    Correction.from_pretrained("me/ours", revision=commit)
    hub.asked.clear()
    Correction.from_pretrained("me/ours", revision=commit)
    assert hub.asked == []


def test_only_the_correction_and_the_card_are_asked_for(hub, correction):
    evil = pickle.dumps(print)
    commit = hub.commit(
        "me/model",
        {FILE: correction_bytes(correction), "README.md": b"# A model", "model.pkl": evil,
         "modeling.py": b"raise SystemExit"},
    )  # fmt: skip
    found = Correction.from_pretrained("me/model", revision=commit)
    assert fingerprint(found) == fingerprint(correction)
    # Once a day huggingface_hub also asks for a list of its own, outside any repository.
    of_repository = {one.rpartition("/")[2] for one in hub.asked if "me/model" in one}
    assert of_repository == {FILE, "README.md"}


def test_no_card_is_warned_of(hub, tmp_path, correction):
    commit = hub.commit("me/bare", {FILE: correction_bytes(correction)})
    for _ in range(2):
        with pytest.warns(NoCardWarning, match=r"me/bare has no card \(README.md\)") as said:
            Correction.from_pretrained("me/bare", revision=commit)
        assert said[0].filename == __file__
    correction.save(tmp_path / FILE)
    with pytest.warns(NoCardWarning, match=r"has no card \(README.md\)") as said:
        Correction.from_pretrained(tmp_path)
    assert said[0].filename == __file__


def test_what_holds_no_correction_is_refused_and_pickles_are_named(hub, tmp_path, correction):
    evil = pickle.dumps(print)
    held = hub.commit("me/pickles", {"correction.pkl": evil, "README.md": b"# Mine"})
    with pytest.raises(InputValueError, match=r"correction\.pkl is a pickle, which can run code"):
        Correction.from_pretrained("me/pickles", revision=held)
    none = hub.commit("me/none", {"README.md": b"# Mine"})
    with pytest.raises(
        InputValueError, match=r"me/none holds no correction\.safetensors\. save_pre"
    ):
        Correction.from_pretrained("me/none", revision=none)
    disguised = hub.commit("me/disguised", {FILE: evil, "README.md": b"# Mine"})
    with pytest.raises(InputValueError, match="is not a correction"):
        Correction.from_pretrained("me/disguised", revision=disguised)
    (tmp_path / "weights.pt").write_bytes(evil)
    with pytest.raises(InputValueError, match=r"weights\.pt is a pickle"):
        Correction.from_pretrained(tmp_path)


@pytest.mark.parametrize(
    ("name", "revision", "said"),
    [
        ("me/nobody", NOWHERE, "has no repository me/nobody, or does not show it"),
        ("me/nobody", None, "has no repository me/nobody, or does not show it"),
        ("me/ours", NOWHERE, f"me/ours has no revision {NOWHERE}"),
        ("me/ours", "v2", "me/ours has no revision v2"),
        ("me/..", NOWHERE, r"The hub refuses me/\.\."),
        ("ours", None, "no folder ours, and a repository of the hub is named owner/name"),
        ("clip-vit-b-32-caption", None, "Did you mean 'clip-vit-b-32-captions'"),
        ("a/b/c", None, "There is no folder a/b/c"),
    ],
)
def test_what_is_not_there_is_said_in_a_sentence(hub, correction, name, revision, said):
    hub.commit("me/ours", {FILE: correction_bytes(correction), "README.md": b"# Mine"})
    with pytest.raises(InputValueError, match=said) as error:
        Correction.from_pretrained(name, revision=revision)
    assert "\n" not in str(error.value)


def test_a_hub_that_cannot_be_reached_is_said_in_a_sentence(hub, monkeypatch, correction):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
    call_instead(monkeypatch, url)
    monkeypatch.setattr("time.sleep", lambda seconds: None)  # between attempts to reach it
    reached = "The hub cannot be reached, and me/ours"
    with pytest.raises(InputValueError, match=f"{reached} at {NOWHERE} is not in its cache"):
        Correction.from_pretrained("me/ours", revision=NOWHERE)
    with pytest.raises(InputValueError, match=reached):
        Correction.from_pretrained("me/ours")
    with pytest.raises(InputValueError, match="The hub cannot be reached"):
        correction.push_to_hub("me/ours")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(InputValueError, match=reached):
        Correction.from_pretrained("me/ours", revision=NOWHERE)


def test_what_may_not_be_written_is_said_in_a_sentence(hub, tmp_path, correction, pairs):
    hub.may_write = False
    with pytest.raises(
        InputValueError, match=r"The hub refuses me/ours: .* hf auth login"
    ) as error:
        correction.push_to_hub("me/ours")
    assert "\n" not in str(error.value)
    with pytest.raises(InputValueError, match="is named owner/name, got 'ours'"):
        correction.push_to_hub("ours")
    (tmp_path / "README.md").write_text("# My project")
    with pytest.raises(InputValueError, match="is not the card of a correction"):
        correction.save_pretrained(tmp_path)
    assert [path.name for path in tmp_path.glob("*.*")] == ["README.md"]
    (tmp_path / "file").write_text("")
    with pytest.raises(InputValueError, match=r"is a file\. Open it with Correction\.load"):
        Correction.from_pretrained(tmp_path / "file")
    with pytest.raises(InputValueError, match="is a file, where a folder is to be written"):
        correction.save_pretrained(tmp_path / "file")


def test_a_bank_of_queries_is_uploaded_only_where_that_is_said(hub, pairs):
    hubs = ExpectedWrong(hubs=0.25).fit(*pairs).correction_
    with pytest.raises(InputValueError, match="bank of queries, which others could read"):
        hubs.push_to_hub("me/hubs")
    assert hub.asked == []
    bare = hubs.push_to_hub("me/hubs", bank=False)
    assert Correction.from_pretrained("me/hubs", revision=bare).hubs.bank is None
    whole = hubs.push_to_hub("me/hubs", bank=True)
    assert Correction.from_pretrained("me/hubs", revision=whole).hubs.bank is not None


def test_without_the_library_the_extra_is_named():
    code = (
        "import sys; sys.modules['huggingface_hub'] = None\n"
        "import modgap\n"
        f"try: modgap.Correction.from_pretrained('me/ours', revision='{NOWHERE}')\n"
        "except ImportError as error: print(error)"
    )
    assert "pip install 'modgap[hub]'" in python(code)
