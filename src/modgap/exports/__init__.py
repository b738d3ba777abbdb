"""A correction for services without modgap: numbers and a function that merges result lists."""

from modgap.core.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
