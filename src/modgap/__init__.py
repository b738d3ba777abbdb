"""Measure, explain and fix the modality gap of CLIP-like embeddings.

What is typed most is here; the rest lives in its package, ``modgap.measures`` or
``modgap.corrections`` for instance. Names are resolved when first used, so that ``import modgap``
stays light: it loads neither torch nor scikit-learn nor anything that draws.
"""

from modgap._version import __version__ as __version__
from modgap.core.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
