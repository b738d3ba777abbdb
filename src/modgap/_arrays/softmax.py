"""Log-sum-exp over the rows and columns of a matrix that arrives in blocks of rows."""

from __future__ import annotations

from modgap._arrays.base import namespace, widen
from modgap._validate import Array


def log_sum_exp(A: Array, axis: int) -> Array:
    """log Σ exp along an axis, shifted by the largest value so that nothing overflows."""
    xp = namespace(A)
    top = xp.max(A, axis=axis, keepdims=True)
    total = xp.sum(widen(xp.exp(A - top)), axis=axis)
    return widen(xp.squeeze(top, axis=axis)) + xp.log(total)


class RunningLogSumExp:
    """log Σ exp of each column, over blocks of rows that come one after the other."""

    def __init__(self) -> None:
        self._value: Array | None = None

    def add(self, block: Array) -> None:
        """Take in the next rows."""
        new = log_sum_exp(block, axis=0)
        self._value = new if self._value is None else log_add_exp(self._value, new)

    def value(self) -> Array:
        """The result so far."""
        return self._value


def log_add_exp(a: Array, b: Array) -> Array:
    """log(exp a + exp b) without overflow."""
    xp = namespace(a, b)
    top = xp.maximum(a, b)
    return top + xp.log(xp.exp(a - top) + xp.exp(b - top))
