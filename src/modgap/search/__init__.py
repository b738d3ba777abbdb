"""One meaning of a score, larger is nearer: exact search, hits, merging, probabilities, cut-offs.

A score is the cosine, the inner product, or −‖q − d‖² for Euclidean distance.
"""

from modgap.core.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
