"""The nearest document of each query as documents are moved, from one product."""

from __future__ import annotations

from modgap._arrays.base import row_blocks
from modgap._arrays.cuda import full_precision
from modgap._validate import Array

_ROWS, _COLUMNS = 16, 256
_SCORES_BYTES = 2**29


def draws_at_once(n_queries: int, n_documents: int, itemsize: int = 4) -> int:
    """How many sets of documents to search together, so that a product keeps a card busy."""
    return max(1, min(8, _SCORES_BYTES // max(1, n_queries * n_documents * itemsize)))


def nearest_moved(queries: Array, documents: Array, biases: Array | None) -> Array:
    """Index of the largest q · d + bias, (draws, amounts, queries).

    ``documents`` is (draws, m, d), ``biases`` (draws, amounts, m); without these there is one
    amount. Of equal ones the first. Nothing is read from the card.
    """
    import torch

    from modgap._arrays.cuda.kernels import best_of_moved

    device, dtype = queries.device, queries.dtype
    n, (draws, m, dim) = queries.shape[0], documents.shape
    if biases is None:
        biases = torch.zeros((draws, 1, m), dtype=dtype, device=device)
    amounts = biases.shape[1]
    found = torch.empty((draws, amounts, n), dtype=torch.int64, device=device)
    size = max(_ROWS, _SCORES_BYTES // (draws * m * dtype.itemsize))
    scratch = torch.empty((min(size, n), draws * m), dtype=dtype, device=device)
    columns = documents.reshape(draws * m, dim).T
    with full_precision(queries), torch.cuda.device(device):
        for rows in row_blocks(n, size):
            count = rows.stop - rows.start
            scores = torch.mm(queries[rows], columns, out=scratch[:count])
            best_of_moved[(amounts, -(-count // _ROWS), draws)](
                scores, biases, found, count, m, draws * m, rows.start, n, amounts,
                ROWS=_ROWS, COLUMNS=_COLUMNS,
            )  # fmt: skip
    return found
