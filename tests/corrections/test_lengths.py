"""Rows of any positive length: the same corrected vectors, scores and rankings as unit rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from conftest import make_pairs
from modgap.corrections import (
    CORRECTORS,
    Calibrate,
    Center,
    ExpectedWrong,
    OriginShift,
    OrthogonalShift,
    Procrustes,
    Shift,
    Whiten,
)
from modgap.corrections.calibrate import FORMS, MODES
from reference import unit

EVERY = [
    Shift(0.3),
    OriginShift(0.7, "x"),
    OrthogonalShift("y", 0.5),
    Center(),
    Whiten(0.2),
    Procrustes(),
    *(Calibrate(mode, form) for mode in MODES for form in FORMS),
]
NAMES = ("image", "text")
every = pytest.mark.parametrize("corrector", EVERY, ids=repr)
precisions = pytest.mark.parametrize("precision", ["float32", "float64"])


seeds = st.integers(0, 10**6)
# A seed for the rows, one for their lengths, and how many powers of ten lengths reach.
anything = given(drawn=st.tuples(seeds, seeds, st.floats(0, 6)))
few = settings(max_examples=10)


def make_rows(seed, lengths_seed, reach, precision):
    """Unit rows, and the same ones with lengths from 1e-reach to 1e+reach."""
    rows = dict(zip(NAMES, map(unit, make_pairs(n=20, d=6, seed=seed)), strict=True))
    rng = np.random.default_rng(lengths_seed)
    stretched = {
        name: part * 10.0 ** rng.uniform(-reach, reach, size=(len(part), 1))
        for name, part in rows.items()
    }
    return cast(rows, precision), cast(stretched, precision)


def cast(rows, precision):
    return {name: part.astype(precision) for name, part in rows.items()}


def fitted(corrector, rows, asking="text"):
    return clone(corrector).fit(*rows.values(), queries=asking).correction_


def mapped(correction, rows):
    """Every modality as documents, and as queries where they are served, in float64."""
    return {
        (name, role): np.asarray(correction.apply(part, name, role), dtype=np.float64)
        for name, part in rows.items()
        for role in ("document", "query")
        if role == "document" or name in correction.queries
    }


def assert_same(found, expected):
    """To 1e-5 of the length that corrected vectors have."""
    assert found.keys() == expected.keys()
    for key, rows in expected.items():
        size = max(1.0, float(np.abs(rows).max()))
        np.testing.assert_allclose(found[key], rows, rtol=0, atol=1e-5 * size, err_msg=str(key))


def test_every_corrector_is_among_those_tried():
    # Its documents need keys: see tests/corrections/test_background.py.
    assert {type(corrector) for corrector in EVERY} == {*CORRECTORS} - {ExpectedWrong}


@every
@precisions
@few
@anything
def test_rows_of_any_length_are_fitted_and_mapped_alike(corrector, precision, drawn):
    rows, stretched = make_rows(*drawn, precision)
    for asking in NAMES:
        of_rows, of_stretched = (fitted(corrector, part, asking) for part in (rows, stretched))
        expected = mapped(of_rows, rows)
        assert_same(mapped(of_stretched, stretched), expected)
        assert_same(mapped(of_rows, stretched), expected)


@pytest.mark.parametrize("corrector", [Center(), Calibrate(), Procrustes()], ids=repr)
def test_a_row_of_zeros_has_no_unit_length_and_is_named(corrector):
    X, Y = make_pairs(n=20, d=6)
    spoilt = Y.copy()
    spoilt[7] = 0
    with pytest.raises(ValueError, match="text has 1 row with length zero, the first at row 7"):
        clone(corrector).fit(X, spoilt)
    correction = corrector.fit(X, Y).correction_
    with pytest.raises(ValueError, match="Row 7 of text has length zero"):
        correction.y(spoilt)
