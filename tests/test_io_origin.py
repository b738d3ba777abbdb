"""An embedded folder of someone else does not choose what is read from this machine."""

from __future__ import annotations

import json

import pytest

from modgap._validate import InputError
from modgap.embed import embed
from modgap.embed.bank import open_bank
from modgap.io import open_pair
from test_embed_folder import make_model, make_photos


@pytest.fixture
def rows(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    make_photos(tmp_path / "photos", 3)
    embed(make_model(), tmp_path / "photos", tmp_path / "rows")
    return tmp_path / "rows"


def say(folder, **settings):
    note = folder / "embed.json"
    note.write_text(json.dumps({**json.loads(note.read_text()), **settings}))


def test_ones_own_folder_shows_its_images(rows):
    assert open_pair(rows).thumbnails["image"](0)
    assert open_bank(rows).image(0)
    key = rows.parent / "state" / "modgap" / "embed.key"
    assert key.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("mark", ["0" * 64, None, 5, ["x"], "é"])
def test_a_folder_with_another_mark_shows_none(rows, mark):
    say(rows, mark=mark)
    assert not open_pair(rows).thumbnails
    with pytest.raises(InputError, match=r"you did not embed it here\. Name them with --images"):
        open_bank(rows)
    assert open_bank(rows, rows.parent / "photos").image(0)


@pytest.mark.parametrize("name", ["source", "images"])
def test_a_mark_is_of_the_place_that_was_embedded(rows, name):
    private = make_photos(rows.parent / "private", 3)
    say(rows, **{name: str(private)})
    assert not open_pair(rows).thumbnails


def test_another_users_folder_is_not_followed(rows, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "other"))
    assert not open_pair(rows).thumbnails


def test_images_inside_the_folder_are_its_own(rows, tmp_path, monkeypatch):
    inside = make_photos(rows / "photos", 3)
    say(rows, source=str(inside), mark=None)
    assert open_pair(rows).thumbnails["image"](0)


@pytest.mark.parametrize("source", [5, None, ["a"], "a\0b", "x" * 5000])
def test_a_source_that_is_no_path_is_left_alone(rows, source):
    say(rows, source=source)
    assert not open_pair(rows).thumbnails
