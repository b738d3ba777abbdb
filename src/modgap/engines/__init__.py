"""Past one machine: the same work on engines people run, and the monitor of a live stream."""

from modgap._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
