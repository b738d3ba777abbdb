"""The same work beyond one machine: on Ray, in Arrow functions for Spark, in Lance columns."""

from modgap.core.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
