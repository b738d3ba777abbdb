"""One affine map: applying, composing, taking back, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from modgap.core.checks import InputValueError
from modgap.corrections import Affine, Calibrate, Center, row_map

numbers = st.floats(-3, 3, allow_nan=False, width=32)
dims = st.integers(1, 4)


def vectors(*shape):
    return arrays(np.float64, shape, elements=numbers)


@st.composite
def affine_maps(draw, dim_in=None, dim_out=None, renormalise=False, normalise=False):
    dim_in = draw(dims) if dim_in is None else dim_in
    dim_out = draw(dims) if dim_out is None else dim_out
    matrix = None
    if dim_in != dim_out or draw(st.booleans()):
        matrix = draw(vectors(dim_out, dim_in))
    offset = draw(st.none() | vectors(dim_out))
    scale = draw(st.sampled_from([1.0, 0.5, -2.0]))
    return Affine(dim_in, matrix, scale, offset, renormalise, normalise=normalise)


def apply_by_hand(affine: Affine, rows: np.ndarray) -> np.ndarray:
    if affine.normalise:
        rows = np.array([row / np.sqrt(row @ row) for row in rows])
    matrix = np.eye(affine.dim_in) if affine.matrix is None else affine.matrix
    offset = np.zeros(len(matrix)) if affine.offset is None else affine.offset
    mapped = np.array([affine.scale * (matrix @ row) + offset for row in rows])
    if affine.renormalise:
        mapped = np.array([row / np.sqrt(row @ row) for row in mapped])
    return mapped


@given(st.data())
def test_a_map_scales_the_product_with_its_matrix_and_adds_its_offset(data):
    affine = data.draw(affine_maps())
    rows = data.draw(vectors(3, affine.dim_in))
    assert affine(rows).shape == (3, affine.dim_out)
    np.testing.assert_allclose(affine(rows), apply_by_hand(affine, rows), atol=1e-12)


@given(st.data(), st.lists(st.floats(1e-6, 1e6), min_size=3, max_size=3))
def test_a_map_that_normalises_brings_rows_of_any_length_to_unit_length_first(data, lengths):
    affine = data.draw(affine_maps(normalise=True))
    rows = data.draw(vectors(3, affine.dim_in))
    assume(np.all(np.linalg.norm(rows, axis=1) > 1e-3))
    longer = rows * np.array(lengths)[:, None]
    np.testing.assert_allclose(affine(longer), apply_by_hand(affine, rows), atol=1e-12)


@pytest.mark.parametrize("length", [1e-300, 1e-30, 1e30, 1e99])
def test_rows_whose_squares_leave_the_range_of_floats_have_a_direction_too(length):
    found = Affine(2, normalise=True)(np.array([[3.0, 4.0]]) * length)
    np.testing.assert_allclose(found, [[0.6, 0.8]], atol=1e-15)


@given(st.data())
def test_the_inverse_of_a_map_that_normalises_gives_unit_rows_back(data):
    dim = data.draw(dims)
    affine = data.draw(affine_maps(dim, dim, normalise=True))
    assume(affine.matrix is None or np.linalg.cond(affine.matrix) < 1e4)
    rows = data.draw(vectors(3, dim))
    assume(np.all(np.linalg.norm(rows, axis=1) > 1e-3))
    expected = apply_by_hand(Affine(dim, normalise=True), rows)
    np.testing.assert_allclose(affine.inverse()(affine(rows)), expected, atol=1e-8)


@given(st.data())
def test_then_equals_applying_one_after_the_other(data):
    first = data.draw(affine_maps())
    renormalise = data.draw(st.booleans())
    second = data.draw(affine_maps(dim_in=first.dim_out, renormalise=renormalise))
    rows = data.draw(vectors(3, first.dim_in))
    plain = Affine(second.dim_in, second.matrix, second.scale, second.offset)
    assume(np.all(np.linalg.norm(plain(first(rows)), axis=1) > 1e-3))
    np.testing.assert_allclose(first.then(second)(rows), second(first(rows)), atol=1e-8)


@given(st.data())
def test_the_inverse_takes_rows_back_from_either_side(data):
    dim = data.draw(dims)
    affine = data.draw(affine_maps(dim, dim))
    assume(affine.matrix is None or np.linalg.cond(affine.matrix) < 1e4)
    rows = data.draw(vectors(3, dim))
    back = affine.inverse()
    np.testing.assert_allclose(back(affine(rows)), rows, atol=1e-8)
    np.testing.assert_allclose(affine(back(rows)), rows, atol=1e-8)


def rotation(rng, d=3):
    return np.linalg.qr(rng.normal(size=(d, d)))[0]


def test_after_renormalising_a_rotation_or_another_renormalising_map_may_follow(rng):
    rows = rng.normal(size=(5, 3))
    first = Affine(3, offset=np.array([1.0, 2.0, 0.5]), renormalise=True)
    followers = [
        Affine(3),
        Affine(3, rotation(rng)),
        Affine(3, scale=-1.0),
        Affine(3, 2 * rotation(rng), scale=0.5),
        Affine(3, rng.normal(size=(4, 3)), renormalise=True),
        Affine(3, rng.normal(size=(3, 3)), scale=-2.0, renormalise=True),
        Affine(3, rotation(rng), offset=np.zeros(3)),
    ]
    for second in followers:
        np.testing.assert_allclose(first.then(second)(rows), second(first(rows)), atol=1e-12)


def test_a_map_that_normalises_may_follow_unit_rows_and_rows_that_are_turned_and_scaled(rng):
    rows = 5 * rng.normal(size=(6, 3))
    firsts = [
        Affine(3, normalise=True),
        Affine(3, scale=0.3),
        Affine(3, rotation(rng), scale=-2.0, offset=np.zeros(3)),
        Affine(3, np.vstack([rotation(rng), np.zeros((1, 3))])),
        Affine(3, rng.normal(size=(3, 3)), offset=rng.normal(size=3), renormalise=True),
        Affine(3, rotation(rng), scale=2.0, normalise=True),
    ]
    for first in firsts:
        turn = rotation(rng, first.dim_out)
        seconds = [
            Affine(len(turn), normalise=True),
            Affine(len(turn), turn, normalise=True, blocks=(2.0, -1.0)),
            Affine(len(turn), scale=-1.0, normalise=True, renormalise=True, blocks=(2.0, -1.0)),
        ]
        if not first.renormalise:
            seconds.append(Affine(len(turn), turn, 0.5, turn[0], normalise=True))
        for second in seconds:
            np.testing.assert_allclose(first.then(second)(rows), second(first(rows)), atol=1e-12)


def test_unit_rows_and_kept_directions_are_read_from_the_map(rng):
    turn = rotation(rng)
    for affine, unit_rows, directions in (
        (Affine(3), False, True),
        (Affine(3, normalise=True), True, True),
        (Affine(3, scale=2.0, normalise=True), False, True),
        (Affine(3, scale=-1.0, normalise=True), True, False),
        (Affine(3, turn, normalise=True), True, False),
        (Affine(3, 2 * turn, normalise=True), False, False),
        (Affine(3, offset=np.zeros(3), renormalise=True), True, True),
        (Affine(3, offset=np.ones(3), renormalise=True), True, False),
        (Affine(3, normalise=True, blocks=(1.0,)), False, False),
    ):
        assert affine.gives_unit_rows is unit_rows
        assert affine.keeps_directions is directions


RENORMALISED = Affine(3, renormalise=True)
NO_FOLLOWER = "without offset that renormalises too or keeps every"
UNIT = Affine(3, normalise=True)
NO_UNIT_ROWS = "gives unit rows or turns and scales them"
ROWS = np.array([[1.0, 0.0], [2.0, 3.0], [0.0, 0.0]])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Affine(2, normalise=True)(ROWS, "texts", first_row=10), "Row 12 of texts has len"),
        (
            lambda: Affine(2, offset=-ROWS[1], renormalise=True)(ROWS, "texts"),
            "Row 1 of texts lands on the origin",
        ),
        (lambda: Affine(3)(np.ones((1, 2))), "for rows of 3 columns, got 2"),
        (lambda: Affine(2)(np.array([[np.nan, 1.0]])), "NaN or infinity"),
        (lambda: Affine(3, np.eye(2)), r"must be \(d_out, 3\), got shape \(2, 2\)"),
        (lambda: Affine(3, offset=np.ones(2)), r"must be \(3,\), got shape \(2,\)"),
        (lambda: Affine(3, np.ones((2, 3)), offset=np.ones(3)), r"must be \(2,\), got shape"),
        (lambda: Affine(3).then(Affine(4)), "the first gives 3 columns, the second takes 4"),
        (lambda: RENORMALISED.then(Affine(3, offset=np.eye(3)[0])), NO_FOLLOWER),
        (lambda: RENORMALISED.then(Affine(3, None, 1, np.eye(3)[0], True)), NO_FOLLOWER),
        (lambda: RENORMALISED.then(Affine(3, scale=2.0)), NO_FOLLOWER),
        (lambda: RENORMALISED.then(Affine(3, np.diag([1.0, 2.0, 3.0]))), NO_FOLLOWER),
        (lambda: RENORMALISED.then(Affine(3, scale=0.0, renormalise=True)), NO_FOLLOWER),
        (lambda: Affine(3, offset=np.eye(3)[0]).then(UNIT), NO_UNIT_ROWS),
        (lambda: Affine(3, np.diag([1.0, 2.0, 3.0])).then(UNIT), NO_UNIT_ROWS),
        (lambda: Affine(3, scale=0.0).then(UNIT), NO_UNIT_ROWS),
        (lambda: Affine(3, blocks=(1.0,)).then(UNIT), NO_UNIT_ROWS),
        (lambda: RENORMALISED.inverse(), "lengths are lost"),
        (lambda: Affine(3, scale=0.0).inverse(), "scale 0"),
        (lambda: Affine(3, np.ones((4, 3))).inverse(), "3 to 4 columns"),
        (lambda: Affine(3, np.ones((3, 3))).inverse(), "square and of full rank"),
    ],
)
def test_what_a_map_cannot_do_is_refused_in_words(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(
    ("given_dtype", "result_dtype", "tolerance"),
    [("float16", "float32", 2e-3), ("float32", "float32", 1e-6), ("float64", "float64", 1e-14)],
)
def test_rows_keep_their_precision_and_half_precision_is_widened(
    rng, given_dtype, result_dtype, tolerance
):
    rows = rng.normal(size=(6, 3))
    affine = Affine(3, rng.normal(size=(5, 3)), 0.7, rng.normal(size=5), renormalise=True)
    out = affine(rows.astype(given_dtype))
    assert out.dtype == result_dtype
    np.testing.assert_allclose(out, apply_by_hand(affine, rows), atol=tolerance)


def test_torch_rows_stay_torch_and_equal_numpy(rng, library):
    rows = rng.normal(size=(6, 3))
    affine = Affine(3, rng.normal(size=(4, 3)), 1.5, rng.normal(size=4), renormalise=True)
    out = library.check_kind(affine(library(rows)))
    assert out.dtype == library.precision
    np.testing.assert_allclose(out, affine(rows), atol=library.tolerance)


def test_many_rows_are_mapped_like_few_across_block_borders(rng):
    rows = rng.normal(size=(20_000, 2))
    affine = Affine(2, rng.normal(size=(2, 2)), offset=rng.normal(size=2), renormalise=True)
    some = [0, 8191, 8192, 16384, 19_999]
    np.testing.assert_allclose(affine(rows)[some], affine(rows[some]), atol=1e-15)


def test_the_input_is_left_as_it_is(rng):
    rows = rng.normal(size=(6, 3))
    before = rows.copy()
    Affine(3, scale=2.0, offset=np.ones(3), renormalise=True)(rows)
    np.testing.assert_array_equal(rows, before)


def test_only_a_map_that_does_nothing_is_the_identity():
    assert Affine(3).is_identity
    for other in (
        Affine(3, np.eye(3)),
        Affine(3, scale=2.0),
        Affine(3, offset=np.zeros(3)),
        Affine(3, renormalise=True),
        Affine(3, normalise=True),
    ):
        assert not other.is_identity


def test_rows_that_are_all_alike_land_on_the_origin_whatever_rounding_leaves():
    same = np.tile(np.array([0.3, -1.7, 0.9]), (5, 1))
    other = np.random.default_rng(0).normal(size=(6, 3))
    correction = Center().fit(same, other).correction_
    with pytest.raises(InputValueError, match="Row 0 of image lands on the origin"):
        correction.x(same)
    with pytest.raises(InputValueError, match="scores of a modality have no spread"):
        Calibrate().fit(same, other)


@pytest.mark.parametrize("given", ["float16", "float32", "float64"])
@pytest.mark.parametrize("wanted", [None, "float16", "float32", "float64"])
@pytest.mark.parametrize("hubs", [0.0, 0.5])
def test_a_stream_in_pieces_and_any_precision_is_what_one_call_gives(
    given, wanted, hubs, rng, monkeypatch
):
    X, Y = rng.normal(size=(90, 6)) + 1, rng.normal(size=(90, 6))
    mapping = Calibrate(hubs=hubs).fit(X, Y).correction_.map("image")
    X, keys = X.astype(given), np.arange(90)
    expected = mapping(X, "image", keys=keys)
    monkeypatch.setattr(row_map, "_PIECE_BYTES", 16 * 7 * 4)  # 16 rows
    batches = np.array_split(X, 3)
    found = np.concatenate([*mapping.over(batches, "image", keys, dtype=wanted)])
    assert found.dtype == (wanted or expected.dtype)
    # Products of fewer rows may round their last bit otherwise.
    slack = 1e-12 if expected.dtype == np.float64 and wanted != "float32" else 1e-6
    np.testing.assert_allclose(
        found, expected, rtol=2e-3 if wanted == "float16" else slack, atol=slack
    )


def test_half_precision_is_mapped_as_float64_would_but_for_float32s_rounding(rng):
    X = (rng.normal(size=(200, 64)) / 8 + 0.05).astype(np.float16)
    Y = rng.normal(size=(200, 64)) / 8
    for corrector in (Calibrate(), Center(), Calibrate(form="blocks")):
        mapping = corrector.fit(X, Y).correction_.map("image")
        found, expected = mapping(X), mapping(X.astype(np.float64))
        assert found.dtype == np.float32
        assert np.abs(found - expected).max() < 2e-6 * np.abs(expected).max()


def test_a_stream_in_pieces_says_of_the_whole_batch_what_is_wrong(rng, monkeypatch):
    monkeypatch.setattr(row_map, "_PIECE_BYTES", 16 * 4 * 4)
    rows = rng.normal(size=(100, 4)).astype(np.float32)
    rows[[30, 60, 95]] = np.nan
    with pytest.raises(InputValueError, match=r"image has 3 rows with NaN.*first at row 130"):
        list(Affine(4, scale=2.0).over([rows[:0] + 1, rows], "image", first_row=100))
    rows[[30, 60, 95]] = 1e5
    with pytest.raises(InputValueError, match=r"corrected image must fit into float16.* row 30 "):
        list(Affine(4, scale=2.0).over([rows], "image", dtype="float16"))
