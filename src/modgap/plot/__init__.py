"""Pictures of results: one function per kind of figure. They draw what they get, nothing more.

Each takes ``title`` and ``ax``, draws into those axes or into new ones, and returns the axes.
"""

from modgap.plot._bars import bars, histograms, intervals, ranges
from modgap.plot._curves import curves
from modgap.plot._draw import draw
from modgap.plot._images import filmstrip, image_grid
from modgap.plot._panels import panels
from modgap.plot._points import cones, projection_pairs, scatter, sphere
from modgap.plot._tasks import task_curve, task_figure, task_tests

__all__ = [
    "bars",
    "cones",
    "curves",
    "draw",
    "filmstrip",
    "histograms",
    "image_grid",
    "intervals",
    "panels",
    "projection_pairs",
    "ranges",
    "scatter",
    "sphere",
    "task_curve",
    "task_figure",
    "task_tests",
]
