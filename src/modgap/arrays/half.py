"""Conversions between float16 and float32 by their bits, equal to those of NumPy.

They stay because `modgap apply` would feel it: with ``astype``, a file of float16 takes 1.5 times
the processor time (from float16 alone 5 times, to float16 with its checks 2 times).
"""

from __future__ import annotations

import numpy as np

# Bits of float32: without the sign, of the least that is normal in float16, and of the first that
# might round beyond its range.
_SIZE, _LEAST, _BEYOND = np.uint32(0x7FFFFFFF), np.uint32(0x38800000), np.uint32(0x477FE000)
# What brings the exponent of float32 to that of float16, and half of the last place kept, less one.
_REBIAS = np.uint32((0xFFF - (112 << 23)) % 2**32)
# Numbers at a time: what is made of them on the way stays in the cache, and calls do not count.
_PIECE = 2**18
# Of a float16 in the upper bits of an int32, its sign and all that follows the copies of its sign.
_KEPT = np.int32(np.uint32(0x8FFFE000).astype(np.int32))
# The exponents of the two begin so far from each other.
_EXPONENTS = np.float32(2.0**112)
_INFINITE = np.int16(0x7C00)
_SMALLEST = np.int32(1 << 13).view(np.float32)


def to_half(A: np.ndarray, out: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """``A.astype(np.float16)`` of float32, bit for bit, and what is not normal in float16.

    The first is in ``out`` where that is given, which is contiguous. The second are positions in
    the flat array: of zeros, of numbers near zero, and of those that are, or might become,
    infinite.

    >>> found, odd = to_half(np.array([1.0, 0.1, 0.0], dtype=np.float32))
    >>> found.tolist(), odd.tolist()
    ([1.0, 0.0999755859375, 0.0], [2])
    """
    given = np.ascontiguousarray(A, dtype=np.float32).reshape(-1)
    found = np.empty(A.shape, dtype=np.float16) if out is None else out
    halves, bits = found.reshape(-1).view(np.uint16), given.view(np.uint32)
    rounded, signs = np.empty((2, min(_PIECE, given.size)), dtype=np.uint32)
    odd = [np.zeros(0, dtype=np.intp)]
    for start in range(0, given.size, _PIECE):
        piece = bits[start : start + _PIECE]
        some, sign = rounded[: piece.size], signs[: piece.size]
        # To nearest, ties to even: half of the last place, and one more where it is odd.
        np.right_shift(piece, np.uint32(13), out=some)
        some &= np.uint32(1)
        some += piece
        some += _REBIAS
        some >>= np.uint32(13)
        some &= np.uint32(0x7FFF)
        np.right_shift(piece, np.uint32(16), out=sign)
        sign &= np.uint32(0x8000)
        some |= sign
        halves[start : start + piece.size] = some
        np.bitwise_and(piece, _SIZE, out=sign)
        sign -= _LEAST
        odd.append(start + np.flatnonzero(sign >= _BEYOND - _LEAST))
    places = np.concatenate(odd)
    found.reshape(-1)[places] = given[places].astype(np.float16)
    return found, places


def from_half(A: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """``A.astype(np.float32)`` of float16, bit for bit; into ``out`` where that is given.

    Anything else that is given, or asked for, is left to NumPy.

    >>> from_half(np.array([1.0, 0.1], dtype=np.float16)).tolist()
    [1.0, 0.0999755859375]
    """
    out = np.empty(A.shape, dtype=np.float32) if out is None else out
    by_bits = A.dtype == np.float16 and out.dtype == np.float32 and out.flags.c_contiguous
    if not by_bits or _drops_small_numbers():
        out[...] = A
        return out
    given, found = np.ascontiguousarray(A).reshape(-1), out.reshape(-1)
    for start in range(0, given.size, _PIECE):
        here = slice(start, start + _PIECE)
        halves = given[here].view(np.int16)
        bits = found[here].view(np.int32)
        bits[...] = halves
        bits <<= 13
        bits &= _KEPT
        found[here] *= _EXPONENTS
        exponents = halves & _INFINITE
        if exponents.max() == _INFINITE:
            places = start + np.flatnonzero(exponents == _INFINITE)
            found[places] = given[places]
    return out


def _drops_small_numbers() -> bool:
    """Whether this thread takes the smallest numbers for zero, as some libraries make it do."""
    return bool(_SMALLEST * _EXPONENTS == 0)
