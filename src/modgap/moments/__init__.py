"""Counts, means and second moments that add: the part of every measure that one pass can give.

``Moments`` describe one modality, ``PairMoments`` two; ``a + b`` describes the rows of both.
A measure that needs only moments has its one formula here; the array form calls it on the
moments of its arrays, the streamed form on moments gathered from shards.

>>> import numpy as np
>>> X = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
>>> first, rest = Moments.from_batch(X[:1]), Moments.from_batch(X[1:])
>>> (first + rest).given.mean.round(3).tolist()
[0.667, 0.667]
"""

from modgap.moments.modality import Moments
from modgap.moments.pair import Cross, PairMoments, mean_distances, stacked_uniformity
from modgap.moments.rows import Detail, RowMoments

__all__ = [
    "Cross",
    "Detail",
    "Moments",
    "PairMoments",
    "RowMoments",
    "mean_distances",
    "stacked_uniformity",
]
