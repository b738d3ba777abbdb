from __future__ import annotations

import base64
import io

import numpy as np
import pytest
from PIL import Image

from modgap._validate import InputValueError
from modgap.reports.thumbnails import data_uri, from_folder, from_pixels, media_type, png


@pytest.fixture
def folder(tmp_path):
    home = tmp_path / "images"
    (home / "inner").mkdir(parents=True)
    for name in ("a.jpg", "inner/b.png", "wide.webp"):
        Image.new("RGB", (400, 200), (200, 30, 40)).save(home / name)
    (home / "broken.jpg").write_bytes(b"\xff\xd8\xff not a picture")
    (home / "page.png").write_text("<script>alert(1)</script>")
    Image.new("RGB", (9, 9)).save(tmp_path / "secret.png")
    (home / "link.png").symlink_to(tmp_path / "secret.png")
    (home / "loop.png").symlink_to(home / "loop.png")
    return home


@pytest.mark.parametrize("shape", [(5, 7), (5, 7, 3)])
def test_png_holds_the_very_pixels(rng, shape):
    pixels = rng.integers(0, 256, shape).astype(np.uint8)
    read = np.asarray(Image.open(io.BytesIO(png(pixels))))
    np.testing.assert_array_equal(read, pixels)


def test_pixels_beyond_the_range_are_cut(rng):
    picture = from_pixels(np.array([[[-5.0, 300.0]]]))(0)
    np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(picture))), [[0, 255]])


def test_files_are_found_by_name_with_or_without_suffix_and_made_small(folder):
    thumbnail = from_folder(folder, ["a.jpg", "a", "inner/b.png", "wide"])
    for row in range(4):
        picture = thumbnail(row)
        assert media_type(picture) == "image/jpeg"
        assert max(Image.open(io.BytesIO(picture)).size) == 72


@pytest.mark.parametrize(
    "name",
    [
        "missing.jpg",
        "broken.jpg",
        "page.png",
        "",
        ".",
        "inner",
        "../secret.png",
        "inner/../../secret.png",
        "link.png",
        "loop.png",
        "a\x00.jpg",
        "x" * 5000,
        "..\\secret.png",
        "%2e%2e/secret.png",
        None,
    ],
)
def test_what_is_missing_broken_or_outside_has_no_picture(folder, name):
    assert from_folder(folder, [name])(0) is None


def test_an_absolute_path_outside_has_no_picture(folder):
    assert from_folder(folder, [str(folder.parent / "secret.png")])(0) is None
    assert from_folder(folder, [str(folder / "a.jpg")])(0) is not None


def test_a_picture_of_too_many_pixels_is_left_out(folder):
    header = Image.new("1", (20_000, 20_000))
    header.save(folder / "bomb.png")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Image, "MAX_IMAGE_PIXELS", None)
        assert from_folder(folder, ["bomb.png"])(0) is None


def test_data_uri_holds_the_picture():
    picture = png(np.zeros((2, 2), dtype=np.uint8))
    head, _, body = data_uri(picture).partition(",")
    assert head == "data:image/png;base64"
    assert base64.b64decode(body) == picture
    assert data_uri(None) is None


def test_only_png_and_jpeg_are_taken():
    with pytest.raises(InputValueError, match="PNG or a JPEG"):
        data_uri(b"<svg onload=alert(1)>")


def test_a_file_is_no_folder_and_a_wrong_shape_no_picture(folder):
    with pytest.raises(InputValueError, match="takes a folder"):
        from_folder(folder / "a.jpg", [])
    with pytest.raises(InputValueError, match="images must be of shape"):
        from_pixels(np.zeros((3, 4)))
