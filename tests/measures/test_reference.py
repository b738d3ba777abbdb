"""Every measure is its slow reference, in both libraries and precisions."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

import reference

# Not "from modgap import measure": that name is the function.
m = importlib.import_module("modgap.measures")


def fields(result, *names):
    return [getattr(result, name) for name in names]


def gap(X, Y):
    return [m.gap_vector(X, Y), m.gap_distance(X, Y)]


def slow_gap(X, Y):
    return [reference.gap_vector(X, Y), reference.gap_distance(X, Y)]


def estimate(X):
    lines = ("slope", "intercept", "inverse_slope", "inverse_intercept", "pearson", "predicted")
    return fields(m.estimated_conformity(X), "values", *lines)


# The measure and its reference; of as many rows on both sides, of one side, of sides unlike.
PAIRS = {
    "gap": (gap, slow_gap),
    "local gaps": (m.local_gaps, reference.local_gaps),
    "margin": (m.margin, reference.margin),
    "alignment": (m.alignment, reference.alignment),
    "conformity difference": (
        m.conformity_difference,
        lambda X, Y: reference.conformity(X) - reference.conformity(Y),
    ),
}
ONE = {
    "uniformity": (m.uniformity, reference.uniformity),
    "feature offset": (m.feature_offset, reference.feature_offset),
    "feature variance": (
        lambda X: fields(m.feature_variance(X), "values", "tail"),
        reference.feature_variance,
    ),
    "off-diagonal dominance": (m.off_diagonal_dominance, reference.off_diagonal_dominance),
    "shell": (
        lambda X: fields(
            m.shell(X), "radius", "variance", "sqrt_trace", "relative_error", "offset"
        ),
        reference.shell,
    ),
    "conformity": (m.conformity, reference.conformity),
    "estimated conformity": (estimate, reference.estimated_conformity),
    "blur": (lambda X: fields(m.blur(X), "to_mean", "to_outlier", "outlier"), reference.blur),
}
TWO = {
    "gap of other numbers": (gap, slow_gap),
    "separability": (m.separability, reference.separability),
    "conformity to a reference": (m.conformity, reference.conformity),
    "wasserstein uniformity": (m.wasserstein_uniformity, reference.wasserstein_uniformity),
}
ALL = {
    **PAIRS,
    **{name: [lambda X, Y, f=f: f(X) for f in both] for name, both in ONE.items()},
    **{name: [lambda X, Y, f=f: f(X, Y[:17]) for f in both] for name, both in TWO.items()},
}


@pytest.mark.parametrize("name", ALL)
def test_a_measure_is_its_reference(library, pairs, name):
    X, Y = (library(A) for A in pairs)
    found, expected = (function(X, Y) for function in ALL[name])
    both = (found, expected) if isinstance(found, list) else ([found], [expected])
    for ours, slow in zip(*both, strict=True):
        if not isinstance(ours, (int, float)):
            ours = library.check_kind(ours)
        assert ours == library.close(slow)


ROWS = np.random.default_rng(0).normal(size=(2, 60, 4))
OPPOSITE = np.array([[1.0, 2.0], [-1.0, -2.0]])
BROAD = np.full((2, 2), 65504, np.float16)
BROAD[1, 1] = np.inf
NUMBER, ABOVE_0 = "must be a number, got", "must be a finite number above 0"


@pytest.mark.parametrize(
    ("call", "said"),
    [
        *(
            (lambda X, Y, f=f, t=t: f(X, Y, t), f"temperature {ABOVE_0}, got")
            for f in (m.contrastive_loss, m.loss_terms, m.soft_assignments)
            for t in (0.0, -1.0, np.nan, np.inf)
        ),
        *(
            (lambda X, Y, t=t: m.contrastive_loss(X, Y, t), f"temperature {NUMBER}")
            for t in ("0.1", None, True, [0.1])
        ),
        (lambda X, Y: m.contrastive_loss(X, Y, 1, 0), "batch_size must be at least 1, got 0"),
        (lambda X, Y: m.contrastive_loss(X, Y, 1, 2.5), r"batch_size must be a whole .*got 2\.5"),
        (lambda X, Y: m.contrastive_loss(X, Y, 1, None, "cosin"), "Did you mean 'cosine'"),
        *(
            (lambda X, Y, f=f, b=b: f(X, Y, bins=b), f"bins must be at least 1, got {b}")
            for f in (
                m.feature_divergence,
                m.conformity_divergence,
                m.gap_orthogonality,
                m.origin_landscape,
            )
            for b in (0, -3)
        ),
        (lambda X, Y: m.feature_divergence(X, Y, 2.0), r"bins must be a whole number, got 2\.0"),
        (lambda X, Y: m.shift_landscape(X, Y, [0, np.nan]), "lambdas must be finite numbers, got"),
        (lambda X, Y: m.origin_landscape(X, Y, [np.inf]), "alphas must be finite numbers, got"),
        (lambda X, Y: m.shift_landscape(X, Y, []), "lambdas must be a non-empty list of numbers"),
        (lambda X, Y: m.origin_landscape(X, Y, ["a"]), "alphas must be numbers, got"),
        (lambda X, Y: m.shift_landscape(X, Y, [0], [0.1, 0]), "temperatures must be finite numb"),
        (lambda X, Y: m.origin_landscape(X, Y, temperature=-1), f"temperature {ABOVE_0}"),
        (lambda X, Y: m.origin_landscape(X, Y, move="z"), "one of 'x', 'y', 'both', got 'z'"),
        (
            lambda X, Y: m.origin_landscape(np.ones((2, 2)), np.ones((2, 2)), [0.0, 1.0]),
            "moves a row onto the origin",
        ),
        (
            lambda X, Y: m.shift_landscape(OPPOSITE[:1], OPPOSITE[1:], [0.5]),
            "moves a row onto the origin",
        ),
        *(
            (lambda X, Y, c=c: m.log10_cap_fraction(c, 3), f"cosine must be {said}")
            for c, said in (
                (1.0, "at least"),
                (-1.01, "at least -1 and below 1"),
                (np.nan, "finite"),
            )
        ),
        (lambda X, Y: m.log10_cap_fraction(0.5, 1), "dim must be at least 2, got 1"),
        (lambda X, Y: m.blur(OPPOSITE), "the mean of X is zero"),
        (lambda X, Y: m.shell(np.ones((3, 2))), "rows that differ: all of them are the same"),
        (lambda X, Y: m.vslerp(*OPPOSITE, 0.5, 0.0, np.zeros(2)), "undefined between opposite vec"),
        (lambda X, Y: m.vslerp(*OPPOSITE, 0.5, 1.0, OPPOSITE[0]), r"differ from alpha \* mean"),
        (lambda X, Y: m.gap_distance(BROAD, BROAD), "float16 overflows above 65504: keep such"),
        (lambda X, Y: m.projection(X, Y, "pcaa"), "pca"),
        (lambda X, Y: m.profile(X, Y, sample=1), "sample must be at least 2, got 1"),
        (lambda X, Y: m.measure(X, Y, sample=1), "sample must be at least 2, got 1"),
        (lambda X, Y: m.measure(X, Y[:40], paired=True), r"60 and 40 rows\. Pass groups=\(gx, gy"),
        (lambda X, Y: m.measure(X, Y, groups=([1], [1])), "one label per row of image: 60 rows"),
        (lambda X, Y: m.measure(X, Y, groups="ab"), r"groups must be two sequences \(gx, gy\)"),
        (
            lambda X, Y: m.measure(X, Y, groups=(np.zeros(60), np.ones(60))),
            "No group has rows on both sides",
        ),
        *(
            (
                lambda X, Y, names=names: m.measure(X, Y, names=names),
                "(names must be two|Modality names must differ)",
            )
            for names in (("a", "a"), ("a",), ("", "b"), "ab", ("a.b", "c"))
        ),
    ],
)
def test_settings_that_mean_nothing_are_refused_in_a_sentence(call, said):
    with pytest.raises((ValueError, TypeError), match=said):
        call(*ROWS)
