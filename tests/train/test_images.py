"""Pixels: decoded in order whatever the workers, damaged ones named, augmented by a seed."""

from __future__ import annotations

import io
import os
import struct
import zlib
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from modgap.core.checks import InputTypeError, InputValueError
from modgap.io import Items, open_items
from modgap.io.images import ImageError
from modgap.io.items import Item

torch = pytest.importorskip("torch", reason="torch is not installed")
Image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")

from modgap.train.images import (  # noqa: E402 - only where torch is installed
    Augment,
    decode,
    decode_image,
)
from modgap.train.towers.config import CLIP_MEAN, CLIP_STD  # noqa: E402

BESIDE = Path(__file__).parents[3] / "shared" / "data" / "flickr8k" / "flickr8k-112.parquet"
FLICKR8K = Path(os.environ.get("MODGAP_FLICKR8K", BESIDE))


def stored(pixels: np.ndarray, kind: str = "PNG", **options: object) -> bytes:
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, kind, **options)
    return out.getvalue()


def smooth(height: int, width: int, seed: int = 0) -> np.ndarray:
    """A picture without hard edges, in colour."""
    coarse = np.random.default_rng(seed).integers(0, 256, (4, 4, 3), dtype=np.uint8)
    return np.asarray(Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC))


def captioned(images: list[bytes]) -> Items:
    rows = [
        Item(f"{place}.png", ("x",), None, partial(bytes, image))
        for place, image in enumerate(images)
    ]
    return Items("test images", rows)


def bomb(width: int, height: int) -> bytes:
    """A small PNG whose header promises any number of pixels."""
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(b"\0" * 100)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )


def test_an_image_of_the_right_size_keeps_its_pixels():
    pixels = smooth(16, 16)
    np.testing.assert_array_equal(decode_image(stored(pixels), 16), pixels.transpose(2, 0, 1))


@pytest.mark.parametrize(("height", "width"), [(40, 61), (61, 40), (33, 33), (17, 90), (20, 24)])
@pytest.mark.parametrize("size", [24, 32])
def test_decoding_is_what_clips_image_processor_does(height, width, size):
    module = pytest.importorskip("transformers.models.clip.image_processing_pil_clip")
    processor = module.CLIPImageProcessorPil(
        size={"shortest_edge": size},
        crop_size={"height": size, "width": size},
        do_rescale=False,
        do_normalize=False,
    )
    pixels = smooth(height, width)
    expected = processor(Image.fromarray(pixels))["pixel_values"][0]
    difference = decode_image(stored(pixels), size) - np.asarray(expected, dtype=int)
    # Rounding: Pillow may scale one direction before the other.
    assert abs(difference).max() <= 2
    assert abs(difference).mean() < 0.2


def test_a_large_jpeg_is_unpacked_small_and_looks_the_same():
    pixels = smooth(640, 800)
    by_draft = decode_image(stored(pixels, "JPEG", quality=95), 32).astype(int)
    whole = decode_image(stored(pixels), 32).astype(int)
    assert abs(by_draft - whole).mean() < 2


def test_a_very_long_image_needs_no_huge_copy():
    pixels = np.full((1, 60_000, 3), 200, dtype=np.uint8)
    assert (decode_image(stored(pixels), 64) == 200).all()


@pytest.mark.parametrize("mode", ["L", "RGBA", "LA", "P", "CMYK", "1", "I;16", "PA"])
def test_every_kind_of_pixel_becomes_colour(mode):
    if mode == "I;16":
        image = Image.fromarray(np.full((8, 8), 200 * 256, dtype=np.uint16))
        options = {}
    elif mode == "PA":  # a palette whose transparency is bytes
        image = Image.fromarray(np.full((8, 8), 200, dtype=np.uint8)).convert("P")
        options = {"transparency": b"\x80" * 256}
    else:
        # From grey, a palette holds every shade; from colour it would be mixed of few.
        shades = np.full((8, 8) if mode == "P" else (8, 8, 3), 200, dtype=np.uint8)
        image = Image.fromarray(shades).convert(mode)
        options = {}
    out = io.BytesIO()
    image.save(out, "TIFF" if mode == "CMYK" else "PNG", **options)
    colour = decode_image(out.getvalue(), 8)
    assert colour.shape == (3, 8, 8)
    assert colour.dtype == np.uint8
    if mode != "1":  # black and white has no 200
        assert abs(colour.astype(int) - 200).max() <= 2


def test_order_and_pixels_do_not_depend_on_the_number_of_workers():
    data = captioned([stored(smooth(20 + i % 7, 20 + i % 5, seed=i)) for i in range(60)])
    one = decode(data, 12, workers=1)
    assert one.pixels.shape == (60, 3, 12, 12)
    assert one.rows == tuple(range(60))
    for row in (0, 31, 59):
        np.testing.assert_array_equal(one.pixels[row], decode_image(data.stored(row), 12))
    for workers in (2, 7, None):
        assert torch.equal(decode(data, 12, workers).pixels, one.pixels)


def test_corrupt_images_are_counted_named_and_skipped():
    images = [stored(smooth(10, 10, seed=i)) for i in range(20)]
    images[3] = images[3][:60]
    images[11] = b"no image"
    images[17] = bomb(30_000, 30_000)
    data = captioned(images)
    seen = []
    decoded = decode(data, 8, 3, max_corrupt=0.2, progress=lambda *done: seen.append(done))
    assert list(decoded.skipped) == ["3.png", "11.png", "17.png"]
    assert "damaged, or none of" in decoded.skipped["11.png"]
    assert decoded.rows == tuple(i for i in range(20) if i not in (3, 11, 17))
    for place, row in enumerate(decoded.rows):
        np.testing.assert_array_equal(decoded.pixels[place], decode_image(images[row], 8))
    assert seen == [("decoding images", i + 1, 20) for i in range(20)]


def test_too_many_corrupt_images_stop_the_run():
    images = [stored(smooth(10, 10))] * 200
    images[5] = images[9] = b"no image"
    assert len(decode(captioned(images), 8, 2).rows) == 198  # just 1 %
    images[100] = b"no image"
    with pytest.raises(InputValueError, match=r"3 of the first 101 are: 5\.png \(.*; 9\.png"):
        decode(captioned(images), 8, 2)
    with pytest.raises(InputValueError, match="None of the 2 images"):
        decode(captioned([b"no", b"image"]), 8, max_corrupt=1)


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
@pytest.mark.parametrize("side", [9_100, 9_800, 60_000])
def test_decompression_bombs_are_refused_unopened(side):
    # Pillow refuses by itself above twice its limit.
    said = "DecompressionBombError" if side == 60_000 else "more than 80 million"
    with pytest.raises(ImageError, match=said):
        decode_image(bomb(side, side), 8)


def test_missing_files_are_skipped_like_corrupt_ones(tmp_path):
    (tmp_path / "a.png").write_bytes(stored(smooth(10, 10)))
    (tmp_path / "c.csv").write_text("image,caption\na.png,x\nb.png,x\n")
    decoded = decode(open_items(tmp_path), 8, max_corrupt=0.5)
    assert "no such file" in decoded.skipped["b.png"]


def test_a_damaged_container_stops_the_run_instead_of_losing_images(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = tmp_path / "t.parquet"
    image = stored(smooth(10, 10))
    pq.write_table(pa.table({"captions": [["a"]] * 4, "image": [image] * 4}), path)
    data = open_items(path)
    os.truncate(path, 10)
    with pytest.raises(InputValueError, match=r"t\.parquet changed while it was read"):
        decode(data, 8, 2, max_corrupt=1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": 0}, "size must be at least 1"),
        ({"size": 8, "max_corrupt": 2}, "max_corrupt must be a share"),
        ({"size": 8, "workers": -1}, "workers must be at least 1"),
    ],
)
def test_decode_refuses_what_it_cannot_do(options, message):
    with pytest.raises(InputValueError, match=message):
        decode(captioned([stored(smooth(8, 8))]), **options)


def batch(n: int = 6, side: int = 20, seed: int = 0) -> torch.Tensor:
    pictures = [smooth(side, side, seed + i).transpose(2, 0, 1) for i in range(n)]
    return torch.from_numpy(np.stack(pictures))


def normalised(pixels: torch.Tensor) -> torch.Tensor:
    mean, std = (torch.tensor(v)[:, None, None] for v in (CLIP_MEAN, CLIP_STD))
    return (pixels.float() / 255 - mean) / std


@pytest.mark.parametrize(
    ("augment", "change", "off"),
    [
        (Augment(20).eval(), lambda pixels: pixels, 1e-6),
        (Augment(20, scale=(1, 1), ratio=(1, 1), flip=0), lambda pixels: pixels, 1e-4),
        (Augment(20, scale=(1, 1), ratio=(1, 1), flip=1), lambda pixels: pixels.flip(3), 1e-4),
    ],
    ids=["evaluation only normalises", "the whole image is the image", "a flip mirrors it"],
)
def test_whole_images_keep_their_pixels(augment, change, off):
    pixels = batch()
    torch.testing.assert_close(augment(pixels), normalised(change(pixels)), atol=off, rtol=0)


def test_evaluation_scales_without_moving_or_aliasing():
    place = torch.arange(40.0)[None, :] * 4 + torch.arange(40.0)[:, None] * 2
    pixels = place.to(torch.uint8).expand(2, 3, 40, 40).clone()
    pixels[1] = 255 * (torch.arange(40) % 2)  # stripes, finer than the result can show
    smaller = Augment(10).eval()(pixels)
    assert smaller.shape == (2, 3, 10, 10)
    ramp = normalised(pixels[:1]).reshape(1, 3, 10, 4, 10, 4).mean((3, 5))
    inner = slice(1, -1)  # at the edges half of what is averaged lies outside
    torch.testing.assert_close(smaller[:1, :, inner, inner], ramp[..., inner, inner])
    stripes = smaller[1, :, inner, inner]
    assert (stripes.amax((1, 2)) - stripes.amin((1, 2)) < 0.1).all()


def test_a_crop_is_the_part_of_the_image_its_map_says():
    # Brightness is the place: 10 per column, 3 per row.
    place = 10 * torch.arange(20.0)[None, :] + 3 * torch.arange(20.0)[:, None]
    pixels = place.to(torch.uint8).expand(8, 3, 20, 20)
    augment = Augment(20, scale=(0.3, 0.6), flip=0.5)
    generator = torch.Generator().manual_seed(2)
    theta = augment.draw(8, torch.Generator().manual_seed(2))
    out = augment(pixels, generator)
    steps = (torch.arange(20) + 0.5) / 10 - 1
    for image, ((width, _, x), (_, height, y)) in zip(out, theta.tolist(), strict=True):
        column = ((width * steps + x + 1) * 10 - 0.5).clamp(0, 19)
        row = ((height * steps + y + 1) * 10 - 0.5).clamp(0, 19)
        expected = 10 * column[None, :] + 3 * row[:, None]
        torch.testing.assert_close(image, normalised(expected.expand(3, 20, 20)), atol=1e-4, rtol=0)


def test_crops_stay_inside_and_cover_the_asked_share():
    theta = Augment(8, scale=(0.2, 0.7)).draw(4000, torch.Generator().manual_seed(0))
    width, height = theta[:, 0, 0].abs(), theta[:, 1, 1]
    area, ratio = width * height, width / height
    for values, low, high in (
        (theta[:, 0, 2].abs() + width, 0, 1),
        (theta[:, 1, 2].abs() + height, 0, 1),
        (area, 0.2, 0.7),
        (ratio, 3 / 4, 4 / 3),
    ):
        assert low - 1e-6 <= values.min() <= values.max() <= high + 1e-6
    assert area.mean() == pytest.approx(0.45, abs=0.01)
    assert (theta[:, 0, 0] < 0).float().mean() == pytest.approx(0.5, abs=0.03)


def test_a_proportion_that_never_fits_gives_the_whole_image():
    theta = Augment(8, scale=(1, 1), ratio=(2, 3), flip=0).draw(5)
    assert torch.equal(theta, torch.tensor([[1.0, 0, 0], [0, 1, 0]]).expand(5, 2, 3))


def test_the_generator_fixes_the_crops_and_leaves_the_global_one_alone():
    augment, pixels = Augment(16), batch()
    torch.manual_seed(1)
    expected = torch.rand(2)
    torch.manual_seed(1)
    first, again, other = (augment(pixels, torch.Generator().manual_seed(s)) for s in (4, 4, 5))
    assert torch.equal(torch.rand(2), expected)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_a_gpu_sees_the_same_crops():
    pixels = batch()
    here, there = (
        Augment(16).to(device)(pixels.to(device), torch.Generator().manual_seed(4)).cpu()
        for device in ("cpu", "cuda")
    )
    torch.testing.assert_close(here, there, atol=1e-3, rtol=0)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: Augment(8)(batch()[0]), r"\(n, 3, size, size\), got \(3, 20, 20\)"),
        (lambda: Augment(8)(batch().float()), "must be bytes"),
        (lambda: Augment(8, scale=(0.5, 1.5)), "scale must be"),
        (lambda: Augment(8, ratio=(2, 1)), "ratio must be"),
        (lambda: Augment(8, flip=-1), "flip must be"),
    ],
)
def test_augmentation_refuses_what_it_cannot_do(call, said):
    with pytest.raises((InputValueError, InputTypeError), match=said):
        call()


@pytest.mark.skipif(not FLICKR8K.exists(), reason=f"Flickr8k is not at {FLICKR8K}")
def test_flickr8k_is_read_whole():
    data = open_items(FLICKR8K)
    assert data.splits() == {"train": 6000, "dev": 1000, "test": 1000}
    test = data.split("test")
    assert all(len(test.captions(row)) == 5 for row in range(len(test)))
    decoded = decode(test.select(range(64)), 112)
    assert decoded.pixels.shape == (64, 3, 112, 112)
    assert not decoded.skipped
    # Photographs have about the mean and deviation that CLIP was normalised by.
    rows = Augment(96).eval()(decoded.pixels)
    assert rows.mean().abs() < 0.2
    assert 0.8 < rows.std() < 1.2
