"""Sounds are unpacked safely, to one channel, at the rate that a model takes."""

from __future__ import annotations

import contextlib
import io

import numpy as np
import pytest

from item_files import tone, wav
from modgap.core.checks import MissingExtraError
from modgap.io import sounds
from modgap.io.sounds import SoundError, unpack_sound


@pytest.mark.parametrize(
    ("dtype", "scale", "offset", "error"),
    [
        (np.uint8, 128, 128, 1e-2),
        (np.int16, 2**15, 0, 1e-4),
        (np.int32, 2.0**31, 0, 1e-6),
        (np.float32, 1, 0, 0),
        (np.float64, 1, 0, 1e-7),
    ],
)
def test_every_kind_of_wav_gives_the_same_samples(dtype, scale, offset, error):
    samples = tone()
    found = unpack_sound(wav((samples.astype(np.float64) * scale + offset).astype(dtype)), 8000)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, samples, atol=error)


def test_channels_are_averaged():
    stereo = np.stack([tone(), np.zeros_like(tone())], axis=1)
    np.testing.assert_allclose(unpack_sound(wav(stereo), 8000), tone() / 2, atol=1e-7)


@pytest.mark.parametrize(("rate", "wanted"), [(8000, 48000), (44100, 48000), (48000, 16000)])
def test_a_tone_stays_a_tone_at_another_rate(rate, wanted):
    found = unpack_sound(wav(tone(rate), rate), wanted)
    expected = tone(wanted)
    assert len(found) == pytest.approx(len(expected), abs=1)
    middle = slice(wanted // 20, wanted // 5)  # the ends are smoothed
    np.testing.assert_allclose(found[middle], expected[middle], atol=2e-3)


@pytest.mark.parametrize(("kind", "error"), [("FLAC", 1e-4), ("OGG", 0.05), ("MP3", 0.05)])
def test_packed_sounds_are_read(kind, error):
    soundfile = pytest.importorskip("soundfile", reason="soundfile is not installed")
    if kind not in soundfile.available_formats():
        pytest.skip(f"this libsndfile has no {kind}")
    packed = io.BytesIO()
    soundfile.write(packed, tone(16000), 16000, format=kind)
    found = unpack_sound(packed.getvalue(), 16000)
    middle = slice(1000, 3000)
    assert np.sqrt(np.mean((found[middle] - tone(16000)[middle]) ** 2)) < error


def test_packed_sounds_name_the_extra_they_need(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "soundfile", None)
    with pytest.raises(MissingExtraError, match=r"modgap\[audio\]"):
        unpack_sound(b"fLaC....", 16000)
    with pytest.raises(SoundError):
        unpack_sound(b"RIFF....WAVE", 16000)


@pytest.mark.parametrize(
    ("stored", "message"),
    [
        (b"", "Error"),
        (b"not a sound at all", "Error"),
        (b"RIFF", "Error"),
        (wav(tone())[:30], "Error"),
        (wav(np.zeros(0, np.int16)), "no samples"),
        (wav(np.array([0, np.nan], np.float32)), "NaN"),
        (wav(tone(), rate=3), "says 3 samples a second"),
        (wav(tone(), rate=10**6), "samples a second, outside"),
    ],
)
def test_what_is_no_sound_is_refused_as_one(stored, message):
    pytest.importorskip("soundfile", reason="soundfile is not installed")
    with pytest.raises(SoundError, match=message):
        unpack_sound(stored, 16000)


def test_sounds_that_unpack_to_too_much_are_refused(monkeypatch):
    monkeypatch.setattr(sounds, "MAX_SAMPLES", 4000)
    with pytest.raises(SoundError, match="12000 samples, more than"):
        unpack_sound(wav(tone()), 48000)
    soundfile = pytest.importorskip("soundfile", reason="soundfile is not installed")
    packed = io.BytesIO()
    soundfile.write(packed, np.zeros(10_000), 8000, format="FLAC")
    with pytest.raises(SoundError, match="10000 samples, more than"):
        unpack_sound(packed.getvalue(), 8000)
    monkeypatch.setattr("modgap.io.images.MAX_BYTES", 8)
    with pytest.raises(SoundError, match="bytes, more than"):
        unpack_sound(wav(tone()), 8000)


def test_every_cut_of_a_file_is_read_or_refused():
    pytest.importorskip("soundfile", reason="soundfile is not installed")
    whole = wav(tone(seconds=0.01))
    for end in range(0, len(whole), 7):
        with contextlib.suppress(SoundError):
            assert len(unpack_sound(whole[:end], 8000)) <= 80
