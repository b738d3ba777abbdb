"""One pass over products: every tile is shown once, in order, and to all who ask."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special

from conftest import set_tiles
from modgap.arrays import (
    LogSums,
    SoftmaxSums,
    half_product_pass,
    listening,
    product_pass,
    to_numpy,
)
from modgap.core.stopping import Stopped, stoppable


class Filled:
    """Puts the products where their tile says they stand."""

    def __init__(self, n, m):
        self.found = np.full((n, m), np.nan)

    def look(self, tile):
        return to_numpy(tile.products).copy()

    def add(self, told, tile):
        assert np.isnan(self.found[tile.rows, tile.columns]).all()
        self.found[tile.rows, tile.columns] = told


class Listed:
    """Keeps all products of different rows."""

    def __init__(self):
        self.found = []

    def look(self, values, scratch):
        assert scratch.shape == values.shape
        return to_numpy(values).copy()

    def add(self, told):
        self.found += told.tolist()


@pytest.mark.parametrize("tile", [(1, 1), (7, 4), (100, 100)])
def test_every_product_is_shown_once(library, rng, tile, monkeypatch):
    set_tiles(monkeypatch, *tile)
    X, Y = rng.normal(size=(13, 3)), rng.normal(size=(9, 3))
    first, second = Filled(13, 9), Filled(13, 9)
    product_pass(library(X), library(Y), [first, second])
    assert first.found == library.close(X @ Y.T)
    assert (first.found == second.found).all()


@pytest.mark.parametrize("n", [1, 2, 3, 13])
@pytest.mark.parametrize("side", [1, 4, 100])
def test_half_a_product_holds_every_two_rows_once(library, rng, n, side, monkeypatch):
    set_tiles(monkeypatch, side, side)
    U = rng.normal(size=(n, 3))
    every = Listed()
    half_product_pass(library(U), [every])
    expected = (U @ U.T)[np.triu_indices(n, 1)]
    assert np.sort(every.found) == library.close(np.sort(expected))


def test_a_pass_is_told_tile_by_tile_and_may_be_stopped_at_each(rng, monkeypatch):
    set_tiles(monkeypatch, 5, 4)
    X = rng.normal(size=(12, 3))
    heard = []
    with listening(heard.append):
        product_pass(X, X, [])
        half_product_pass(X, [])
    assert len(heard) == 9 + 6
    assert sum(heard[:9]) == pytest.approx(1)
    assert sum(heard[9:]) == pytest.approx(1)
    asked = []
    with pytest.raises(Stopped), stoppable(lambda: asked.append(1) or len(asked) > 5):
        product_pass(X, X, [])


@pytest.mark.parametrize("offset", [0.0, 1e-3, 30.0])
@pytest.mark.parametrize("temperature", [1e-3, 0.01, 1.0])
def test_softmax_of_logits_with_offsets(library, rng, offset, temperature, monkeypatch):
    set_tiles(monkeypatch, 5, 4)
    X, Y = rng.normal(size=(13, 3)), rng.normal(size=(13, 3))
    X, Y = (library(A / np.linalg.norm(A, axis=1, keepdims=True)) for A in (X, Y))
    a, b = (library(offset * rng.normal(size=13), "float64") for _ in range(2))
    logits = LogSums(X, Y, 1 / temperature, a, b)
    product_pass(X, Y, [logits])
    shares = SoftmaxSums(logits)
    product_pass(X, Y, [shares])
    wide = [np.asarray(A, np.float64) for A in (X, Y, a, b)]
    L = wide[0] @ wide[1].T / temperature + wide[2][:, None] + wide[3]
    for axis, losses in zip((1, 0), logits.losses(), strict=True):
        expected = scipy.special.logsumexp(L, axis) - np.diag(L)
        assert library.check_kind(losses) == library.close(expected)
    assert library.check_kind(logits.own()) == library.close(np.diag(L))
    rows, columns = logits.hits()
    assert np.asarray(rows).tolist() == (np.diag(L) >= L.max(1)).tolist()
    assert np.asarray(columns).tolist() == (np.diag(L) >= L.max(0)).tolist()
    Qx, Qy = scipy.special.softmax(L, axis=1), scipy.special.softmax(L, axis=0)
    # A logit of float32 products is off by their rounding over the temperature.
    slack = library.tolerance if temperature > 0.01 else 10 * library.tolerance
    assert np.asarray(shares.row_totals()) == pytest.approx(Qy.sum(1), abs=slack)
    assert np.asarray(shares.column_totals()) == pytest.approx(Qx.sum(0), abs=slack)
