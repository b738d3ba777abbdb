"""Pictures of results: one function per kind of figure. They draw what they get, nothing more.

Each takes ``title`` and ``ax``, draws into those axes or into new ones, and returns the axes.
"""

from modgap.core.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
