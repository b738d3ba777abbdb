"""What every measure has in common: it refuses bad rows, takes any precision, changes no input."""

from __future__ import annotations

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


def put(where, value, side=0):
    """Two sides of which one has other numbers somewhere."""

    def change(*sides):
        sides[side][where] = value
        return sides

    return change


def as_dtype(dtype):
    return lambda X, Y: (X.astype(dtype), Y)


BOTH = [*TWO, *PAIRED, "measure"]
TYPE = r"must hold float16, float32 or float64, got .*\. "
ANY_LIBRARY = {
    **{
        str(value): (
            ALL,
            put(([2, 5], 1), value),
            r"has 2 rows with NaN or infinity, the first at row 2\. Drop them from both sides",
        )
        for value in (math.nan, math.inf, -math.inf)
    },
    "no direction": (UNIT, put(4, 0), r"has 1 row with length zero, the first at row 4\."),
    "columns": (BOTH, lambda X, Y: (X, Y[:, :3]), "the same number of columns, got 4 and 3"),
}
REFUSED = {
    "the other side": (
        BOTH, put((3, 0), math.nan, side=1),
        r"(Y|text|reference) has 1 row with NaN .* at row 3\.",
    ),
    **{
        f"empty {shape}": (
            ALL, lambda X, Y, shape=shape: (np.zeros(shape), Y),
            "must have at least one row and one column, got shape",
        )
        for shape in ((0, 4), (8, 0))
    },
    **{
        what: (
            ALL, lambda X, Y, place=place: (X[place], Y),
            "must be a matrix with one row per item, got shape",
        )
        for what, place in (("a vector", 0), ("a stack", None))
    },
    "one row": (AT_LEAST_TWO, lambda X, Y: (X[:1], Y[:1]), "X needs at least 2 rows, got 1"),
    "other numbers of rows": (
        PAIRED, lambda X, Y: (X, Y[:7]), r"same pairs row by row, got \(8, 4\) and \(7, 4\)"
    ),
    "whole numbers": (ALL, as_dtype(np.int64), TYPE + "Convert the rows to float32"),
    "truths": (ALL, as_dtype(np.bool_), TYPE + "Convert the rows to float32"),
    "texts": (ALL, as_dtype(np.str_), TYPE + "Convert the rows to float32"),
    "complex numbers": (ALL, as_dtype(np.complex128), TYPE + "Take the real part"),
    "objects": (ALL, as_dtype(object), TYPE + "Rows of different lengths or Python objects"),
    "ragged lists": (
        ALL, lambda X, Y: ([[1.0, 2.0], [3.0]], Y),
        "must be a matrix, but its rows do not have the same",
    ),
    "a tensor and an array": (
        BOTH, lambda X, Y: (X, pytest.importorskip("torch").from_numpy(Y)),
        "must both be NumPy arrays or both torch tensors, got",
    ),
}  # fmt: skip
NOT_TO_A_REFERENCE = ALL.keys() - {"conformity to a reference"}
TAKEN = {
    "rows of length zero": (NOT_TO_A_REFERENCE - set(UNIT), put(4, 0)),
    "one row": (NOT_TO_A_REFERENCE - set(AT_LEAST_TWO), lambda X, Y: (X[:1], Y[:1])),
    "other numbers of rows": (TWO, lambda X, Y: (X, Y[:7])),
    "lists of lists": (ALL, lambda X, Y: (X.tolist(), Y.tolist())),
}


def each(table):
    """Every case of a table with every measure that it is about."""
    cases = [(what, name) for what, (names, *_) in table.items() for name in sorted(names)]
    return pytest.mark.parametrize(("what", "name"), cases)


@each(ANY_LIBRARY)
def test_bad_rows_of_any_library_are_refused(pairs, library, what, name):
    _, change, message = ANY_LIBRARY[what]
    with pytest.raises(ValueError, match=message):
        ALL[name](*map(library, change(*small(pairs))))


@each(REFUSED)
def test_what_is_no_matrix_of_embeddings_is_refused(pairs, what, name):
    _, change, message = REFUSED[what]
    with pytest.raises((ValueError, TypeError), match=message):
        ALL[name](*change(*small(pairs)))


@each(TAKEN)
def test_what_a_measure_can_use_is_taken(pairs, what, name):
    ALL[name](*TAKEN[what][1](*small(pairs)))


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


@pytest.mark.parametrize(("factor", "what"), [(1e300, "beyond 1e100"), (1e-300, "below 1e-100")])
def test_numbers_whose_squares_leave_the_range_of_floats_are_refused(pairs, factor, what):
    X, Y = (side * factor for side in pairs)
    with pytest.raises(ValueError, match=f"X has 60 rows with .*{what}"):
        m.cone(X)
    with pytest.raises(ValueError, match=what):
        m.measure(X, Y)
