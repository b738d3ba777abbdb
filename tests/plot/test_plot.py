from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from modgap import plot
from modgap.core.checks import InputValueError
from modgap.tasks import sweep_task, zero_shot_task
from task_rows import planted

matplotlib = pytest.importorskip("matplotlib", reason="matplotlib is not installed")


@pytest.fixture(autouse=True)
def _no_window():
    matplotlib.use("Agg")
    yield
    import matplotlib.pyplot as pyplot

    pyplot.close("all")


X = np.linspace(0.1, 1.0, 20)
POINTS = np.random.default_rng(0).standard_normal((12, 2))
SOLID = np.random.default_rng(1).standard_normal((5, 3))


def draw_each(new: Callable[[], Any] = lambda: None) -> dict[str, Any]:
    """Every kind that draws in the plane, once."""
    return {
        "curves": plot.curves(
            X,
            {"a": X, "b": X**2},
            xlabel="x",
            ylabel="y",
            log="xy",
            marks={"a": (0.5, 0.5), "other": ([0.2], [0.4])},
            bands={"a": (X - 0.05, X + 0.05)},
            vertical={"here": 0.3},
            ax=new(),
        ),
        "histograms": plot.histograms([0, 1, 2], {"a": [1, 3], "b": [2, 2]}, xlabel="x", ax=new()),
        "pairs": plot.projection_pairs(POINTS, POINTS + 1, names=("image", "text"), ax=new()),
        "scatter": plot.scatter(
            {"a": POINTS, "b": POINTS + 1}, xlabel="x", ylabel="y", line=(1.0, 0.0), ax=new()
        ),
        "bars": plot.bars(
            {"a": 1.0, "b": 2.0}, ylabel="y", errors={"a": 0.1}, reference=1, ax=new()
        ),
        "ranges": plot.ranges([("a", 1, 0, 2), ("b", 2, 1, 3)], xlabel="x", ax=new()),
        "many": plot.scatter([POINTS] * 30, ax=new()),
        "images": plot.image_grid([np.eye(8)] * 5, list("abcde"), ax=new()),
    }


def test_every_kind_draws_into_axes_of_its_own():
    for ax in draw_each().values():
        ax.figure.canvas.draw()
        assert ax.has_data() or ax.images


def test_every_kind_draws_into_given_axes_and_returns_them():
    figure, axes = plot.panels(8)
    left = iter(axes)
    for ax, given in zip(draw_each(lambda: next(left)).values(), axes, strict=True):
        assert ax is given
    figure.canvas.draw()


def test_curves_draw_exactly_what_they_are_given():
    ax = plot.curves({"a": [1, 2], "b": [3, 4]}, {"a": [5, 6], "b": [7, 8]}, xlabel="x", ylabel="y")
    drawn = [line.get_xydata().tolist() for line in ax.get_lines()]
    assert drawn == [[[1, 5], [2, 6]], [[3, 7], [4, 8]]]


def test_curves_differ_in_colour_and_in_dashes():
    ax = plot.curves(X, {str(k): k * X for k in range(14)}, xlabel="x", ylabel="y")
    styles = {(line.get_color(), str(line._dash_pattern)) for line in ax.get_lines()}
    assert len(styles) == 14


def test_density_has_area_one_for_uneven_bins():
    edges = np.array([0.0, 1.0, 3.0])
    ax = plot.histograms(edges, {"a": [2, 2]}, xlabel="x")
    heights = ax.patches[-1].get_data().values
    assert float(heights @ np.diff(edges)) == pytest.approx(1)


def test_a_pair_is_joined_with_its_own_row():
    ax = plot.projection_pairs(POINTS, POINTS[::-1], names=("a", "b"))
    segments = ax.collections[0].get_segments()
    np.testing.assert_allclose(segments[3], [POINTS[3], POINTS[-4]])


def test_sphere_takes_axes_in_three_dimensions_only():
    figure, axes = plot.panels(2, solid=(1,))
    assert plot.sphere(SOLID, SOLID, ax=axes[1]) is axes[1]
    figure.canvas.draw()
    with pytest.raises(InputValueError, match="3-D axes"):
        plot.sphere(SOLID, SOLID, ax=axes[0])
    assert plot.sphere(SOLID, SOLID).name == "3d"


def test_panels_are_not_kept_by_pyplot():
    import matplotlib.pyplot as pyplot

    figures = [plot.panels(3, columns=2)[0] for _ in range(2)]
    assert pyplot.get_fignums() == []
    assert figures[0].get_size_inches().tolist() == [8, 6]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: plot.curves(X, {"a": X[:3]}, xlabel="", ylabel=""), r"ys\['a'\]"),
        (lambda: plot.curves(X, {"a": X}, xlabel="", ylabel="", log="z"), "log"),
        (lambda: plot.histograms([0, 1], {"a": [1, 2]}, xlabel=""), r"counts\['a'\]"),
        (lambda: plot.projection_pairs(POINTS, POINTS[:3], names=("a", "b")), "lines=False"),
        (lambda: plot.projection_pairs(SOLID, SOLID, names=("a", "b")), "shape"),
        (lambda: plot.sphere(SOLID, SOLID[:2]), "same pairs"),
        (lambda: plot.image_grid([np.eye(2)], []), "caption"),
    ],
)
def test_what_does_not_fit_is_refused(call, words):
    with pytest.raises(InputValueError, match=words):
        call()


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"modgap\[plot\]"):
        plot.panels(1)


def test_a_swept_task_is_a_curve_for_each_move_and_an_interval_for_each_way():
    found = sweep_task(zero_shot_task(*planted()), resamples=100)
    curve, tests = plot.task_curve(found), plot.task_tests(found)
    shown = [text.get_text() for text in curve.get_legend().get_texts()]
    moves = ["Shift", "Center", "OrthogonalShift, 100 %", "OrthogonalShift, 95 %"]
    assert shown == [*moves, "as they are"]
    line = curve.get_lines()[0]
    assert list(line.get_xdata()) == [point.amount for point in found.of("Shift")]
    assert list(line.get_ydata()) == [point.value.value for point in found.of("Shift")]
    assert 0.0 in line.get_xdata()
    labels = [text.get_text().partition(", at")[0] for text in tests.get_yticklabels()]
    assert labels == [test.way for test in found.tests]
    assert len(plot.task_figure(found, title="zero-shot").axes) == 2
