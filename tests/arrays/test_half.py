"""float32 to float16 and back, bit for bit as NumPy converts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from modgap.arrays import as_float, from_half, half, to_half, widen


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
    out = np.empty(shape, dtype=np.float16)
    assert to_half(A, out)[0] is out
    assert bits_of(out) == bits_of(found)


def floats_of(A: np.ndarray) -> list[int]:
    return np.ascontiguousarray(A).view(np.uint32).reshape(-1).tolist()


@pytest.mark.parametrize("piece", [1000, 2**18])
def test_every_float16_becomes_the_float32_that_numpy_makes(piece, monkeypatch):
    monkeypatch.setattr(half, "_PIECE", piece)
    every = np.arange(2**16, dtype=np.uint16).view(np.float16)
    numbers = every[~np.isnan(every)]
    assert floats_of(from_half(numbers)) == floats_of(numbers.astype(np.float32))
    assert np.isnan(from_half(every[np.isnan(every)])).all()


def test_any_layout_of_float16_is_converted(rng, monkeypatch):
    A = rng.normal(size=(6, 8)).astype(np.float16)
    views = [A, A.T, A[::2, 1:7:3], A[:0], np.asfortranarray(A), A.astype(">f2")]
    for drops in (False, True):  # as in a thread that takes the smallest numbers for zero
        monkeypatch.setattr(half, "_drops_small_numbers", lambda drops=drops: drops)
        for view in views:
            expected = view.astype(np.float32)
            out = np.full(view.shape[::-1], 7, dtype=np.float32).T
            for found in (from_half(view), from_half(view, out=out), as_float(view)):
                assert floats_of(found) == floats_of(expected)
            assert (widen(view) == expected).all()
            assert widen(view).dtype == np.float64


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("step", [1, 2])
def test_into_room_of_any_kind_and_layout(rng, kind, step):
    A = rng.normal(size=(5, 4)).astype(np.float16)
    room = np.empty((5, 4 * step), dtype=kind)[:, ::step]
    assert from_half(A, out=room) is room
    assert room.tolist() == A.tolist()
