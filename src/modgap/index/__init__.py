"""One index for both modalities: a correction inside FAISS and the databases people have.

`open_index` chooses by address; each database is one file and one extra. Names are resolved when
first used, so that no database's library is looked for before it is needed.
"""

from modgap.core.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
