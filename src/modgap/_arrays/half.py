"""float32 to float16 with whole numbers, which NumPy's own conversion takes twice as long for."""

from __future__ import annotations

import numpy as np

# Bits of float32: without the sign, of the least that is normal in float16, and of the first that
# might round beyond its range.
_SIZE, _LEAST, _BEYOND = np.uint32(0x7FFFFFFF), np.uint32(0x38800000), np.uint32(0x477FE000)
# What brings the exponent of float32 to that of float16, and half of the last place kept, less one.
_REBIAS = np.uint32((0xFFF - (112 << 23)) % 2**32)
# Numbers at a time, so that what is made of them on the way stays in the cache.
_PIECE = 2**16


def to_half(A: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """``A.astype(np.float16)`` of float32, bit for bit, and what is not normal in float16.

    The second are positions in the flat array: of zeros, of numbers near zero, and of those that
    are, or might become, infinite.

    >>> found, odd = to_half(np.array([1.0, 0.1, 0.0], dtype=np.float32))
    >>> found.tolist(), odd.tolist()
    ([1.0, 0.0999755859375, 0.0], [2])
    """
    given = np.ascontiguousarray(A, dtype=np.float32).reshape(-1)
    out = np.empty(given.size, dtype=np.uint16)
    bits, rounded, signs = given.view(np.uint32), *np.empty((2, _PIECE), dtype=np.uint32)
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
        out[start : start + piece.size] = some
        np.bitwise_and(piece, _SIZE, out=sign)
        sign -= _LEAST
        odd.append(start + np.flatnonzero(sign >= _BEYOND - _LEAST))
    places = np.concatenate(odd)
    found = out.view(np.float16)
    found[places] = given[places].astype(np.float16)
    return found.reshape(A.shape), places
