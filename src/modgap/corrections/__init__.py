"""Fix the gap: every method fits a ``Correction``, a small file of affine maps."""

from modgap.core.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
