"""Limits of what a file may claim, checked against what it holds before memory is asked for.

Plain numbers must all be stored. Packed data may unpack to 256 MiB, or to 100 times the bytes that
are stored, whichever is more: embeddings hardly compress, and a few kilobytes could otherwise claim
any size.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from modgap.core.checks import InputTypeError, InputValueError, first_line

UNPACKED_BYTES = 256 * 1024**2
UNPACKED_TIMES = 100
# Headers list what is in a file. Those of large models have less than a megabyte.
HEADER_BYTES = 8 * 1024**2
# Configs, notes and lists of files are written by hand or by modgap.
TEXT_BYTES = 64 * 1024**2
# Longer than any caption.
TEXT_LENGTH = 1_000_000
# Vector stores take at most as many.
MOST_COLUMNS = 65_536

_SURROGATES = (0xD800, 0xDFFF)


def check_unpacked(where: str, claimed: int, stored: int) -> None:
    """Refuse what would unpack to far more bytes than a file holds of it."""
    if claimed > max(UNPACKED_BYTES, UNPACKED_TIMES * stored):
        raise InputValueError(
            f"{where} claims {claimed:,} bytes, of which the file holds {stored:,}: it is damaged, "
            "or made to fill the memory. If it is neither, save it again without compression."
        )


def check_dtype(where: str, dtype: np.dtype) -> None:
    """Refuse a dtype that no file of embeddings, labels or texts has."""
    if dtype.itemsize == 0 or dtype.kind not in "biufcmMSUO":
        raise InputTypeError(
            f"{where} must hold plain numbers or strings, got {first_line(dtype)[:80]}."
        )
    if dtype.kind in "SU" and dtype.itemsize // (4 if dtype.kind == "U" else 1) > TEXT_LENGTH:
        raise InputValueError(
            f"{where} claims strings of more than {TEXT_LENGTH:,} characters, got {dtype}."
        )


def as_text(values: np.ndarray, where: str) -> np.ndarray:
    """Bytes read as UTF-8; strings with what is no character are refused."""
    if values.dtype.kind == "S":
        try:
            return np.char.decode(values, "utf-8")
        except UnicodeDecodeError as error:
            raise InputValueError(
                f"{where} must hold UTF-8 text ({first_line(error)}). Save it as strings."
            ) from error
    if values.dtype.kind == "U" and values.size:
        codes = np.ascontiguousarray(values.astype(values.dtype.newbyteorder("="))).view(np.uint32)
        low, high = _SURROGATES
        if codes.max(initial=0) > 0x10FFFF or np.any((codes >= low) & (codes <= high)):
            raise InputValueError(f"{where} must hold text, got numbers that are no characters.")
    return values


def strings(values: list[str], where: str) -> np.ndarray:
    """An array of strings; refused where one is so long that all would take its memory.

    Each string of an array takes as much memory as the longest.

    >>> strings(["a", "cat"], "A label")
    array(['a', 'cat'], dtype='<U3')
    """
    longest = max(map(len, values), default=0)
    if 4 * longest * len(values) > max(UNPACKED_BYTES, UNPACKED_TIMES * sum(map(len, values))):
        raise InputValueError(
            f"{where} has {longest:,} characters, which {len(values):,} rows cannot all have. "
            "Use short labels."
        )
    return np.array(values, dtype=str)


def parse_json(text: str | bytes, where: str) -> Any:
    """What JSON from outside says; ValueError in good words where it is none, or nested deep."""
    try:
        return json.loads(text)
    except RecursionError as error:
        raise InputValueError(f"{where} must be JSON, got lists or objects nested deep.") from error
    except ValueError as error:
        raise InputValueError(f"{where} must be JSON ({first_line(error)}).") from error


def read_json(path: str | os.PathLike[str], what: str, most_bytes: int = TEXT_BYTES) -> Any:
    """The JSON of a file from outside; ``what`` it is, a list of files say."""
    return parse_json(read_bytes(path, what, most_bytes), f"{path} ({what})")


def read_bytes(path: str | os.PathLike[str], what: str, most_bytes: int = TEXT_BYTES) -> bytes:
    """A whole file, if it is not too large for what it is."""
    path = Path(path)
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            found = file.read(min(size, most_bytes) + 1)
    except OSError as error:
        raise InputValueError(f"{path} cannot be read: {error.strerror or error}.") from error
    if len(found) > most_bytes:
        raise InputValueError(
            f"{path} has more than {most_bytes:,} bytes, which is too much for {what}."
        )
    return found
