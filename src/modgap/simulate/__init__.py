"""What the papers say happens, made to happen on made-up data.

Names are resolved when first used: importing this loads neither torch nor numba nor anything that
draws.
"""

from modgap.core.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
