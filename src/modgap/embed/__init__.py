"""Pictures, sounds and texts to rows: one interface to the models that people have."""

from modgap.core.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
