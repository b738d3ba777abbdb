"""NumPy and torch behind one namespace, and the few block kernels everything else is built on.

Formulas elsewhere are written once against the array API. The kernels here may have a NumPy and
a torch body where one way is not the fastest on both; the tests hold the two bodies equal.
"""

from modgap.arrays.base import (
    along,
    as_float,
    at_unit_length,
    cached_blocks,
    filled,
    has_unit_lengths,
    is_torch,
    is_unit,
    largest_norm,
    like,
    namespace,
    paired_dots,
    row_blocks,
    row_norms,
    rows_per_block,
    sum_squares,
    to_numpy,
    unit,
    wide_dtype,
    widen,
)
from modgap.arrays.cosines import (
    CosineExponentials,
    CosineSpread,
    cosine_extremes,
    cosine_histogram,
    order_statistic,
    paired_cosine_histogram,
)
from modgap.arrays.histogram import histogram, shared_range
from modgap.arrays.product import (
    Consumer,
    Listener,
    Scratch,
    Tile,
    half_product_pass,
    listening,
    passed,
    product_pass,
)
from modgap.arrays.ranks import match_ranks, query_ranks
from modgap.arrays.search import top_k
from modgap.arrays.softmax import LogSums, SoftmaxSums
from modgap.arrays.top_mean import top_mean

__all__ = [
    "Consumer",
    "CosineExponentials",
    "CosineSpread",
    "Listener",
    "LogSums",
    "Scratch",
    "SoftmaxSums",
    "Tile",
    "along",
    "as_float",
    "at_unit_length",
    "cached_blocks",
    "cosine_extremes",
    "cosine_histogram",
    "filled",
    "half_product_pass",
    "has_unit_lengths",
    "histogram",
    "is_torch",
    "is_unit",
    "largest_norm",
    "like",
    "listening",
    "match_ranks",
    "namespace",
    "order_statistic",
    "paired_cosine_histogram",
    "paired_dots",
    "passed",
    "product_pass",
    "query_ranks",
    "row_blocks",
    "row_norms",
    "rows_per_block",
    "shared_range",
    "sum_squares",
    "to_numpy",
    "top_k",
    "top_mean",
    "unit",
    "wide_dtype",
    "widen",
]
