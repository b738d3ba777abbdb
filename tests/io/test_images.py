"""One reader for images from outside: known formats, within limits, and nothing else escapes."""

from __future__ import annotations

import io
import re
import struct
import tracemalloc
import warnings
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from modgap.io import images
from modgap.io.images import ImageError, ImageFolder, first_of, one_image, unpack_image

Image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")

ROOT = Path(__file__).parents[2]


def stored(kind="PNG", size=(40, 30), **options):
    out = io.BytesIO()
    Image.effect_mandelbrot(size, (-3, -2.5, 2, 2.5), 20).convert("RGB").save(out, kind, **options)
    return out.getvalue()


@pytest.mark.parametrize("kind", images.FORMATS)
def test_every_format_is_read_by_its_bytes(kind):
    assert unpack_image(stored(kind)).size == (40, 30)


@pytest.mark.parametrize("kind", ["AVIF", "JPEG2000", "ICO", "TGA", "PDF", "EPS", "PCX"])
def test_other_formats_are_refused_whatever_pillow_knows(kind):
    with pytest.raises(ImageError, match="damaged, or none of JPEG"):
        unpack_image(stored(kind))


def test_postscript_starts_no_program(monkeypatch):
    def started(*words, **_):
        raise AssertionError(f"{words} was started")

    for name in ("Popen", "run", "check_call", "check_output"):
        monkeypatch.setattr(f"subprocess.{name}", started)
    with pytest.raises(ImageError, match="damaged, or none of JPEG"):
        unpack_image(stored("EPS"))


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (MemoryError(), "not enough memory to unpack it"),
        (SystemError("tile cannot extend outside image"), "SystemError: tile cannot extend"),
        (struct.error("unpack requires 4 bytes"), "error: unpack requires 4 bytes"),
        (RecursionError("a\nb"), "^RecursionError: a$"),
        (KeyError(), "^KeyError$"),
        (ImageError("as it is"), "^as it is$"),
    ],
)
def test_whatever_fails_is_about_one_image(error, said):
    with pytest.raises(ImageError, match=said), one_image():
        raise error


def test_a_failure_after_opening_is_caught_too(monkeypatch):
    from modgap.reports.rows import shrink

    def fails(*_, **__):
        raise MemoryError

    whole = stored()
    for name in ("convert", "thumbnail", "save"):
        with monkeypatch.context() as patch:
            patch.setattr(Image.Image, name, fails)
            with pytest.raises(ImageError, match="not enough memory"):
                shrink(whole)


def test_an_interrupt_is_not_about_the_image():
    with pytest.raises(KeyboardInterrupt), one_image():
        raise KeyboardInterrupt


def test_a_jpeg_of_very_many_scans_is_refused():
    whole = stored("JPEG", progressive=True)
    last = whole.rindex(b"\xff\xda")
    scan = whole[last:-2]
    assert unpack_image(whole[:-2] + 20 * scan + whole[-2:]).size == (40, 30)
    with pytest.raises(ImageError, match=r"a JPEG of \d+ scans, more than the 100"):
        unpack_image(whole[:-2] + 200 * scan + whole[-2:])


def test_text_in_a_png_that_unpacks_to_much_is_refused():
    whole = stored()
    text = b"Comment\0\0" + zlib.compress(bytes(80_000_000), 1)
    chunk = struct.pack(">I", len(text)) + b"zTXt" + text
    chunk += struct.pack(">I", zlib.crc32(b"zTXt" + text))
    del text
    tracemalloc.start()
    try:
        with pytest.raises(ImageError):
            unpack_image(whole[:33] + chunk + whole[33:])
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()


def test_an_animation_is_its_first_picture():
    frames = [Image.new("RGB", (8, 8), (shade, 0, 0)) for shade in (200, 10, 20)]
    for kind, options in (("GIF", {}), ("WEBP", {"lossless": True}), ("PNG", {}), ("TIFF", {})):
        out = io.BytesIO()
        frames[0].save(out, kind, save_all=True, append_images=frames[1:], **options)
        assert unpack_image(out.getvalue()).getpixel((3, 3))[0] == 200


def test_a_file_that_is_too_large_is_not_read(tmp_path, monkeypatch):
    (tmp_path / "a.png").write_bytes(stored())
    monkeypatch.setattr(images, "MAX_BYTES", 100)
    with pytest.raises(ImageError, match="more than the 100 that are read"):
        ImageFolder(tmp_path).read("a.png")
    with pytest.raises(ImageError, match="more than the 100 that are read"):
        unpack_image(stored())


def test_pillow_does_not_warn_and_filters_are_as_before():
    cut = stored("TIFF", tiffinfo={305: "x" * 200})
    damaged = cut.replace(struct.pack("<I", 201), struct.pack("<I", 2**31))
    before = list(warnings.filters)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with Image.open(io.BytesIO(damaged)):
            assert said  # Pillow alone would warn
        said.clear()
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(unpack_image, [damaged] * 40))
        assert not said
    assert list(warnings.filters) == before


def test_a_sentence_names_the_first_and_no_endless_names():
    errors = [(f"{'x' * 500}{place}", "why") for place in range(1007)]
    said = first_of(errors)
    assert said.endswith("; and 1,002 more")
    assert len(said) < 700


def test_images_are_opened_in_one_place():
    opening = re.compile(r"\bImage\.open\(|import ImageFile|\.open\(.*formats")
    files = [*(ROOT / "src").rglob("*.py"), *(ROOT / "examples").rglob("*.py")]
    found = {file.name for file in files if opening.search(file.read_text(encoding="utf-8"))}
    assert found == {"images.py"}


def test_deep_pixels_are_scaled_within_their_own_memory():
    deep = np.full((500, 1000), 200 * 256, dtype=np.uint16)
    out = io.BytesIO()
    Image.fromarray(deep).save(out, "PNG")
    tracemalloc.start()
    try:
        assert unpack_image(out.getvalue(), mode="L").getpixel((5, 5)) == 200
        assert tracemalloc.get_traced_memory()[1] < 5 * deep.nbytes
    finally:
        tracemalloc.stop()
