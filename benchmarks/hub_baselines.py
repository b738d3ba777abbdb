"""What others do about hubs, on cosines: the baselines of benchmarks/hubs.py.

Each takes unit rows, queries Q, documents D, a bank of queries and the documents that belong to the
bank, and gives a matrix of scores, queries by documents. Settings are those of the papers or of
their published code.
"""

from __future__ import annotations

import numpy as np


def top_mean(scores: np.ndarray, k: int) -> np.ndarray:
    """The mean of the k largest scores of each row."""
    return np.partition(scores, -k, axis=1)[:, -k:].mean(axis=1)


def cosine(Q, D, bank, bank_documents):
    return Q @ D.T


def qb_norm(Q, D, bank, bank_documents, beta: float = 20.0):
    """Querybank normalisation with the dynamic inverted softmax (Bogolin et al. 2022).

    A query whose nearest document is also the nearest of a query of the bank is ranked by
    exp(β s) / Σ exp(β s of the bank); the others by their cosines.
    """
    scores, probes = Q @ D.T, bank @ D.T
    active = np.isin(scores.argmax(axis=1), probes.argmax(axis=1))
    log_sums = np.log(np.exp(beta * probes).sum(axis=0))
    return np.where(active[:, None], beta * scores - log_sums, scores)


def csls(Q, D, bank, bank_documents, k: int = 10):
    """Cross-domain similarity local scaling (Conneau et al. 2018): 2 s − r(query) − r(document).

    The document's neighbours are those of the bank; the query's are the documents, and the same
    for all of its scores.
    """
    scores = Q @ D.T
    k_documents, k_bank = min(k, len(D)), min(k, len(bank))
    return 2 * scores - top_mean(scores, k_documents)[:, None] - top_mean(D @ bank.T, k_bank)


def nnn(Q, D, bank, bank_documents, weight: float = 0.5, k: int = 10):
    """NNN (Chowdhury et al. 2024): s − α · mean of the k best of a bank."""
    return Q @ D.T - weight * top_mean(D @ bank.T, k)


def dbsn(Q, D, bank, bank_documents, temperature: float = 0.01, iterations: int = 10):
    """Dual bank Sinkhorn normalisation (Pan et al. 2025).

    The documents and those of the bank, against the bank's queries, are brought to equal sums of
    rows and of columns; the log of a document's factor is added to its cosine.
    """
    log_kernel = np.vstack([D, bank_documents]) @ bank.T / temperature
    u = np.zeros(len(log_kernel))
    for _ in range(iterations):
        v = -_log_sum_exp(log_kernel + u[:, None], axis=0)
        u = -_log_sum_exp(log_kernel + v, axis=1)
    return Q @ D.T + temperature * u[: len(D)]


def _log_sum_exp(values: np.ndarray, axis: int) -> np.ndarray:
    top = values.max(axis=axis)
    return top + np.log(np.exp(values - np.expand_dims(top, axis)).sum(axis=axis))
