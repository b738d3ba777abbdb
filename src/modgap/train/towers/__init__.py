"""Torch encoders built from configurations, and two-tower models with their tokenizers."""

from modgap.core.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__, needs={"torch": ("towers", "A tower")})
