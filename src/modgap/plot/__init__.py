"""Pictures of results: one function per kind of figure. They draw what they get, nothing more."""

from modgap.plot.bars import bars
from modgap.plot.cones import cones
from modgap.plot.curves import curves
from modgap.plot.histograms import histograms
from modgap.plot.images import image_grid
from modgap.plot.intervals import intervals
from modgap.plot.pairs import projection_pairs
from modgap.plot.panels import panels
from modgap.plot.points import scatter
from modgap.plot.sphere import sphere

__all__ = [
    "bars",
    "cones",
    "curves",
    "histograms",
    "image_grid",
    "intervals",
    "panels",
    "projection_pairs",
    "scatter",
    "sphere",
]
