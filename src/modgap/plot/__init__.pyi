from ._bars import bars, histograms, ranges
from ._curves import curves
from ._images import filmstrip, image_grid
from ._of_results import draw, task_curve, task_figure, task_tests
from ._points import projection_pairs, scatter, sphere
from ._style import panels

__all__ = [
    "bars",
    "curves",
    "draw",
    "filmstrip",
    "histograms",
    "image_grid",
    "panels",
    "projection_pairs",
    "ranges",
    "scatter",
    "sphere",
    "task_curve",
    "task_figure",
    "task_tests",
]
