"""float32 to float16, bit for bit as NumPy rounds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from modgap._arrays import half, to_half


def bits_of(A: np.ndarray) -> list[int]:
    return A.view(np.uint16).tolist()


def numpys(A: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return A.astype(np.float16)


def test_every_float16_and_what_is_between_two_of_them():
    every = np.arange(2**16, dtype=np.uint16).view(np.float16)
    every = np.sort(every[np.isfinite(every)]).astype(np.float32)
    middles = (every[1:] + every[:-1]) / 2
    around = [np.nextafter(middles, np.float32(side)) for side in (-np.inf, np.inf)]
    for some in (every, middles, *around):
        with np.errstate(over="ignore"):
            found, odd = to_half(some)
        expected = numpys(some)
        assert bits_of(found) == bits_of(expected)
        # What rounds to a normal number may be listed, what does not must be.
        is_normal = np.abs(expected) >= np.finfo(np.float16).smallest_normal
        missing = np.setdiff1d(np.flatnonzero(~is_normal | np.isinf(expected)), odd)
        assert len(missing) == 0


@given(hnp.arrays(np.uint32, st.integers(1, 50)))
def test_any_bits(bits):
    A = bits.view(np.float32)
    A = A[~np.isnan(A)]
    with np.errstate(over="ignore"):
        assert bits_of(to_half(A)[0]) == bits_of(numpys(A))


def test_nan_stays_nan():
    assert np.isnan(to_half(np.array([np.nan, 1.0], dtype=np.float32))[0]).tolist() == [True, False]


@pytest.mark.parametrize("shape", [(0,), (0, 3), (7,), (5, 4), (3, 2, 2)])
@pytest.mark.parametrize("piece", [1, 3, 2**16])
def test_shapes_and_pieces_change_nothing(rng, shape, piece, monkeypatch):
    monkeypatch.setattr(half, "_PIECE", piece)
    A = np.asfortranarray(rng.normal(size=shape).astype(np.float32))
    A[A < -1] = 0.0
    found, odd = to_half(A)
    assert found.shape == shape
    assert bits_of(found) == bits_of(np.ascontiguousarray(numpys(A)))
    assert odd.tolist() == np.flatnonzero(np.abs(A.reshape(-1)) < 2**-14).tolist()
