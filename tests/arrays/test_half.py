"""float16 to float32, bit for bit as NumPy converts."""

from __future__ import annotations

import numpy as np
import pytest

from modgap.arrays import as_float, from_half, half, widen


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
