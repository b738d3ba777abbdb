"""What every measure has in common: it refuses bad rows, takes any precision, changes no input."""

from __future__ import annotations

import doctest
import importlib
import math

import numpy as np
import pytest

import reference

# Not "from modgap import measure": that name is the function.

m = importlib.import_module("modgap.measures")

ONE = {
    "cone": m.cone,
    "uniformity": m.uniformity,
    "conformity": m.conformity,
    "estimated_conformity": m.estimated_conformity,
    "blur": m.blur,
    "shell": m.shell,
    "feature_offset": m.feature_offset,
    "feature_variance": m.feature_variance,
    "off_diagonal_dominance": m.off_diagonal_dominance,
    "norms": m.norms,
}
# n ≠ m is fine here …
TWO = {
    "gap_vector": m.gap_vector,
    "gap_distance": m.gap_distance,
    "gap_orthogonality": m.gap_orthogonality,
    "linear_separability": m.linear_separability,
    "separability": m.separability,
    "feature_divergence": m.feature_divergence,
    "conformity_divergence": m.conformity_divergence,
    "wasserstein_uniformity": m.wasserstein_uniformity,
    "conformity to a reference": m.conformity,
}
# … and is refused here.
PAIRED = {
    "local_gaps": m.local_gaps,
    "margin": m.margin,
    "alignment": m.alignment,
    "conformity_difference": m.conformity_difference,
    "contrastive_loss": lambda X, Y: m.contrastive_loss(X, Y, 0.1),
    "loss_terms": lambda X, Y: m.loss_terms(X, Y, 0.1, similarity="squared_distance"),
    "soft_assignments": lambda X, Y: m.soft_assignments(X, Y, 0.1),
    "shift_landscape": lambda X, Y: m.shift_landscape(X, Y, [0.1], [0.1]),
    "origin_landscape": lambda X, Y: m.origin_landscape(X, Y, [0.1]),
}
ALL = {
    **{name: (lambda X, Y, f=f: f(X)) for name, f in ONE.items()},
    **TWO,
    **PAIRED,
    "measure": m.measure,
}
UNIT = [
    "cone",
    "uniformity",
    "conformity",
    "estimated_conformity",
    "blur",
    "conformity_divergence",
    "margin",
    "alignment",
    "wasserstein_uniformity",
    "conformity_difference",
    "contrastive_loss",
    "shift_landscape",
    "origin_landscape",
    "measure",
]
AT_LEAST_TWO = [
    "cone",
    "uniformity",
    "conformity",
    "estimated_conformity",
    "blur",
    "shell",
    "linear_separability",
    "conformity_divergence",
    "margin",
    "conformity_difference",
    "origin_landscape",
]

# Few rows over many bins: one that rounds into the next bin changes the divergence by much.
BINNED = ("conformity_divergence", "origin_landscape")

every_measure = pytest.mark.parametrize("name", ALL)


def small(pairs):
    return pairs[0][:8, :4].copy(), pairs[1][:8, :4].copy()


@every_measure
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_rows_with_nan_or_infinity_are_refused_by_number(pairs, library, name, value):
    X, Y = small(pairs)
    X[[2, 5], 1] = value
    message = r"has 2 rows with NaN or infinity, the first at row 2\. Drop them from both sides"
    with pytest.raises(ValueError, match=message):
        ALL[name](library(X), library(Y))


@pytest.mark.parametrize("name", [*TWO, *PAIRED, "measure"])
def test_the_second_side_is_looked_at_too(pairs, name):
    X, Y = small(pairs)
    Y[3, 0] = math.nan
    with pytest.raises(ValueError, match=r"(Y|text|reference) has 1 row with NaN .* at row 3\."):
        ALL[name](X, Y)


@pytest.mark.parametrize("name", UNIT)
def test_rows_without_a_direction_are_refused_where_directions_count(pairs, library, name):
    X, Y = small(pairs)
    X[4] = 0
    with pytest.raises(ValueError, match=r"has 1 row with length zero, the first at row 4\."):
        ALL[name](library(X), library(Y))


@pytest.mark.parametrize("name", sorted(ALL.keys() - set(UNIT) - {"conformity to a reference"}))
def test_rows_of_length_zero_are_fine_where_rows_are_used_as_given(pairs, name):
    X, Y = small(pairs)
    X[4] = 0
    ALL[name](X, Y)


@every_measure
@pytest.mark.parametrize("shape", [(0, 4), (8, 0)])
def test_empty_matrices_are_refused(pairs, name, shape):
    with pytest.raises(ValueError, match="must have at least one row and one column, got shape"):
        ALL[name](np.zeros(shape), small(pairs)[1])


@every_measure
def test_vectors_and_stacks_are_refused(pairs, name):
    X, Y = small(pairs)
    for wrong in (X[0], X[None]):
        with pytest.raises(ValueError, match="must be a matrix with one row per item, got shape"):
            ALL[name](wrong, Y)


@pytest.mark.parametrize("name", AT_LEAST_TWO)
def test_one_row_is_refused_where_two_are_needed(pairs, name):
    X, Y = small(pairs)
    with pytest.raises(ValueError, match="X needs at least 2 rows, got 1"):
        ALL[name](X[:1], Y[:1])


@pytest.mark.parametrize(
    "name", sorted(ALL.keys() - set(AT_LEAST_TWO) - {"conformity to a reference"})
)
def test_one_row_is_enough_elsewhere(pairs, name):
    X, Y = small(pairs)
    ALL[name](X[:1], Y[:1])


@pytest.mark.parametrize("name", [*TWO, *PAIRED, "measure"])
def test_different_dimensions_are_refused(pairs, library, name):
    X, Y = small(pairs)
    with pytest.raises(ValueError, match="must have the same number of columns, got 4 and 3"):
        ALL[name](library(X), library(Y[:, :3]))


@pytest.mark.parametrize("name", PAIRED)
def test_different_row_counts_are_refused_where_pairs_are_needed(pairs, name):
    X, Y = small(pairs)
    with pytest.raises(ValueError, match=r"same pairs row by row, got \(8, 4\) and \(7, 4\)"):
        PAIRED[name](X, Y[:7])


@pytest.mark.parametrize("name", TWO)
def test_different_row_counts_are_fine_where_pairs_are_not_needed(pairs, name):
    X, Y = small(pairs)
    TWO[name](X, Y[:7])


@every_measure
@pytest.mark.parametrize(
    ("dtype", "hint"),
    [
        (np.int64, "Convert the rows to float32"),
        (np.bool_, "Convert the rows to float32"),
        (np.complex128, "Take the real part"),
        (object, "Rows of different lengths or Python objects"),
        (np.str_, "Convert the rows to float32"),
    ],
)
def test_other_types_of_numbers_are_refused(pairs, name, dtype, hint):
    X, Y = small(pairs)
    message = rf"must hold float16, float32 or float64, got .*\. {hint}"
    with pytest.raises(TypeError, match=message):
        ALL[name](X.astype(dtype), Y)


@every_measure
def test_ragged_lists_are_refused(pairs, name):
    with pytest.raises(ValueError, match="must be a matrix, but its rows do not have the same"):
        ALL[name]([[1.0, 2.0], [3.0]], small(pairs)[1])


@every_measure
def test_lists_of_lists_are_taken(pairs, name):
    X, Y = small(pairs)
    ALL[name](X.tolist(), Y.tolist())


@pytest.mark.parametrize("name", [*TWO, *PAIRED, "measure"])
def test_numpy_and_torch_are_not_mixed(pairs, name):
    torch = pytest.importorskip("torch")
    X, Y = small(pairs)
    with pytest.raises(TypeError, match="must both be NumPy arrays or both torch tensors, got"):
        ALL[name](X, torch.from_numpy(Y))


@pytest.mark.parametrize("dtype", ["int64", "bool", "complex64"])
def test_tensors_of_other_numbers_are_refused(pairs, dtype):
    torch = pytest.importorskip("torch")
    X, Y = (torch.from_numpy(A) for A in small(pairs))
    message = f"X must hold float16, float32 or float64, got {dtype}"
    with pytest.raises(TypeError, match=message):
        m.gap_distance(X.to(getattr(torch, dtype)), Y)


def test_tensors_that_need_gradients_are_taken(pairs):
    torch = pytest.importorskip("torch")
    X, Y = (torch.from_numpy(A).requires_grad_() for A in small(pairs))
    assert m.contrastive_loss(X, Y, 0.1) == pytest.approx(
        reference.contrastive_loss(X.detach(), Y.detach(), 0.1)
    )


@every_measure
def test_input_is_never_changed(pairs, library, name):
    X, Y = (library(A) for A in small(pairs))
    before = np.asarray(X).copy(), np.asarray(Y).copy()
    ALL[name](X, Y)
    assert (np.asarray(X) == before[0]).all()
    assert (np.asarray(Y) == before[1]).all()


@every_measure
def test_read_only_rows_are_taken(pairs, name):
    X, Y = small(pairs)
    X.flags.writeable = Y.flags.writeable = False
    ALL[name](X, Y)


def flat(value) -> list[float]:
    """Every number of a result, one after the other."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [number for item in value for number in flat(item)]
    if hasattr(value, "to_dict"):
        return flat(value.to_dict())
    if isinstance(value, str) or value is None:
        return []
    if hasattr(value, "tolist"):
        return flat(value.tolist())
    return [float(value)]


@pytest.mark.parametrize("kind", ["numpy", "torch"])
@pytest.mark.parametrize("name", [name for name in ALL if name != "measure"])
def test_float16_gives_what_the_same_numbers_give_in_float64(pairs, name, kind):
    X, Y = (A.astype(np.float16) for A in small(pairs))
    expected = flat(ALL[name](X.astype(np.float64), Y.astype(np.float64)))
    if kind == "torch":
        torch = pytest.importorskip("torch")
        X, Y = torch.from_numpy(X), torch.from_numpy(Y)
    if name in BINNED:
        found = flat(ALL[name](X, Y))
        assert len(found) == len(expected)
        assert np.isfinite(found).all()
    else:
        assert flat(ALL[name](X, Y)) == pytest.approx(expected, rel=1e-3, abs=1e-3)


@pytest.mark.parametrize("scale", [1e-30, 1e30])
@pytest.mark.parametrize("kind", ["numpy", "torch"])
@pytest.mark.parametrize("name", [n for n in ALL if n not in ("measure", *BINNED)])
def test_tiny_and_huge_float32_rows_give_what_float64_gives(pairs, name, kind, scale):
    X, Y = ((scale * A).astype(np.float32) for A in small(pairs))
    expected = flat(ALL[name](X.astype(np.float64), Y.astype(np.float64)))
    if kind == "torch":
        torch = pytest.importorskip("torch")
        X, Y = torch.from_numpy(X), torch.from_numpy(Y)
    assert flat(ALL[name](X, Y)) == pytest.approx(expected, rel=1e-4, abs=1e-4 * min(1, scale))


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_measure_takes_tiny_and_huge_float32_rows(pairs, library, scale):
    X, Y = (library(scale * A, "float32") for A in small(pairs))
    result, plain = m.measure(X, Y), m.measure(*(library(A, "float32") for A in small(pairs)))
    assert result.gap_distance == pytest.approx(scale * plain.gap_distance, rel=1e-4)
    assert result.pairs.alignment == pytest.approx(plain.pairs.alignment, abs=1e-4)
    assert result.pairs.loss.loss == pytest.approx(plain.pairs.loss.loss, abs=1e-4)
    assert result.pairs.origin_landscape.loss == pytest.approx(
        plain.pairs.origin_landscape.loss, abs=1e-3
    )


@pytest.mark.parametrize(
    "module",
    [
        "moments",
        "measures.gap",
        "measures.cone",
        "measures.uniformity",
        "measures.ellipsoid",
        "measures.conformity",
        "measures.loss",
        "measures.landscape",
        "measures.summary",
    ],
)
def test_the_examples_in_the_docstrings_are_right(module):
    found = doctest.testmod(importlib.import_module(f"modgap.{module}"))
    assert found.failed == 0


@pytest.mark.parametrize(("factor", "what"), [(1e300, "beyond 1e100"), (1e-300, "below 1e-100")])
def test_numbers_whose_squares_leave_the_range_of_floats_are_refused(pairs, factor, what):
    X, Y = (side * factor for side in pairs)
    with pytest.raises(ValueError, match=f"X has 60 rows with .*{what}"):
        m.cone(X)
    with pytest.raises(ValueError, match=what):
        m.measure(X, Y)
