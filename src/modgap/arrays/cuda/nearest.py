"""The nearest document of each query as documents are moved, from one product."""

from __future__ import annotations

from modgap.arrays.base import row_blocks
from modgap.arrays.cuda import full_precision
from modgap.core.checks import Array

# Bytes of a tile of scores, which holds whole rows of up to so many columns, and its warps.
_TILE_BYTES, _WHOLE, _WARPS = 2**14, 2048, 4
_SCORES_BYTES = 2**29


def draws_at_once(n_queries: int, n_documents: int) -> int:
    """How many sets of documents to search together, so that a product keeps a card busy."""
    product_bytes = 4 * n_queries * n_documents  # in float32
    return max(1, min(8, _SCORES_BYTES // max(1, product_bytes)))


def nearest_moved(queries: Array, documents: Array, biases: Array | None) -> Array:
    """Index of the largest q · d + bias, (draws, amounts, queries).

    ``documents`` is (draws, m, d), ``biases`` (draws, amounts, m); without these there is one
    amount. Of equal ones the first. Nothing is read from the card.
    """
    import torch

    from modgap.arrays.cuda.kernels import best_of_moved

    device, dtype = queries.device, queries.dtype
    n, (draws, m, dim) = queries.shape[0], documents.shape
    if biases is None:
        biases = torch.zeros((draws, 1, m), dtype=dtype, device=device)
    amounts = biases.shape[1]
    found = torch.empty((draws, amounts, n), dtype=torch.int64, device=device)
    width = min(_WHOLE, 1 << (m - 1).bit_length())  # a power of two, as Triton needs it
    height = max(1, _TILE_BYTES // (width * dtype.itemsize))
    size = max(height, _SCORES_BYTES // (draws * m * dtype.itemsize))
    scratch = torch.empty((min(size, n), draws * m), dtype=dtype, device=device)
    columns = documents.reshape(draws * m, dim).T
    with full_precision(queries), torch.cuda.device(device):
        for rows in row_blocks(n, size):
            count = rows.stop - rows.start
            scores = torch.mm(queries[rows], columns, out=scratch[:count])
            best_of_moved[(-(-count // height), draws)](
                scores, biases, found, count, m, draws * m, rows.start, n, amounts,
                WHOLE=m <= width, ROWS=height, COLUMNS=width, num_warps=_WARPS,
            )  # fmt: skip
    return found
