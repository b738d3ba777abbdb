"""Reads sounds from outside safely: in known formats, of a limited length, as models take them."""

from __future__ import annotations

import io
import warnings
from math import ceil, gcd
from typing import Any

import numpy as np

from modgap.core.checks import InputError, MissingExtraError, first_line, require
from modgap.io.images import ImageError, check_size

# About 28 minutes at 48 kHz, in all channels together: packed sounds unpack to any length.
MAX_SAMPLES = 80_000_000
# What devices record at; others would make resampling a matter of chance.
_RATES = (1_000, 768_000)
SUFFIXES = (".wav", ".flac", ".ogg", ".oga", ".opus", ".mp3", ".aif", ".aiff")
_FORMATS = ("WAV", "WAVEX", "RF64", "FLAC", "OGG", "MP3", "MPEG", "AIFF")


class SoundError(InputError, ValueError):
    """One sound cannot be used. Readers of many count it and continue."""


def unpack_sound(stored: bytes, rate: int) -> np.ndarray:
    """A stored sound as float32 (samples,) from −1 to 1, one channel, ``rate`` samples a second.

    WAV is read through SciPy; other formats need soundfile, of the extra ``audio``.
    """
    try:
        check_size(len(stored))
        samples, own_rate = _read(stored)
        _check(samples, own_rate, rate)
        return _resampled(_one_channel(samples), own_rate, rate)
    except (SoundError, MissingExtraError, MemoryError):
        raise
    except ImageError as error:
        raise SoundError(str(error)) from error
    except Exception as error:  # damaged files make the libraries raise nearly anything
        raise SoundError(f"{type(error).__name__}: {first_line(error)}") from error


def _read(stored: bytes) -> tuple[np.ndarray, int]:
    """Samples (n,) or (n, channels) as stored, and how many there are a second."""
    if stored[:4] not in (b"RIFF", b"RIFX", b"RF64"):
        return _read_packed(stored, require("soundfile", "audio", "Reading sounds other than WAV"))
    from scipy.io import wavfile

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # chunks that hold no samples: titles, dates
            rate, samples = wavfile.read(io.BytesIO(stored))
    except Exception:
        # Packed WAVs, ADPCM for instance, are beyond SciPy.
        try:
            soundfile = require("soundfile", "audio", "Reading this WAV")
        except MissingExtraError:
            soundfile = None
        if soundfile is None:
            raise
        return _read_packed(stored, soundfile)
    return samples, int(rate)


def _read_packed(stored: bytes, soundfile: Any) -> tuple[np.ndarray, int]:
    with soundfile.SoundFile(io.BytesIO(stored)) as file:
        if file.format not in _FORMATS:
            raise SoundError(f"it is {file.format}, which is not read")
        if file.frames * file.channels > MAX_SAMPLES:
            raise _too_long(file.frames * file.channels)
        return file.read(dtype="float32"), int(file.samplerate)


def _check(samples: np.ndarray, rate: int, wanted: int) -> None:
    if not _RATES[0] <= rate <= _RATES[1]:
        raise SoundError(f"it says {rate} samples a second, outside {_RATES[0]} to {_RATES[1]}")
    if samples.size == 0:
        raise SoundError("it has no samples")
    longest = max(samples.size, ceil(len(samples) * wanted / rate))
    if longest > MAX_SAMPLES:
        raise _too_long(longest)
    if samples.dtype.kind == "f" and not np.isfinite(samples).all():
        raise SoundError("it holds NaN or infinity")


def _too_long(n: int) -> SoundError:
    return SoundError(
        f"it would unpack to {n} samples, more than {MAX_SAMPLES // 10**6} million: cut it"
    )


def _one_channel(samples: np.ndarray) -> np.ndarray:
    """The mean of the channels, with whole numbers scaled to −1 to 1."""
    scaled: np.ndarray = samples.astype(np.float32)
    if samples.dtype == np.uint8:
        scaled = (scaled - 128) / 128
    elif samples.dtype.kind != "f":
        scaled = scaled / np.float32(2.0 ** (8 * samples.dtype.itemsize - 1))
    return scaled if scaled.ndim == 1 else np.asarray(scaled.mean(axis=1), np.float32)


def _resampled(samples: np.ndarray, rate: int, wanted: int) -> np.ndarray:
    if rate == wanted:
        return samples
    from scipy.signal import resample_poly

    common = gcd(rate, wanted)
    found: np.ndarray = resample_poly(samples, wanted // common, rate // common)
    return found.astype(np.float32, copy=False)
