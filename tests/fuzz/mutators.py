"""Ways to damage a file, all drawn from one seed."""

from __future__ import annotations

import io
import re
import struct
import zipfile
from collections.abc import Callable, Sequence
from random import Random

# Mutators change a copy in place; ``others`` are whole files of the same kind and of others.
Mutator = Callable[[Random, bytearray, Sequence[bytes]], None]

_INTEGERS = (0, 1, 2, 255, 256, 65535, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**63 - 1, 2**64 - 1)
_NUMBERS = (
    b"0", b"-1", b"1e999", b"NaN", b"Infinity", b"null", b"true", b'"x"', b"[]", b"{}", b"0.5",
    b"1000000000000", b"9223372036854775808", b"1180591620717411303424", b"100000000",
)  # fmt: skip
_FLOATS = (
    float("nan"), float("inf"), float("-inf"), 0.0, -0.0, 1e38, 3e38, 1e-45, 1e300, 1e-310, 65504.0
)  # fmt: skip
_TEXTS = (
    b"\xff\xfe", b"\x00", b"\n", b"\r\n", b'"', b"'", b",", b"\\", b"{", b"[" * 5000, b"]", b"}",
    b"../", b"/etc/passwd", b"%", "é".encode(), "e\u0301".encode(), "\u202e".encode(), b"\x1b[2J",
    b"\xed\xa0\x80", b"\xef\xbb\xbf",
)  # fmt: skip


def flip_bits(rng: Random, data: bytearray, others: Sequence[bytes]) -> None:
    """Turn over a few bits."""
    for _ in range(rng.choice((1, 1, 2, 8))):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def overwrite(rng: Random, data: bytearray, others: Sequence[bytes]) -> None:
    """Random bytes over some of the others."""
    start = rng.randrange(len(data))
    count = min(rng.choice((1, 2, 4, 16, 64)), len(data) - start)
    data[start : start + count] = rng.randbytes(count)


def truncate(rng: Random, data: bytearray, others: Sequence[bytes]) -> None:
    """Leave out the end."""
    del data[rng.randrange(len(data)) :]


def cut(rng: Random, data: bytearray, others: Sequence[bytes]) -> None:
    """Leave out a piece."""
    start = rng.randrange(len(data))
    del data[start : start + rng.choice((1, 2, 4, 8, 100))]


def repeat(rng: Random, data: bytearray, others: Sequence[bytes]) -> None:
    """A piece more than once."""
    start = rng.randrange(len(data))
    piece = data[start : start + rng.choice((1, 4, 32, 500))]
    data[start:start] = piece * rng.choice((1, 2, 50))


def splice(rng: Random, data: bytearray, others: Sequence[bytes]) -> None:
    """The beginning of this and the end of another."""
    other = rng.choice(others)
    data[rng.randrange(len(data)) :] = other[rng.randrange(len(other)) :]


def swap_header(rng: Random, data: bytearray, others: Sequence[bytes]) -> None:
    """The first bytes of another."""
    other = rng.choice(others)
    count = rng.choice((4, 8, 16, 64, 256))
    data[:count] = other[:count]


def write_integer(rng: Random, data: bytearray, others: Sequence[bytes]) -> None:
    """A size, a count or an offset that cannot be."""
    kind = rng.choice("BHIQ")
    value = rng.choice(_INTEGERS) % 2 ** (8 * struct.calcsize(kind))
    _put(rng, data, struct.pack(rng.choice("<>") + kind, value), near_start=rng.random() < 0.5)


def write_float(rng: Random, data: bytearray, others: Sequence[bytes]) -> None:
    """A number that is none, or at the end of its range."""
    kind = rng.choice("efd")
    try:
        packed = struct.pack(f"<{kind}", rng.choice(_FLOATS))
    except OverflowError:
        packed = struct.pack(f"<{kind}", float("inf"))
    _put(rng, data, packed, aligned=True)


def change_number(rng: Random, data: bytearray, others: Sequence[bytes]) -> None:
    """Another number in the place of one that is written out, as headers and JSON have them."""
    _substitute(rng, data, rb"-?\d+(\.\d+)?(e-?\d+)?", rng.choice(_NUMBERS))


def change_text(rng: Random, data: bytearray, others: Sequence[bytes]) -> None:
    """Odd characters in or in the place of a word."""
    _substitute(rng, data, rb"[A-Za-z_]{2,}", rng.choice(_TEXTS))


def insert_text(rng: Random, data: bytearray, others: Sequence[bytes]) -> None:
    """Odd characters anywhere."""
    at = rng.randrange(len(data))
    data[at:at] = rng.choice(_TEXTS)


ANY: tuple[Mutator, ...] = (
    flip_bits, flip_bits, overwrite, truncate, cut, repeat, splice, swap_header, write_integer,
    write_integer, write_float, change_number, change_number, change_text, insert_text,
)  # fmt: skip


def mutate(
    rng: Random, whole: bytes, others: Sequence[bytes], words: Sequence[tuple[bytes, bytes]] = ()
) -> bytes:
    """One to four damages to a file; ``words`` are exchanges that its format invites."""
    if zipfile.is_zipfile(io.BytesIO(whole)) and rng.random() < 0.7:
        return _inside_zip(rng, whole, others, words)
    if words and rng.random() < 0.3:
        old, new = rng.choice(words)
        whole = whole.replace(old, new, rng.choice((1, -1)))
        if rng.random() < 0.5:
            return whole
    data = bytearray(whole)
    for _ in range(rng.choice((1, 1, 2, 4))):
        if data:
            rng.choice(ANY)(rng, data, others)
    return bytes(data)


def _inside_zip(
    rng: Random, whole: bytes, others: Sequence[bytes], words: Sequence[tuple[bytes, bytes]]
) -> bytes:
    """Damage to one member, with a checksum that is right again."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(whole)) as old, zipfile.ZipFile(out, "w") as new:
        members = old.infolist()
        chosen = rng.choice(members)
        for member in members:
            inner = old.read(member)
            if member is chosen and inner:
                inner = mutate(rng, inner, others, words)
            new.writestr(member, inner)
    return out.getvalue()


def _put(
    rng: Random, data: bytearray, packed: bytes, *, near_start: bool = False, aligned: bool = False
) -> None:
    last = max(0, len(data) - len(packed))
    at = rng.randrange(min(last, 256) + 1 if near_start else last + 1)
    if aligned:  # numbers are aligned to the end of the file, whatever the header's length
        at = last - (last - at) // len(packed) * len(packed)
    data[at : at + len(packed)] = packed


def _substitute(rng: Random, data: bytearray, pattern: bytes, new: bytes) -> None:
    found = list(re.finditer(pattern, bytes(data[:20_000])))
    if found:
        start, end = rng.choice(found).span()
        data[start:end] = new
