"""Drift of two sets of rows, and the monitor of a live stream."""

from modgap.core.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
