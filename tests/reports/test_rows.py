from __future__ import annotations

import base64
import io
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from modgap.core.checks import InputValueError
from modgap.io import Modalities
from modgap.io.images import ImageError
from modgap.reports.rows import RowPictures, data_uri, from_images, from_pixels, media_type, png


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
    thumbnail = from_images(folder, ["a.jpg", "a", "inner/b.png", "wide"])
    for row in range(4):
        picture = thumbnail(row)
        assert media_type(picture) == "image/jpeg"
        assert max(Image.open(io.BytesIO(picture)).size) == 72


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("missing.jpg", "no such file"),
        ("broken.jpg", "damaged, or none of"),
        ("page.png", "damaged, or none of"),
        ("", "no such file"),
        (".", "no such file"),
        ("inner", "no such file"),
        ("../secret.png", "leads out"),
        ("inner/../../secret.png", "leads out"),
        ("link.png", "leads out"),
        ("loop.png", "cannot be read"),
        ("a\x00.jpg", "cannot be read"),
        ("x" * 5000, "cannot be read"),
        ("..\\secret.png", "no such file"),
        ("%2e%2e/secret.png", "no such file"),
    ],
    ids=lambda text: ascii(text)[:20],
)
def test_what_is_missing_broken_or_outside_says_why(folder, name, why):
    with pytest.raises(ImageError, match=why):
        from_images(folder, [name])(0)


def test_a_row_without_an_id_has_no_picture(folder):
    assert from_images(folder, [None])(0) is None


def test_a_damaged_file_is_passed_over_where_another_fits(folder):
    (folder / "a").write_bytes(b"no image")
    assert from_images(folder, ["a"])(0) is not None
    (folder / "a.jpg").write_bytes(b"\xff\xd8\xff no image either")
    with pytest.raises(ImageError, match="damaged, or none of JPEG"):
        from_images(folder, ["a"])(0)


def test_an_absolute_path_outside_has_no_picture(folder):
    with pytest.raises(ImageError, match="leads out"):
        from_images(folder, [str(folder.parent / "secret.png")])(0)
    assert from_images(folder, [str(folder / "a.jpg")])(0) is not None


def test_a_picture_of_too_many_pixels_is_left_out(folder):
    Image.new("1", (9_000, 9_000)).save(folder / "bomb.png")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Image, "MAX_IMAGE_PIXELS", None)
        with pytest.raises(ImageError, match="more than 80 million"):
            from_images(folder, ["bomb.png"])(0)


def test_pictures_that_fail_are_counted_named_and_left_out(rng):
    X = rng.normal(size=(6, 4))
    data = Modalities.of(X, X)

    def picture(row: int) -> bytes | None:
        if row == 2:
            raise OSError("the disk is gone")
        return {0: png(np.zeros((2, 2), np.uint8)), 1: b"<svg>", 3: None}.get(row, 5)

    pictures = RowPictures(replace(data, thumbnails={"image": picture}))
    shown = [pictures("image", row) for row in (0, 1, 2, 3, 4, 4)]
    assert [one is not None for one in shown] == [True] + 5 * [False]
    assert pictures("text", 0) is None
    assert pictures.sentence() == (
        "3 of 5 images could not be read: image 1 (A thumbnail must be a PNG or a JPEG); "
        "image 2 (OSError: the disk is gone); image 4 (A thumbnail must be a PNG or a JPEG)."
    )


def test_data_uri_holds_the_picture():
    picture = png(np.zeros((2, 2), dtype=np.uint8))
    head, _, body = data_uri(picture).partition(",")
    assert head == "data:image/png;base64"
    assert base64.b64decode(body) == picture
    assert data_uri(None) is None


@pytest.mark.parametrize("given", [b"<svg onload=alert(1)>", b"", "text", 5])
def test_only_png_and_jpeg_are_taken(given):
    with pytest.raises(ImageError, match="PNG or a JPEG"):
        data_uri(given)


def test_items_of_a_table_and_of_a_parquet_file_are_found_by_name(folder, tmp_path):
    stored = (folder / "a.jpg").read_bytes()
    (tmp_path / "table" / "images").mkdir(parents=True)
    (tmp_path / "table" / "images" / "1.jpg").write_bytes(stored)
    (tmp_path / "table" / "t.csv").write_text("image,caption\n1.jpg,x\n")
    pq.write_table(pa.table({"image": [stored], "name": ["1.jpg"]}), tmp_path / "t.parquet")
    for images in (tmp_path / "table", tmp_path / "t.parquet"):
        picture = from_images(images, ["1.jpg", "2.jpg", None])
        assert media_type(picture(0)) == "image/jpeg"
        with pytest.raises(ImageError, match=r"no such file|has no '2.jpg'"):
            picture(1)
        assert picture(2) is None


def test_an_image_is_no_folder_and_a_wrong_shape_no_picture(folder):
    with pytest.raises(InputValueError, match=r"must end in .*, or be a folder"):
        from_images(folder / "a.jpg", [])
    with pytest.raises(InputValueError, match="images must be of shape"):
        from_pixels(np.zeros((3, 4)))
