"""An embedded folder does not choose what is read from this machine."""

from __future__ import annotations

import json

import pytest

from modgap.embed import embed
from modgap.embed.interpolation import open_image_bank
from modgap.io import open_pair
from modgap.io.images import ImageError
from modgap.reports import from_images
from photos import make_model, make_photos


@pytest.fixture
def rows(tmp_path):
    make_photos(tmp_path / "photos", 3)
    embed(make_model(), tmp_path / "photos", tmp_path / "rows")
    return tmp_path / "rows"


def say(folder, **settings):
    note = folder / "embed.json"
    note.write_text(json.dumps({**json.loads(note.read_text()), **settings}))


def test_images_elsewhere_are_shown_only_where_they_are_named(rows):
    data = open_pair(rows)
    assert not data.thumbnails
    assert from_images(rows.parent / "photos", data.sides["image"].ids)(0)
    with pytest.raises(ImageError, match="name the images with --images"):
        open_image_bank(rows).image(0)
    assert open_image_bank(rows, rows.parent / "photos").image(0)


def test_images_inside_the_folder_are_its_own(rows):
    say(rows, source=str(make_photos(rows / "photos", 3)))
    assert open_pair(rows).thumbnails["image"](0)
    assert open_image_bank(rows).image(0)


@pytest.mark.parametrize("name", ["source", "images"])
def test_both_places_must_be_inside(rows, name):
    inside, private = make_photos(rows / "photos", 3), make_photos(rows.parent / "private", 3)
    say(rows, **{"source": str(inside), "images": str(inside), name: str(private)})
    assert not open_pair(rows).thumbnails
    assert open_image_bank(rows).items is None


def test_a_link_inside_that_leads_out_is_not_followed(rows):
    (rows / "photos").symlink_to(rows.parent / "photos")
    say(rows, source=str(rows / "photos"))
    assert not open_pair(rows).thumbnails


@pytest.mark.parametrize("source", [5, None, ["a"], "a\0b", "x" * 5000])
def test_a_source_that_is_no_path_is_left_alone(rows, source):
    say(rows, source=source)
    assert not open_pair(rows).thumbnails


def test_a_source_that_cannot_be_opened_costs_its_pictures_alone(rows):
    (rows / "photos").mkdir()
    say(rows, source=str(rows / "photos"))
    with pytest.raises(ImageError, match="nothing of it is there"):
        open_pair(rows).thumbnails["image"](0)
